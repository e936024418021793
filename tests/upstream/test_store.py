"""Snapshots as a chain of commits whose ids depend only on the set of them."""

from __future__ import annotations

import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from upstream.errors import EnvironmentFault
from upstream.git import NULL_ID, Git, Person, RefMove
from upstream.lab import Lab, hold_lock
from upstream.store import (
    IMPORTING,
    Snapshot,
    add_snapshot,
    add_true_commits,
    clear_leftovers,
    hold_store,
    read_held,
)
from upstream.version import Version

SOMEONE = Person("A", "a@localhost", "@1 +0000")


def make_tree(git: Git, text: str) -> str:
    blob = git.write_blob(text.encode())
    return git.text("mktree", stdin=f"100644 blob {blob}\tfile".encode())


def make_snapshot(git: Git, build: int) -> Snapshot:
    tree = make_tree(git, f"{build}")
    return Snapshot(Version(build), tree, f"xllamacpp 2026.1.{build}", "ab" * 32, build * 1000)


def ids(git: Git) -> dict[int, str]:
    return {version.build: held.commit for version, held in read_held(git).items()}


def test_repository_can_be_made_by_many_at_once(tmp_path: Path) -> None:
    git = Git(tmp_path / "with spaces" / "lab.git")
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(git.create) for _ in range(8)]:
            done.result()
    assert list(git.directory.parent.iterdir()) == [git.directory]
    assert git.text("rev-parse", "--is-bare-repository") == "true"
    assert "-text" in (git.directory / "info" / "attributes").read_text()


def test_what_is_stored_is_read_again(git: Git) -> None:
    made = make_snapshot(git, 100)
    commit = add_snapshot(git, made)
    held = read_held(git)[Version(100)]
    assert held.snapshot is not None
    assert (held.commit, held.tree, held.origin) == (commit, made.tree, "xllamacpp 2026.1.100")
    assert (held.snapshot.sha256, held.snapshot.date) == ("ab" * 32, 100_000)
    read = git.read_commit(commit)
    assert read.author.date == "100000 +0000"
    assert f"Upstream-SHA256: {'ab' * 32}" in read.message


def test_ids_do_not_depend_on_the_order_of_import(tmp_path: Path) -> None:
    results = []
    for number, order in enumerate(itertools.permutations((100, 200, 300))):
        git = Git(tmp_path / f"{number}.git")
        git.create()
        for build in order:
            add_snapshot(git, make_snapshot(git, build))
        results.append(ids(git))
    assert results == [results[0]] * 6
    assert git.walk(results[0][100], results[0][300]) == [results[0][200], results[0][300]]


def test_older_snapshot_rechains_newer_ones_and_keeps_their_trees(git: Git) -> None:
    add_snapshot(git, make_snapshot(git, 300))
    before = read_held(git)[Version(300)]
    returned = add_snapshot(git, make_snapshot(git, 100))
    after = read_held(git)[Version(300)]
    assert (before.tree, before.commit != after.commit) == (after.tree, True)
    assert git.read_commit(after.commit).parents == (returned,)
    assert git.tree_of(before.commit) == before.tree  # whoever still uses it can


def test_chain_that_a_crash_left_half_moved_is_mended(git: Git) -> None:
    for build in (100, 200):
        add_snapshot(git, make_snapshot(git, build))
    good = ids(git)
    read = git.read_commit(good[200])
    author = replace(read.author, date=f"@{read.author.date}")
    orphan = git.write_commit(read.tree, (), author, read.message)
    git.move_refs([RefMove(Version(200).ref, orphan, good[200])])
    add_snapshot(git, make_snapshot(git, 300))
    assert {build: ids(git)[build] for build in good} == good


def test_same_version_with_another_tree_is_an_error(git: Git) -> None:
    add_snapshot(git, make_snapshot(git, 100))
    before = ids(git)
    other = Snapshot(Version(100), make_tree(git, "x"), "xllamacpp 2026.1.100.1", "cd" * 32, 5)
    with pytest.raises(EnvironmentFault, match="b100") as caught:
        add_snapshot(git, other)
    assert other.tree in caught.value.what
    assert ids(git) == before


def test_true_commit_takes_the_place_of_its_snapshot(git: Git) -> None:
    snapshots = [make_snapshot(git, build) for build in (100, 200, 300)]
    for snapshot in snapshots:
        add_snapshot(git, snapshot)
    true = git.write_commit(snapshots[1].tree, (), SOMEONE, "true")
    add_true_commits(git, {Version(200): true})
    held = read_held(git)
    assert (held[Version(200)].commit, held[Version(200)].origin) == (true, "remote")
    first, last = held[Version(100)].commit, held[Version(300)].commit
    assert git.read_commit(last).parents == (first,)


def test_true_commit_with_another_tree_moves_nothing(git: Git) -> None:
    for build in (100, 200):
        add_snapshot(git, make_snapshot(git, build))
    before = ids(git)
    good = git.write_commit(git.tree_of(before[100]), (), SOMEONE, "good")
    bad = git.write_commit(make_tree(git, "not upstream's"), (), SOMEONE, "bad")
    with pytest.raises(EnvironmentFault, match="from the git remote has tree"):
        add_true_commits(git, {Version(100): good, Version(200): bad})
    assert ids(git) == before


def test_upstream_commit_that_quotes_our_trailers_is_no_snapshot(git: Git) -> None:
    snapshot = make_snapshot(git, 100)
    commit = add_snapshot(git, snapshot)
    copy = git.write_commit(snapshot.tree, (), SOMEONE, git.read_commit(commit).message)
    git.move_refs([RefMove(Version(150).ref, copy, NULL_ID)])
    assert read_held(git)[Version(150)].snapshot is None


def test_leftovers_of_a_dead_run_go_away(git: Git) -> None:
    add_snapshot(git, make_snapshot(git, 100))
    pack = git.directory / "objects" / "pack" / "tmp_pack_abc"
    tag_lock = git.directory / "refs" / "tags" / "upstream" / "b100.lock"
    old_lock = git.directory / "packed-refs.lock"
    for path in (pack, tag_lock, old_lock):
        path.write_bytes(b"")
    os.utime(old_lock, (time.time() - 3600,) * 2)
    git.run("update-ref", f"{IMPORTING}b7", ids(git)[100])
    old_lock.write_bytes(b"")
    os.utime(old_lock, (time.time() - 3600,) * 2)
    clear_leftovers(git)
    assert not [path for path in (pack, tag_lock, old_lock) if path.exists()]
    assert git.list_refs(IMPORTING) == {}
    add_snapshot(git, make_snapshot(git, 50))  # moves b100


def test_lock_that_another_command_holds_now_is_left_alone(git: Git) -> None:
    lock = git.directory / "packed-refs.lock"
    lock.write_bytes(b"")
    clear_leftovers(git)
    assert lock.exists()


def test_second_run_waits_and_says_so(
    lab: Lab, git: Git, messages: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upstream.store.LOCK_WAIT", 0.1)
    with (
        hold_lock(lab, "upstream"),
        pytest.raises(EnvironmentFault, match="holds the lock"),
        hold_store(lab),
    ):
        pass
    assert "another run is importing upstream source" in messages.text
    with hold_store(lab):  # free again
        pass
