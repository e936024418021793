"""The lab's folders."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from upstream.errors import EnvironmentFault
from upstream.git import EMPTY_TREE, Git, Person
from upstream.lab import STALE_SECONDS, open_lab


def test_what_a_killed_run_left_is_swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAB_DIR", str(tmp_path / "lab"))
    scratch = open_lab().scratch
    for name in ("old", "new"):
        (scratch / name / "inside").mkdir(parents=True)
    long_ago = time.time() - STALE_SECONDS - 60
    os.utime(scratch / "old", (long_ago, long_ago))
    open_lab()
    assert [path.name for path in scratch.iterdir()] == ["new"]


def test_a_lab_that_cannot_be_made_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAB_DIR", str(tmp_path / "file" / "lab"))
    with pytest.raises(EnvironmentFault, match="cannot make the cache folder"):
        open_lab()


def test_author_dates_before_1973_survive(tmp_path: Path) -> None:
    git = Git(tmp_path / "x.git")
    git.create()
    author = Person("A", "a@example.org", "12345 +0130")
    commit = git.write_commit(EMPTY_TREE, (), author, "old\n")
    assert git.read_commit(commit).author == author
