"""Patch files that are damaged or hostile: refused, with the file and the reason in words."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from series.mail import read_mail
from tests.series.conftest import MakeLab
from tests.series.miniature import Miniature, lines, write_series
from upstream.errors import UsageError
from upstream.git import Git

GOOD = b"""From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
From: A B <a@b.c>
Date: Tue, 14 Nov 2023 23:13:20 +0100
Subject: [PATCH] subject

Body.
---
 a.c | 2 +-
 b.c | 4 ++--
 2 files changed, 3 insertions(+), 3 deletions(-)

diff --git a/a.c b/a.c
--- a/a.c
+++ b/a.c
@@ -1,3 +1,3 @@
 a line 1
-a line 2
+a two
 a line 3
diff --git a/b.c b/b.c
--- a/b.c
+++ b/b.c
@@ -1,3 +1,3 @@
 b line 1
-b line 2
+b two
 b line 3
@@ -21,3 +21,3 @@
 b line 21
-b line 22
+b twenty-two
 b line 23
"""


def replaced(old: bytes, new: bytes) -> bytes:
    assert old in GOOD
    return GOOD.replace(old, new)


def until(mark: bytes) -> bytes:
    """The good mail, cut before a text."""
    assert mark in GOOD
    return GOOD[: GOOD.index(mark)]


def body(text: bytes) -> bytes:
    return replaced(b"Body.\n", text)


REFUSED = {
    "empty file": (b"", "the file is empty"),
    "no mail at all": (b"diff --git a/a.c b/a.c\n", "line 1 is no 'From ' line"),
    "CRLF": (GOOD.replace(b"\n", b"\r\n"), "line ends are CRLF"),
    "headers only": (until(b"\nBody."), "has no diff"),
    "cut in the message": (until(b"---\n a.c"), "has no diff"),
    "cut in the diffstat": (until(b" b.c |"), "has no diff (an empty patch)"),
    "cut in the middle of a hunk": (until(b"+b two"), "the diff is damaged or cut off"),
    "cut in the middle of a line": (until(b"ine 23\n"), "the diff is damaged or cut off"),
    "cut between two hunks": (until(b"@@ -21"), "its diff has 2 files, +2 -2"),
    "cut between two files": (until(b"diff --git a/b.c"), "its diff has 1 files, +1 -1"),
    "two mails": (GOOD + GOOD, "line 33 starts another mail"),
    "no subject": (replaced(b"Subject: [PATCH] subject\n", b""), "'Subject:' is missing"),
    "no author": (replaced(b"From: A B <a@b.c>\n", b""), "'From:' is missing"),
    "no date": (replaced(b"Tue, 14 Nov 2023 23:13:20 +0100", b"yesterday"), "is no date"),
    "hunk that counts wrong": (replaced(b"@@ -21,3", b"@@ -21,4"), "is damaged"),
    "minus line in the message": (body(b"--- a/x\n"), "line 1 of the message looks like a diff"),
    "diff in the message": (body(b"Two\ndiff --git a/x b/x\n"), "line 2 of the message looks"),
    "svn diff in the message": (body(b"Index: x\n"), "looks like a diff: 'Index: x'"),
    "context diff in the message": (body(b"diff -u a b\n"), "looks like a diff"),
    "lone --- in the message": (body(b"Body.\n---\nlost words\n"), "'lost words', stands between"),
    "plus line after a lone ---": (body(b"---\n+++ b/x\n"), "'+++ b/x', stands between"),
    "empty patch": (until(b"diff --git a/a.c"), "has no diff (an empty patch)"),
    "attachment": (
        replaced(b"Subject:", b'Content-Type: multipart/mixed; boundary="x"\nSubject:').replace(
            b"\n\nBody.", b"\n\n--x\nContent-Type: text/plain\n\nBody."
        )
        + b"--x--\n",
        "attachments",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_mail_is_refused(name: str, git: Git, scratch: Path, tmp_path: Path) -> None:
    content, words = REFUSED[name]
    path = tmp_path / "bad.patch"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refusal:
        read_mail(git, path, scratch)
    assert refusal.value.what.startswith(f"{path}: ")
    assert words in refusal.value.what
    assert "mend" in refusal.value.remedy
    assert list(scratch.iterdir()) == []


def test_the_mail_that_the_bad_ones_are_made_of_is_good(
    git: Git, scratch: Path, tmp_path: Path
) -> None:
    path = tmp_path / "good.patch"
    path.write_bytes(GOOD)
    mail = read_mail(git, path, scratch)
    assert (mail.subject, mail.paths) == ("subject", ("a.c", "b.c"))


def new_file(path: str) -> bytes:
    return (
        GOOD[: GOOD.index(b" a.c |")]
        + f"\ndiff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n"
        f"+++ b/{path}\n@@ -0,0 +1 @@\n+x\n".encode()
    )


def renamed(path: str) -> bytes:
    head = f"\ndiff --git a/a.c b/{path}\nsimilarity index 100%\n"
    names = f"rename from a.c\nrename to {path}\n"
    return GOOD[: GOOD.index(b" a.c |")] + (head + names).encode()


OUTSIDE = (
    "../up.c", "x/../../up.c", ".git/config", ".GIT/hooks/pre-commit", "sub/.git/config", ".Git/x",
    "git~1/config", "/etc/passwd",
)  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("make", [new_file, renamed])
def test_path_that_leaves_the_tree_is_refused(
    path: str, make: Callable[[str], bytes], git: Git, scratch: Path, tmp_path: Path
) -> None:
    patch = tmp_path / "hostile.patch"
    patch.write_bytes(make(path))
    with pytest.raises(UsageError, match=r"outside the tree|inside a \.git folder|damaged"):
        read_mail(git, patch, scratch)


def test_absolute_path_without_prefix_is_refused(git: Git, scratch: Path, tmp_path: Path) -> None:
    patch = tmp_path / "hostile.patch"
    head = GOOD[: GOOD.index(b" a.c |")]
    patch.write_bytes(
        head + b"\ndiff --git /etc/x /etc/x\n--- /etc/x\n+++ /etc/x\n@@ -0,0 +1 @@\n+x\n"
    )
    with pytest.raises(UsageError, match=r"hostile\.patch"):
        read_mail(git, patch, scratch)


@pytest.mark.parametrize("quoted", [r"\056\056/up.c", r"\056git/config", r"\056GIT/x"])
def test_hostile_path_behind_gits_quoting_never_reaches_the_tree(
    quoted: str, tmp_path: Path, make_lab: MakeLab
) -> None:
    content = new_file("x").replace(b"a/x b/x", f'"a/{quoted}" "b/{quoted}"'.encode())
    content = content.replace(b"+++ b/x", f'+++ "b/{quoted}"'.encode())
    done = make_lab(write_series(tmp_path / "s", "b100", {"hostile.patch": content})).rebase()
    assert done.code == 2
    assert "hostile.patch" in done.err
    assert not list(tmp_path.rglob("up.c"))


def test_fuzz_is_refused_although_patch_would_take_it(
    upstream: Miniature, tmp_path: Path, make_lab: MakeLab
) -> None:
    change = {"src/gamma.c": lines("gamma", changes={10: "gamma patched"})}
    patches = upstream.patches("b100", ("fuzzy.patch", change))
    bent = patches["fuzzy.patch"].replace(b"\n gamma line 7\n", b"\n gamma line seven\n")
    assert bent != patches["fuzzy.patch"]
    if shutil.which("patch"):  # shows that the trap is one; the refusal below does not need it
        (tmp_path / "gamma.c").write_text(lines("gamma"))
        command = ("patch", "-F2", "--dry-run", "gamma.c")
        taken = subprocess.run(command, cwd=tmp_path, input=bent, capture_output=True, check=False)
        assert b"fuzz" in taken.stdout
        assert taken.returncode == 0
    lab = make_lab(write_series(tmp_path / "series", "b100", {"fuzzy.patch": bent}))
    done = lab.rebase("--onto", "b200")
    assert done.code == 2
    assert "fuzzy.patch does not apply to b100:" in done.err
    assert "patch failed: src/gamma.c:7" in done.err  # git's own words
    assert "next: name the version it was made on as 'base'" in done.err
    assert lab.refs() == {}
