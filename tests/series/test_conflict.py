"""A conflict waits in a worktree of its own; its resolution is taken, remembered and replayed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.series.conftest import MakeLab
from tests.series.lab import Lab
from tests.series.miniature import (
    AFTER,
    CLASH,
    OWN,
    STEADY,
    Miniature,
    lines,
    run_git,
    write_series,
)

MARKED = """delta line 14
<<<<<<< upstream
delta line 15 as b200 has it
||||||| base
delta line 15
=======
delta line 15 patched
>>>>>>> patch
delta line 16
"""
BOTH = {15: "delta line 15 as b200 has it, patched"}


@pytest.fixture
def clash(upstream: Miniature, tmp_path: Path, make_lab: MakeLab) -> Lab:
    patches = upstream.patches("b100", STEADY, CLASH)
    return make_lab(write_series(tmp_path / "series", "b100", patches))


def tree_of(lab: Lab, patch: str = "clash") -> Path:
    return lab.parked / patch / "tree"


def resolve(lab: Lab, text: str = "", path: str = "src/delta.c", patch: str = "clash") -> None:
    """Write a parked file as a person would who is done with it."""
    (tree_of(lab, patch) / path).write_text(text or lines("delta", changes=BOTH))


def test_conflict_is_parked_with_markers_and_its_three_versions(
    clash: Lab, upstream: Miniature
) -> None:
    done = clash.rebase("--onto", "b200")
    assert done.code == 5
    assert "nothing was moved" in done.err
    tree = tree_of(clash)
    assert MARKED in (tree / "src/delta.c").read_text()
    assert "gamma line 10 patched" in (tree / "src/gamma.c").read_text()  # the step before is in
    status = run_git(tree, "status", "--porcelain").decode().splitlines()
    assert "UU src/delta.c" in status
    versions = clash.parked / "clash" / "versions"
    for side, tag in (("base", "b100"), ("upstream", "b200")):
        wanted = upstream.git("cat-file", "blob", f"{tag}:src/delta.c")
        assert (versions / side / "src/delta.c").read_bytes() == wanted
    patched = lines("delta", changes={15: "delta line 15 patched"})
    assert (versions / "patch/src/delta.c").read_text() == patched
    assert f"resolve it in:  {tree}" in done.out
    assert f"three versions: {versions}" in done.out
    assert "upstream | delta line 15 as b200 has it" in done.out
    assert "--onto b200 --continue --reason 'what you decided'" in done.out
    assert clash.refs() == {}


def test_cause_names_the_version_that_changed_the_lines(clash: Lab) -> None:
    assert clash.rebase("--onto", "b200", "--dry-run").code == 5  # imports b200
    done = clash.rebase("--onto", "b300", "--json")
    (cause,) = done.document()["patches"][1]["causes"]
    assert cause == {"path": "src/delta.c", "version": "b200"}


def test_continue_with_markers_left_waits_and_keeps_the_edit(clash: Lab) -> None:
    assert clash.rebase("--onto", "b200", "--continue").code == 2  # nothing is parked yet
    clash.rebase("--onto", "b200")
    half = MARKED.replace("<<<<<<< upstream\n", "")
    resolve(clash, half)
    done = clash.rebase("--onto", "b200", "--continue", "--reason", "r")
    assert done.code == 5
    assert "clash.patch: conflict markers are left in src/delta.c" in done.err
    assert "next: remove the conflict markers" in done.err
    assert (tree_of(clash) / "src/delta.c").read_text() == half


def test_resolution_is_written_and_replayed_in_another_lab(
    clash: Lab, make_lab: MakeLab, tmp_path: Path
) -> None:
    old = shutil.copytree(clash.series, tmp_path / "old series")
    clash.rebase("--onto", "b200")
    resolve(clash)
    (tree_of(clash) / "src/delta.c.orig").write_text("what git mergetool leaves\n")
    words = ("--reason", "both\nchanges: kept")
    taken = clash.rebase("--onto", "b200", "--continue", *words, "--write")
    assert taken.code == 0, taken.err
    assert "resolution replayed" in taken.out
    assert not tree_of(clash).exists()
    (stored,) = (clash.series / "resolutions").iterdir()
    text = stored.read_text()
    assert "Patch: clash.patch\n" in text
    assert "From: b100\nOnto: b200\n" in text
    assert "Reason: both changes: kept\n" in text
    assert ".orig" not in text
    assert "-delta line 15 as b200 has it\n+delta line 15 as b200 has it, patched\n" in text
    (old / "resolutions").mkdir()
    shutil.copy(stored, old / "resolutions")
    other = make_lab(old, name="other lab").rebase("--onto", "b200", "--json")
    assert other.code == 0, other.err
    assert other.document()["patches"][1]["status"] == "replayed"
    assert other.document()["tip_tree"] == clash.run("status", "--json").document()["tip_tree"]


def test_changed_conflict_is_not_replayed_and_an_edited_worktree_is_set_aside(clash: Lab) -> None:
    clash.rebase("--onto", "b200")
    resolve(clash)
    (tree_of(clash) / "notes.txt").write_text("mine\n")
    done = clash.rebase("--onto", "b300", "--json")  # delta's line 15 is another one there
    assert done.document()["patches"][1]["status"] == "conflict"
    aside = clash.parked / "clash.old-1" / "tree"
    assert (aside / "notes.txt").read_text() == "mine\n"
    assert (aside / "src/delta.c").read_text() == lines("delta", changes=BOTH)
    assert f"your edits are kept in {aside.parent}" in done.err
    assert "delta line 15 as b300 has it" in (tree_of(clash) / "src/delta.c").read_text()
    assert clash.rebase("--onto", "b200").code == 5  # nobody worked in the b300 one: no second copy
    assert [p.name for p in sorted(clash.parked.iterdir())] == ["clash", "clash.old-1"]


def test_stored_resolution_does_not_fit_a_changed_conflict(clash: Lab) -> None:
    clash.rebase("--onto", "b200")
    resolve(clash)
    assert clash.rebase("--onto", "b200", "--continue", "--reason", "r").code == 0
    done = clash.rebase("--onto", "b300", "--json")
    assert done.code == 5
    assert done.document()["patches"][1]["status"] == "conflict"


def test_abort_forgets_worktrees_and_decisions(clash: Lab) -> None:
    clash.rebase("--onto", "b200")
    clash.rebase("--onto", "b200", "--drop", "clash.patch", "--reason", "for now")
    done = clash.rebase("--abort")
    assert done.code == 0
    assert "forgot the parked conflicts and decisions" in done.err
    assert not clash.parked.exists()
    assert clash.git.text("worktree", "list", "--porcelain").count("worktree ") == 1
    again = clash.rebase("--onto", "b200", "--json", "--dry-run")
    assert again.document()["patches"][1]["status"] == "conflict"


def test_worktree_that_a_person_removed_is_parked_anew(clash: Lab) -> None:
    clash.rebase("--onto", "b200")
    shutil.rmtree(tree_of(clash))
    gone = clash.rebase("--onto", "b200", "--continue", "--reason", "r")
    assert gone.code == 5
    assert "is no worktree of ours any more" in gone.err
    assert clash.rebase("--onto", "b200").code == 5
    assert MARKED in (tree_of(clash) / "src/delta.c").read_text()


def test_one_of_two_resolved_conflicts_is_taken_and_the_rest_still_waits(
    upstream: Miniature, tmp_path: Path, make_lab: MakeLab
) -> None:
    patches = upstream.patches("b100", CLASH, AFTER, OWN)
    lab = make_lab(write_series(tmp_path / "series", "b100", patches))
    lab.rebase("--onto", "b200")
    resolve(lab)
    done = lab.rebase("--onto", "b200", "--continue", "--reason", "r", "--json")
    assert done.code == 5
    statuses = [p["status"] for p in done.document()["patches"]]
    assert statuses == ["replayed", "conflict", "conflict"]  # after.patch has its own now
    assert [p.name for p in sorted(lab.parked.iterdir())] == ["after", "own"]


def test_conflict_without_markers_waits_for_a_decision(
    own_upstream: Miniature, tmp_path: Path, make_lab: MakeLab
) -> None:
    """Upstream deleted the file that the patch changes: no marker says so."""
    own_upstream.release("b100", {"a.c": lines("a"), "b.c": lines("b")})
    own_upstream.release("b200", {"a.c": None})
    change = ("gone.patch", {"a.c": lines("a", changes={3: "patched"}), "b.c": lines("b") + "x\n"})
    series = write_series(tmp_path / "series", "b100", own_upstream.patches("b100", change))
    lab = make_lab(series, remote=own_upstream.url)
    assert lab.rebase().code == 5
    tree = tree_of(lab, "gone")
    assert b"UD a.c" in run_git(tree, "status", "--porcelain") or (tree / "a.c").exists()
    idle = lab.rebase("--continue", "--reason", "r")
    assert idle.code == 5
    assert "nothing is decided about a.c" in idle.err
    run_git(tree, "rm", "--quiet", "a.c")
    done = lab.rebase("--continue", "--reason", "gone upstream", "--json")
    assert done.code == 0, done.err
    assert lab.git.read_blob(f"{done.document()['tip']}:a.c") is None


def test_mode_that_upstream_changed_survives_a_conflict_and_crlf_markers_are_named(
    own_upstream: Miniature, tmp_path: Path, make_lab: MakeLab
) -> None:
    text = lines("r").replace("\n", "\r\n")
    own_upstream.release("b100", {"run.sh": text})
    theirs = text.replace("line 5\r", "line five\r")
    own_upstream.release("b200", {"run.sh": theirs}, modes={"run.sh": "100755"})
    change = ("crlf.patch", {"run.sh": text.replace("line 5\r", "line V\r")})
    series = write_series(tmp_path / "series", "b100", own_upstream.patches("b100", change))
    lab = make_lab(series, remote=own_upstream.url)
    assert lab.rebase().code == 5
    parked = tree_of(lab, "crlf") / "run.sh"
    assert b"<<<<<<< upstream\r\nr line five\r\n" in parked.read_bytes()
    assert parked.stat().st_mode & 0o111
    resolved = theirs.replace("line five", "line five V")
    parked.write_bytes(resolved.encode())
    done = lab.rebase("--continue", "--reason", "both", "--json")
    assert done.code == 0, done.err
    tip = done.document()["tip"]
    assert lab.git.text("ls-tree", tip).startswith("100755 ")
    assert lab.git.read_blob(f"{tip}:run.sh") == resolved.encode()
