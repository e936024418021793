"""A patch file read and written again is the same file, and the same commit as `git am` makes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from series.mail import read_mail, tidy_message, write_mail
from tests.series.miniature import (
    AUTHOR,
    Content,
    Files,
    Miniature,
    create_upstream,
    lines,
    run_git,
)
from upstream.errors import UsageError
from upstream.git import Git

BASE: dict[str | bytes, Content] = {
    "a.c": lines("a"),
    "dir with blanks/b file.c": lines("b"),
    "bin": bytes(range(256)) * 4,
    "run.sh": "#!/bin/sh\n",
    "link": "a.c",
    "crlf.txt": "one\r\ntwo\r\nthree\r\n",
    "old.c": lines("old"),
    "noeol.txt": "one\ntwo",
    b"latin-\xe9.txt": "one\n",
}


@dataclass(frozen=True)
class Case:
    """A commit on the base that must survive."""

    files: Files = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    renames: dict[str, str] = field(default_factory=dict)
    message: str | bytes = "subject\n\nbody\n"
    author: str = AUTHOR


PATCHED = {"a.c": lines("a", changes={3: "a patched"})}
CASES = {
    "text": Case(PATCHED),
    "several hunks and files": Case(
        {"a.c": lines("a", changes={2: "x", 28: ""}), "old.c": lines("old", changes={9: "y"})}
    ),
    "binary changed": Case({"bin": bytes(range(255, -1, -1)) * 4}),
    "binary added": Case({"new.bin": b"\0\1\2" * 99}),
    "rename": Case(renames={"old.c": "new.c"}),
    "rename with change": Case(
        {"sub/new.c": lines("old", changes={4: "z"})}, renames={"old.c": "sub/new.c"}
    ),
    "mode only": Case({"run.sh": "#!/bin/sh\n"}, {"run.sh": "100755"}),
    "symlink changed": Case({"link": "old.c"}, {"link": "120000"}),
    "file becomes a symlink": Case({"a.c": "old.c"}, {"a.c": "120000"}),
    "new file": Case({"new/x.c": "x\n"}),
    "new empty file": Case({"empty": ""}),
    "deleted file": Case({"a.c": None}),
    "path with spaces": Case({"dir with blanks/b file.c": lines("b", changes={3: "q"})}),
    "path that is not UTF-8": Case({b"latin-\xe9.txt": "two\n"}),
    "new path that is not UTF-8": Case({b"n\xff\xfe.txt": "x\n"}),
    "path with a quote and a tab": Case({'say "hi"\tthere.c': "x\n"}),
    "CRLF content": Case({"crlf.txt": "one\r\nTWO\r\nthree\r\n"}),
    "no newline at the end": Case({"noeol.txt": "one\ntwo\nthree"}),
    "removed line like a header": Case({"a.c": "-- ../../etc/passwd\n++ ../x\n"}),
    "line like a diffstat": Case({"a.c": lines("a", changes={3: " 1 file changed"})}),
    "non-ASCII subject and author": Case(
        PATCHED, message="Größe ändern to ΔT ≤ 3\n\nWörter.\n", author=AUTHOR.replace("Ada", "Ö")
    ),
    "long subject": Case(PATCHED, message=f"{'very long words ' * 12}end\n\nbody\n"),
    "subject alone": Case(PATCHED, message="only a subject\n"),
    "underlined heading": Case(PATCHED, message="subject\n\nHeading\n-------\n---x\ntext\n"),
    "message with a diffstat": Case(PATCHED, message="s\n\n 7 files changed, 1 insertion(+)\n"),
    "indented diff in the message": Case(
        PATCHED, message="s\n\n    --- a/x\n    +++ b/x\n    diff --git a/x b/x\n"
    ),
    "line that begins with From": Case(PATCHED, message="s\n\nFrom here on: 12:30 2020\n"),
    "trailers": Case(PATCHED, message="s\n\nbody\n\nSigned-off-by: A <a@b.c>\nFixes: #1\n"),
    "zone west of Greenwich": Case(PATCHED, author="A B <a@b.c> 1700000001 -0330"),
    "name with signs": Case(PATCHED, author='A. "B" (C), D <a+b@c.d> 1700000001 +0000'),
}


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Miniature:
    made = create_upstream(tmp_path_factory.mktemp("round-trip") / "mails.git")
    made.release("b1", BASE, modes={"link": "120000"})
    return made


def commit_case(mini: Miniature, case: Case) -> str:
    base = mini.text("rev-parse", "b1^0")
    return mini.commit(
        "refs/heads/case", base, case.files, case.message,
        author=case.author, modes=case.modes, renames=case.renames,
    )  # fmt: skip


def import_mail(git: Git, path: Path, scratch: Path) -> str:
    """The commit that the tool makes of a mail on the base."""
    mail = read_mail(git, path, scratch)
    base = git.resolve("b1^0")
    assert base is not None
    tree = git.edit_tree(git.tree_of(base), (), scratch, mail.diff)
    return git.write_commit(tree, (base,), mail.author, mail.message)


@pytest.mark.parametrize("name", CASES)
def test_mail_read_and_written_is_the_same_commit_and_file(
    name: str, mini: Miniature, scratch: Path, tmp_path: Path
) -> None:
    git, commit = Git(mini.path), commit_case(mini, CASES[name])
    path = tmp_path / "case.patch"
    path.write_bytes(mini.export(commit))
    made = import_mail(git, path, scratch)
    wanted, found = git.read_commit(commit), git.read_commit(made)
    assert found.tree == wanted.tree
    assert (found.author, found.message) == (wanted.author, wanted.message)
    assert write_mail(git, made, Path("case.patch"), scratch) == path.read_bytes()


def test_commits_are_those_of_git_am(mini: Miniature, scratch: Path, tmp_path: Path) -> None:
    """One checkout for all cases; --keep-cr because mailsplit drops the CR of every line."""
    git = Git(mini.path)
    checkout = tmp_path / "checkout"
    run_git(mini.path, "worktree", "add", "--quiet", "--detach", checkout, "b1")
    differ: dict[str, tuple[str, str]] = {}
    for name, case in CASES.items():
        path = scratch / "case.patch"
        path.write_bytes(mini.export(commit_case(mini, case)))
        run_git(checkout, "reset", "--quiet", "--hard", "b1")
        run_git(checkout, "am", "--quiet", "--keep-cr", "--committer-date-is-author-date", path)
        theirs = run_git(checkout, "rev-parse", "HEAD").decode().strip()
        ours = import_mail(git, path, scratch)
        differ |= {} if ours == theirs else {name: (ours, theirs)}
    assert differ == {}


FOREIGN = b"""From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
From: =?iso-8859-1?q?J=F6rg?= =?utf-8?b?IMOETWVy?= <j@example.org>
Date: Tue, 14 Nov 2023 23:13:20 +0100
Subject: [PATCH 3/7] =?utf-8?b?R3LDtsOfZQ==?= of things
MIME-Version: 1.0
Content-Type: text/plain; charset=%s
Content-Transfer-Encoding: %s

%s"""
BODY = (
    "W\u00f6rter.\n---\n a.c | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n\n"
    "diff --git a/a.c b/a.c\n--- a/a.c\n+++ b/a.c\n@@ -1,3 +1,3 @@\n a line 1\n-a line 2\n"
    "+a z\n a line 3\n"
)


@pytest.mark.parametrize("form", ["base64", "latin-1", "quoted-printable"])
def test_foreign_encodings_are_read_as_git_reads_them(
    form: str, mini: Miniature, scratch: Path, tmp_path: Path
) -> None:
    body = {
        "base64": lambda: _base64(BODY.encode()),
        "latin-1": lambda: BODY.encode("latin-1"),
        "quoted-printable": lambda: BODY.replace("\u00f6", "=C3=B6").encode(),
    }[form]()
    charset = b"iso-8859-1" if form == "latin-1" else b"utf-8"
    path = scratch / "foreign.patch"
    path.write_bytes(FOREIGN % (charset, b"8bit" if form == "latin-1" else form.encode(), body))
    made = import_mail(Git(mini.path), path, scratch)
    assert mini.apply_mails("b1", [path], tmp_path / "checkout") == made
    found = Git(mini.path).read_commit(made)
    assert (found.author.name, found.author.date) == ("J\u00f6rg \u00c4Mer", "1700000000 +0100")
    assert found.message == "Gr\u00f6\u00dfe of things\n\nW\u00f6rter.\n"


def _base64(body: bytes) -> bytes:
    import base64

    return base64.encodebytes(body)


LOST = {
    "subject in brackets": ("[CUDA] faster\n\nbody\n", "message"),
    "header at the start of the body": ("s\n\nFrom: other <o@x.y>\n\nbody\n", "message"),
    "subject of two lines": ("one\ntwo\n\nbody\n", "message"),
}


@pytest.mark.parametrize("name", LOST)
def test_commit_that_a_mail_would_change_is_not_written(
    name: str, mini: Miniature, scratch: Path
) -> None:
    """git am strips brackets and takes headers from the body: better refuse than lose words."""
    message, what = LOST[name]
    commit = commit_case(mini, Case(PATCHED, message=message))
    with pytest.raises(UsageError) as refusal:
        write_mail(Git(mini.path), commit, Path("x.patch"), scratch)
    assert f"the {what} of {commit[:12]} does not survive a mail" in refusal.value.what
    assert "reword the commit" in refusal.value.remedy


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=80)


@settings(max_examples=60)
@given(text=WORDS.filter(lambda text: text.strip(" \t\r\n")))
def test_tidy_message_equals_git_stripspace(text: str) -> None:
    wanted = run_git(Path.cwd(), "stripspace", stdin=text.encode())
    assert tidy_message(text).encode() == wanted


# What git's mailinfo takes out of a message: diffs, headers, prefixes and runs of blanks.
RISKY = re.compile(
    r"^(---( \S|\s*$)|diff -|Index: |>?From\b|(From|Date|Subject):|re:)|\A[^\n]*\s\s", re.I | re.M
)


def try_to_write(git: Git, commit: str, scratch: Path) -> bytes | None:
    """The mail, or None when the commit is refused."""
    try:
        return write_mail(git, commit, Path("case.patch"), scratch)
    except UsageError:
        return None


MESSAGES = st.builds(
    lambda subject, body: tidy_message(f"{subject}\n\n{body}"),
    st.from_regex(r"[A-Za-z\u00c0-\u024f][ -~\u00c0-\u024f]{0,90}", fullmatch=True),
    st.lists(
        st.one_of(
            st.sampled_from(
                ["--- a/x", "---", "diff --git a/x b/x", "Index: x", "From: a", "", "-"]
            ),
            st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=60),
        ),
        max_size=5,
    ).map("\n".join),
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(message=MESSAGES, seconds=st.integers(100_000_000, 4_000_000_000))
def test_any_message_survives_or_is_refused(
    message: str, seconds: int, mini: Miniature, scratch: Path
) -> None:
    git = Git(mini.path)
    case = Case(PATCHED, message=message, author=f"A B <a@b.c> {seconds} +0100")
    commit = commit_case(mini, case)
    path = scratch / "case.patch"
    content = try_to_write(git, commit, scratch)
    if content is None:
        assert RISKY.search(message)
        return
    path.write_bytes(content)
    made = git.read_commit(import_mail(git, path, scratch))
    wanted = git.read_commit(commit)
    assert (made.message, made.author, made.tree) == (wanted.message, wanted.author, wanted.tree)
