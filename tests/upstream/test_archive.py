"""What of a source package reaches git, and what is refused."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.packages import (
    TOP,
    expected_tree,
    make_sdist,
    make_tar,
    regular,
    special,
    tree_files,
)
from upstream.archive import goes_up_again, import_tree, quote_path
from upstream.errors import EnvironmentFault
from upstream.git import Git

REF = "refs/importing/test"
INSIDE = f"pkg/{TOP}"
Member = tuple[tarfile.TarInfo, bytes]


def import_members(git: Git, folder: Path, *members: Member) -> str:
    path = folder / "pkg.tar.gz"
    path.write_bytes(make_tar(members))
    return import_tree(git, path, REF)


def list_tree(git: Git, tree: str) -> list[tuple[str, bytes]]:
    """Mode and raw path of every file."""
    output = git.run("ls-tree", "-r", "-z", tree).stdout
    lines = [line.split(b"\t", 1) for line in output.split(b"\0") if line]
    return [(info.split()[0].decode(), path) for info, path in lines]


def test_tree_is_the_one_git_makes_of_the_same_files(git: Git, tmp_path: Path) -> None:
    package = tmp_path / "sdist.tar.gz"
    package.write_bytes(make_sdist("2026.1.100", tree_files(100)))
    assert import_tree(git, package, REF) == expected_tree(tmp_path / "plain", tree_files(100))


def test_submodule_file_at_the_top_is_left_out(git: Git, tmp_path: Path) -> None:
    tree = import_members(
        git, tmp_path, regular(f"{INSIDE}/.git", b"gitdir: x"), regular(f"{INSIDE}/a", b"a")
    )
    assert list_tree(git, tree) == [("100644", b"a")]


def test_modes_links_and_hard_links_are_kept(git: Git, tmp_path: Path) -> None:
    tree = import_members(
        git,
        tmp_path,
        regular(f"{INSIDE}/run", b"#!", 0o777),
        regular(f"{INSIDE}/group", b"", 0o674),
        special(f"{INSIDE}/docs/link", tarfile.SYMTYPE, ".././run"),
        special(f"{INSIDE}/hard", tarfile.LNKTYPE, f"{INSIDE}/run"),
    )
    modes = {path: mode for mode, path in list_tree(git, tree)}
    assert modes == {
        b"run": "100755",
        b"group": "100644",
        b"docs/link": "120000",
        b"hard": "100755",
    }
    assert git.read_blob(f"{tree}:docs/link") == b".././run"
    assert git.read_blob(f"{tree}:hard") == b"#!"


def test_any_file_name_survives(git: Git, tmp_path: Path) -> None:
    names = [b"caf\xe9", b'q"uote', b"back\\slash", b"new\nline", b" blank ", b"tab\t", b"-dash"]
    members = [regular(f"{INSIDE}/{name.decode('utf-8', 'surrogateescape')}") for name in names]
    tree = import_members(git, tmp_path, *members)
    assert sorted(path for _, path in list_tree(git, tree)) == sorted(names)


def test_the_rest_of_the_package_is_not_imported(git: Git, tmp_path: Path) -> None:
    tree = import_members(
        git,
        tmp_path,
        regular("pkg/setup.py", b"x"),
        regular("pkg/thirdparty/other/a", b"x"),
        regular("pkg/src/thirdparty/llama.cpp/a", b"x"),
        regular(f"{INSIDE}/only", b"x"),
    )
    assert [path for _, path in list_tree(git, tree)] == [b"only"]


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (regular("/etc/passwd"), "absolute"),
        (regular(f"{INSIDE}/../../../../up"), "above itself"),
        (regular("../up"), "above itself"),
        (special(f"{INSIDE}/abs", tarfile.SYMTYPE, "/etc/passwd"), "absolute"),
        (special(f"{INSIDE}/out", tarfile.SYMTYPE, "../setup.py"), "outside"),
        (special(f"{INSIDE}/a/out", tarfile.SYMTYPE, "../../x"), "outside"),
        (special(f"{INSIDE}/a/b/c", tarfile.SYMTYPE, "d/../.."), "down and up"),
        (special(f"{INSIDE}/hard", tarfile.LNKTYPE, "pkg/setup.py"), "hard link"),
        (special(f"{INSIDE}/hard", tarfile.LNKTYPE, "../../x"), "outside"),
        (special(f"{INSIDE}/null", tarfile.CHRTYPE), "special file"),
        (special(f"{INSIDE}/disk", tarfile.BLKTYPE), "special file"),
        (special("pkg/pipe", tarfile.FIFOTYPE), "special file"),
        (regular(f"{INSIDE}/.git/config", b"[core]"), "git repository"),
        (regular(f"{INSIDE}/.GIT", b"x"), "git repository"),
        (regular(f"{INSIDE}/sub/.git", b"x"), "git repository"),
        (regular(f"{INSIDE}/sub/.Git. /hooks/x", b"x"), "git repository"),
        (regular(f"{INSIDE}/GIT~1/config", b"x"), "git repository"),
        (special(f"{INSIDE}/.git", tarfile.SYMTYPE, "ok"), "git repository"),
        (regular("pkg/.git", b"x"), "git repository"),
        (regular(f"{INSIDE}/ok", b"again"), "twice"),
        (regular(f"{INSIDE}/folder", b"a file where a folder is"), "twice"),
        (regular(f"{INSIDE}/ok/below", b"x"), "below a file"),
        (regular(f"{INSIDE}/link/below", b"x"), "below a file or a link"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0].name,
)
def test_hostile_member_is_named_and_nothing_imported(
    git: Git, tmp_path: Path, member: Member, why: str
) -> None:
    good = [regular(f"{INSIDE}/ok", b"x"), regular(f"{INSIDE}/folder/x", b"x")]
    good += [special(f"{INSIDE}/link", tarfile.SYMTYPE, "folder")]
    with pytest.raises(EnvironmentFault, match=why) as caught:
        import_members(git, tmp_path, *good, member)
    assert repr(member[0].name) in caught.value.what
    assert git.resolve(REF) is None


def test_good_members_of_the_hostile_test_are_accepted(git: Git, tmp_path: Path) -> None:
    """Else the test above could pass for another reason."""
    good = [regular(f"{INSIDE}/ok", b"x"), regular(f"{INSIDE}/folder/x", b"x")]
    tree = import_members(
        git, tmp_path, *good, special(f"{INSIDE}/link", tarfile.SYMTYPE, "folder")
    )
    assert len(list_tree(git, tree)) == 3


def test_package_without_a_tree_is_refused(git: Git, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"holds no thirdparty/llama\.cpp"):
        import_members(git, tmp_path, regular("pkg/setup.py", b"x"))


@pytest.mark.parametrize("keep", [0, 5, 100, -3000])
def test_damaged_archive_is_an_error_of_ours(git: Git, tmp_path: Path, keep: int) -> None:
    noise = bytes(range(256)) * 40
    content = make_sdist("2026.1.100", {f"{n}.bin": noise[n:] for n in range(60)})
    package = tmp_path / "cut.tar.gz"
    package.write_bytes(content[:keep])
    with pytest.raises(EnvironmentFault, match=r"cut\.tar\.gz is no readable"):
        import_tree(git, package, REF)
    assert git.resolve(REF) is None


def test_no_archive_at_all_is_an_error_of_ours(git: Git, tmp_path: Path) -> None:
    package = tmp_path / "page.tar.gz"
    package.write_bytes(b"<html>please log in</html>")
    with pytest.raises(EnvironmentFault, match="no readable"):
        import_tree(git, package, REF)


def test_unpacked_size_has_a_limit(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upstream.archive.UNPACKED_LIMIT", 1000)
    with pytest.raises(EnvironmentFault, match="unpacks to more than 1,000 bytes"):
        import_members(git, tmp_path, regular(f"{INSIDE}/bomb", bytes(1001)))


@given(st.binary(min_size=1).filter(lambda raw: b"\0" not in raw))
def test_quoted_path_has_no_bare_quote_or_line_break(raw: bytes) -> None:
    quoted = quote_path(raw.decode("utf-8", "surrogateescape"))
    inner = quoted[1:-1]
    assert (quoted[:1], quoted[-1:]) == (b'"', b'"')
    assert b"\n" not in quoted
    # Undo it byte by byte, as git's unquote_c_style does.
    source, undone = io.BytesIO(inner), b""
    while byte := source.read(1):
        assert byte != b'"'
        undone += {b"n": b"\n"}.get(e := source.read(1), e) if byte == b"\\" else byte
    assert undone == raw


@pytest.mark.parametrize(
    ("link", "answer"),
    [("a/b", False), ("../../a", False), ("./../a", False), ("a/..", True), ("../a/../b", True)],
)
def test_goes_up_again(link: str, answer: bool) -> None:
    assert goes_up_again(link) is answer
