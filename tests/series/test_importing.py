"""Other people's patches become a topic: every kind of source, the base, the write."""

from __future__ import annotations

import base64
import os
import quopri
from collections.abc import Callable
from pathlib import Path

import pytest

from series.manifest import load_series
from tests.series.importing import PLAIN, WHOEVER, Import, lab, put, refused, stocked, take
from tests.series.lab import Lab
from tests.series.miniature import (
    AFTER,
    CLASH,
    MOVED,
    OFFSET,
    STEADY,
    TAKEN,
    Files,
    Miniature,
    lines,
)

__all__ = ["lab", "stocked", "take"]  # fixtures
BINARY = bytes(range(256)) * 4


def order(lab: Lab) -> list[str]:
    return [patch for _, patch in load_series(lab.series).order()]


# -- every kind of source gives the same commits ---------------------------------------------------


def mbox(patches: dict[str, bytes], folder: Path) -> tuple[str, ...]:
    put(folder, {"stack.mbox": b"".join(patches.values())})
    return (str(folder / "stack.mbox"),)


def plain_folder(patches: dict[str, bytes], folder: Path) -> tuple[str, ...]:
    named = {f"{n}-{name}": raw for n, (name, raw) in enumerate(patches.items(), 9)}
    return (str(put(folder, named)),)


def quilt(patches: dict[str, bytes], folder: Path) -> tuple[str, ...]:
    series = "# by hand\n\n" + "".join(f"sub/{name} -p1 # why\n" for name in patches)
    put(folder, {f"sub/{name}": raw for name, raw in patches.items()})
    return (str(put(folder, {"series": series.encode(), "sub/unused.patch": b"?"})),)


def crlf(patches: dict[str, bytes], folder: Path) -> tuple[str, ...]:
    return plain_folder({n: r.replace(b"\n", b"\r\n") for n, r in patches.items()}, folder)


def encoded(patches: dict[str, bytes], folder: Path) -> tuple[str, ...]:
    """One mail as base64, the others as quoted-printable, all in one mailbox."""
    mails = []
    for number, raw in enumerate(patches.values()):
        head, body = raw.split(b"\n\n", 1)
        kept = b"\n".join(
            line for line in head.split(b"\n") if not line.startswith((b"MIME-", b"Content-"))
        )
        kind = b"quoted-printable" if number else b"base64"
        coded = quopri.encodestring(body) if number else base64.encodebytes(body)
        kept += b"\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8"
        kept += b"\nContent-Transfer-Encoding: " + kind
        mails.append(kept + b"\n\n" + coded + b"\n")
    put(folder, {"stack.mbox": b"".join(mails)})
    return (str(folder / "stack.mbox"),)


@pytest.mark.parametrize("make", [mbox, plain_folder, quilt, crlf, encoded])
def test_sources_of_mails_give_the_commits_that_were_sent(
    lab: Lab,
    take: Import,
    upstream: Miniature,
    tmp_path: Path,
    make: Callable[..., tuple[str, ...]],
) -> None:
    patches = upstream.patches("b200", STEADY, CLASH)
    done = take(*make(patches, tmp_path / "in"), "--topic", "new", "--json")
    assert done.code == 0, done.err
    document = done.document()
    assert (document["base"], document["carried"]) == ("b200", False)
    assert document["topic"] == "new"
    assert load_series(lab.series).topics[-1].name == "new"
    for entry, name in zip(document["patches"], ("steady", "clash"), strict=True):
        assert entry["subject"] == f"{name}: change"
        assert entry["author"] == "Ada L\u00f6vgren <ada@example.org>"
        assert entry["date"] == "1700000000 +0530"
    written = [lab.series / "patches" / name for name in order(lab)[1:]]
    assert [path.read_bytes() for path in written] == list(patches.values())
    assert "# The series, by hand." in (lab.series / "series.toml").read_text()


HARD: dict[str, tuple[Files, dict[str, str], dict[str, str]]] = {
    "binary": ({"logo.bin": BINARY}, {}, {}),
    "mode": ({"src/gamma.c": lines("gamma")}, {"src/gamma.c": "100755"}, {}),
    "rename": ({}, {}, {"src/gamma.c": "src/gamma two.c"}),
    "no newline at the end": ({"src/half.c": lines("half").rstrip("\n")}, {}, {}),
    "CRLF content": ({"src/dos.c": "one\r\ntwo\r\n"}, {}, {}),
    "CRLF content changed": ({"src/dos.c": "one\r\nTWO\r\n"}, {}, {}),
}


def test_a_range_with_binary_mode_rename_and_line_ends_gives_its_very_tree(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    parent: str | None = upstream.text("rev-parse", "b200")
    for name, (files, modes, renames) in HARD.items():
        text = f"{name}: change\n"
        upstream.commit("refs/heads/hard", parent, files, text, modes=modes, renames=renames)
        parent = None
    first = take(
        f"{upstream.path}:b200..hard",
        "--base",
        "b200",
        "--create",
        "--json",
        series=tmp_path / "new",
    )
    assert first.code == 0, first.err
    assert first.document()["tip_tree"] == upstream.text("rev-parse", "hard^{tree}")
    # As files again, one by one, into another series: the same bytes.
    again = take(tmp_path / "new", "--topic", "again")
    assert again.code == 0, again.err
    names = [patch for _, patch in load_series(tmp_path / "new").order()]
    assert order(lab) == ["own.patch", *names]
    for name in names:
        copied = (lab.series / "patches" / name).read_bytes()
        assert copied == (tmp_path / "new" / "patches" / name).read_bytes()


def test_repository_and_range_may_be_given_apart(
    lab: Lab, take: Import, upstream: Miniature
) -> None:
    upstream.patches("b200", STEADY)
    done = take("b200..patches", "--repository", upstream.path, "--topic", "apart", "--dry-run")
    assert done.code == 0, done.err
    assert order(lab) == ["own.patch"]


# -- plain diffs -----------------------------------------------------------------------------------

DEP3 = b"""Description: Patch line ten
 For good reason.
 .
 And another.
Author: De Bian <de@example.org>
Last-Update: 2024-05-06
Forwarded: no
---
"""


def test_plain_diff_takes_author_date_and_name(lab: Lab, take: Import, tmp_path: Path) -> None:
    folder = put(
        tmp_path / "in", {"series": b"0003-Line_ten.diff -p0\n", "0003-Line_ten.diff": PLAIN}
    )
    done = take(folder, *WHOEVER, "--topic", "plain", "--json")
    assert done.code == 0, done.err
    (entry,) = done.document()["patches"]
    assert entry["author"] == "Who Ever <who@example.org>"
    assert entry["date"] == "1714953600 +0000"
    assert (entry["patch"], entry["subject"]) == ("line_ten.patch", "Line ten")


def test_plain_diff_takes_the_files_date_and_the_users_identity(
    lab: Lab, take: Import, tmp_path: Path
) -> None:
    folder = put(tmp_path / "in", {"ten.diff": PLAIN})
    os.utime(folder / "ten.diff", (1600000000, 1600000000))
    refused(take(folder, "--strip", "0"), "names no author", "--author")
    (tmp_path / ".gitconfig").write_text("[user]\nname = Git User\nemail = git@example.org\n")
    done = take(folder, "--strip", "0", "--json", "--dry-run")
    assert done.code == 0, done.err
    (entry,) = done.document()["patches"]
    assert (entry["author"], entry["date"]) == ("Git User <git@example.org>", "1600000000 +0000")


def test_debian_headers_become_the_message(lab: Lab, take: Import, tmp_path: Path) -> None:
    folder = put(tmp_path / "in", {"series": b"ten.patch -p0\n", "ten.patch": DEP3 + PLAIN})
    done = take(folder, "--topic", "debian")
    assert done.code == 0, done.err
    text = (lab.series / "patches" / "ten.patch").read_text()
    assert (
        "Subject: [PATCH] Patch line ten\n\nFor good reason.\n\nAnd another.\n\nForwarded: no\n"
        in text
    )
    assert "From: De Bian <de@example.org>" in text
    assert "Mon, 6 May 2024 00:00:00 +0000" in text


# -- the base --------------------------------------------------------------------------------------


def test_base_is_found_and_the_stack_carried_to_the_series(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    folder = put(tmp_path / "in", upstream.patches("b100", MOVED, OFFSET))
    done = take(folder, "--topic", "old", "--json")
    assert done.code == 0, done.err
    document = done.document()
    assert (document["base"], document["onto"], document["carried"]) == ("b100", "b200", True)
    tried = {(t["version"], t["own_tip"]): t["applied"] for t in document["tried"]}
    assert tried == {("b200", True): 1, ("b300", False): 1, ("b200", False): 1, ("b100", False): 2}
    assert {p["patch"]: p["status"] for p in document["patches"]} == {
        "moved.patch": "clean, moved by rename",
        "offset.patch": "clean with offset",
    }
    assert b"lib/beta.c" in (lab.series / "patches" / "moved.patch").read_bytes()


def test_a_conflict_on_the_way_imports_nothing_and_says_how_to_resolve_it(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    folder = put(tmp_path / "in", upstream.patches("b100", STEADY, CLASH))
    before = lab.files()
    done = take(folder, "--topic", "old")
    assert done.code == 5
    assert "base found: b100" in done.out
    assert "--create" in done.err
    assert "--only steady.patch" in done.err
    assert lab.files() == before
    aside = tmp_path / "aside"
    assert take(folder, "--topic", "old", "--create", series=aside).code == 0
    assert load_series(aside).base.build == 100
    assert take(folder, "--topic", "old", "--only", "steady.patch").code == 0
    assert order(lab) == ["own.patch", "steady.patch"]


def test_no_version_takes_all_patches(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    patches = upstream.patches("b100", STEADY) | upstream.patches("b300", AFTER)
    spoiled = patches["after.patch"].replace(b" delta line 14", b" delta line 14 of a fork")
    folder = put(tmp_path / "in", patches | {"after.patch": spoiled})
    before = lab.files()
    done = take(folder, "--topic", "fork", "--json")
    assert done.code == 5
    assert [t["applied"] for t in done.document()["tried"]] == [1, 1, 1, 1]
    (failure,) = done.document()["tried"][0]["failures"]
    assert failure["name"] == "after.patch"
    assert "src/delta.c" in failure["why"]
    assert "takes 1 of 2 patches" in done.err
    assert "--only steady.patch" in done.err
    assert lab.files() == before


def test_a_patch_that_changes_nothing_is_no_patch_of_that_version(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    folder = put(tmp_path / "in", upstream.patches("b100", TAKEN))
    done = take(folder, "--base", "b200", "--topic", "taken")
    assert done.code == 5
    assert "0 of 1" in done.out


def test_a_file_of_several_mails_and_a_cover_letter(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    first, second = upstream.patches("b200", STEADY, CLASH).values()
    cover = first[: first.index(b"---\n")].replace(b"[PATCH] steady", b"[PATCH v2 0/2] steady")
    done = take(put(tmp_path / "in", {"0000-cover.patch": cover, "1-both.patch": first + second}))
    assert done.code == 0, done.err
    assert "left out, a cover letter: " in done.err
    assert order(lab) == ["own.patch", "steady-change.patch", "clash-change.patch"]
    assert load_series(lab.series).topics[-1].name == "in"


def test_crlf_content_survives_mails_whose_own_lines_end_in_lf(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    files = {"src/dos.c": "one\r\ntwo\r\n"}
    raw = upstream.patches("b200", ("dos.patch", files))["dos.patch"]
    box = put(tmp_path, {"dos.mbox": raw}) / "dos.mbox"
    assert take(box, "--topic", "dos").code == 0
    assert b"+one\r\n" in (lab.series / "patches" / "dos-change.patch").read_bytes()


def test_a_dry_run_writes_nothing_and_names_the_command_that_does(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    before = lab.files()
    done = take(put(tmp_path / "in", upstream.patches("b200", STEADY)), "--dry-run")
    assert done.code == 0
    assert f"to write it: nox -s import -- {tmp_path / 'in'} --series" in done.err
    assert "--dry-run" not in done.err
    assert lab.files() == before
