"""A stack from patch files: the same commits as `git am`, and refs that move together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from series.manifest import load_series
from series.model import Series, Stack
from series.stack import (
    apply_series,
    clear_ref_locks,
    load_stack,
    refs_of,
    restore_stack,
    save_stack,
)
from tests.series.conftest import MakeLab
from tests.series.lab import Lab
from tests.series.miniature import CLASH, MOVED, OFFSET, STEADY, Miniature, lines, write_series
from upstream.errors import UsageError
from upstream.git import Git
from upstream.version import Version


@pytest.fixture
def series(upstream: Miniature, tmp_path: Path) -> Series:
    patches = upstream.patches("b100", STEADY, OFFSET, MOVED)
    return load_series(write_series(tmp_path / "series", "b100", patches))


@pytest.fixture
def engine(upstream: Miniature, git: Git) -> Git:
    """A repository of the tool with the versions of the shared upstream in it."""
    git.fetch(upstream.url, ["+refs/tags/b*:refs/tags/upstream/b*"], 30)
    return git


def apply(engine: Git, series: Series, scratch: Path, version: int = 100) -> Stack:
    commit = engine.resolve(f"refs/tags/upstream/b{version}")
    assert commit is not None
    return apply_series(engine, series, Version(version), commit, scratch)


def test_stack_has_the_commits_that_git_am_makes(
    engine: Git, series: Series, scratch: Path, upstream: Miniature, tmp_path: Path
) -> None:
    stack = apply(engine, series, scratch)
    mails = [series.directory / "patches" / patch for _, patch in series.order()]
    tip = upstream.apply_mails("b100", mails, tmp_path / "checkout")
    assert stack.tip == tip
    assert stack.tip_tree == upstream.text("rev-parse", f"{tip}^{{tree}}")
    assert [s.commit for s in stack.steps] == upstream.text(
        "rev-list", "--reverse", f"b100..{tip}"
    ).split()
    assert [s.patch for s in stack.steps] == ["steady.patch", "offset.patch", "moved.patch"]


def test_series_whose_files_are_crossed_names_the_patch(
    engine: Git, upstream: Miniature, scratch: Path, tmp_path: Path
) -> None:
    again = ("again.patch", {"src/delta.c": lines("delta", changes={15: "delta again"})})
    patches = upstream.patches("b100", CLASH, again)
    wrong = {"again.patch": patches["again.patch"], "clash.patch": patches["clash.patch"]}
    series = load_series(write_series(tmp_path / "series", "b100", wrong))
    with pytest.raises(UsageError) as refusal:
        apply(engine, series, scratch)
    assert "again.patch does not apply to b100:" in refusal.value.what
    assert "src/delta.c: patch does not apply" in refusal.value.what


def test_record_is_read_back_until_a_file_changes(
    engine: Git, series: Series, scratch: Path
) -> None:
    assert load_stack(engine, series) is None
    stack = apply(engine, series, scratch)
    assert save_stack(engine, series, stack) is None
    assert load_stack(engine, series) == stack
    (series.directory / "acknowledged.toml").write_text("# new\n")
    assert load_stack(engine, series) is None


def test_every_move_keeps_a_backup_of_its_own_and_restore_brings_it_back(
    engine: Git, series: Series, scratch: Path
) -> None:
    """All within one second: the dated names must not collide."""
    first = apply(engine, series, scratch)
    save_stack(engine, series, first)
    refs = engine.list_refs(refs_of(series))
    backups = []
    for version in (200, 300, 200):
        commit = engine.resolve(f"refs/tags/upstream/b{version}")
        assert commit is not None
        other = Stack(Version(version), commit, engine.tree_of(commit), ())
        backups.append(save_stack(engine, series, other))
    assert len(set(backups)) == 3
    now = engine.list_refs(refs_of(series))
    assert now != refs
    assert backups[0] is not None
    aside = restore_stack(engine, series, backups[0])
    assert engine.list_refs(refs_of(series)) == refs
    assert load_stack(engine, series) == first
    restore_stack(engine, series, aside)
    assert engine.list_refs(refs_of(series)) == now


def test_refs_move_all_or_none(engine: Git, series: Series, scratch: Path) -> None:
    """A ref that another holds (git's own lock file) stops the whole transaction."""
    stack = apply(engine, series, scratch)
    lock = engine.directory / f"{refs_of(series)}/tip.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    with pytest.raises(Exception, match=r"tip\.lock"):
        save_stack(engine, series, stack)
    assert engine.list_refs("refs/series") == {}
    clear_ref_locks(engine, series)
    assert lock.exists()  # too young: its git may be alive
    os.utime(lock, (1, 1))
    clear_ref_locks(engine, series)
    save_stack(engine, series, stack)
    assert len(engine.list_refs("refs/series")) == 3


@pytest.fixture
def moved(upstream: Miniature, tmp_path: Path, make_lab: MakeLab) -> Lab:
    lab = make_lab(write_series(tmp_path / "s", "b100", upstream.patches("b100", STEADY)))
    assert lab.rebase("--onto", "b200").code == 0
    return lab


def test_restore_from_the_command_line_with_the_printed_command(moved: Lab) -> None:
    before = moved.git.list_refs("refs/series")
    done = moved.rebase("--onto", "b300")
    assert done.code == 0
    printed = next(line for line in done.err.splitlines() if "to go back:" in line)
    assert f"--series {moved.series}" in printed
    backup = printed.split()[-1]
    restored = moved.rebase("--restore", backup)
    assert restored.code == 0
    assert f"restored {backup}" in restored.err
    assert "to undo that:" in restored.err
    assert moved.git.list_refs("refs/series") == before
    unknown = moved.rebase("--restore", "refs/backup/other-series/20200101T000000Z")
    assert unknown.code == 2
    assert "there is no backup refs/backup/other-series" in unknown.err
    assert backup in unknown.err
