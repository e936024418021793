"""A rebase may change the stack as upstream changed and as its report says, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from series import commands
from series.__main__ import build_parser
from series.decisions import Decisions, Pending, gather_decisions
from series.equivalence import (
    Explained,
    Proof,
    format_proof,
    prove_equivalence,
    require_equivalence,
)
from series.manifest import load_series
from series.merge import Conflict
from series.model import Dropped, Landed, Stack, Step
from series.rebase import Plan, plan_rebase
from series.resolutions import Resolution
from series.stack import apply_series
from tests.series.conftest import MakeLab
from tests.series.miniature import (
    CLASH,
    MOVED,
    OFFSET,
    OWN,
    STEADY,
    TAKEN,
    Files,
    Miniature,
    lines,
    write_series,
)
from upstream.errors import GateFailed
from upstream.git import NULL_ID, Git, Stage
from upstream.version import Version

MINE = lines("delta", changes={15: "delta line 15 patched over b200's"})


@dataclass(frozen=True)
class Rebased:
    """A rebase from b100 to b200 and what may be done to its plan before it is proven."""

    git: Git
    plan: Plan
    decisions: Decisions
    scratch: Path

    def prove(self, plan: Plan | None = None) -> Proof:
        return prove_equivalence(self.git, plan or self.plan, self.decisions, self.scratch)

    def edit(self, tree: str, files: Mapping[str, str | None]) -> str:
        """The tree with other files."""
        entries = [
            Stage("0", NULL_ID, 0, path)
            if text is None
            else Stage("100644", self.git.write_blob(text.encode()), 0, path)
            for path, text in files.items()
        ]
        return self.git.edit_tree(tree, entries, self.scratch)

    def plant(self, at: int, files: Mapping[str, str | None]) -> Plan:
        """The plan with files changed from its step `at` on, commits and all."""
        parent, steps = self.plan.new.commit, list(self.plan.new.steps)
        for number, step in enumerate(steps):
            known = self.git.read_commit(step.commit)
            tree = self.edit(step.tree, files) if number >= at else step.tree
            parent = self.git.write_commit(tree, (parent,), known.author, known.message)
            steps[number] = Step(step.topic, step.patch, parent, tree)
        return replace(self.plan, new=replace(self.plan.new, steps=tuple(steps)))

    def read(self, path: str) -> str:
        content = self.git.read_blob(f"{self.plan.new.tip}:{path}")
        assert content is not None
        return content.decode()


class Rebaser:
    """Rebases patches over the miniature upstream inside this process."""

    def __init__(self, upstream: Miniature, scratch: Path) -> None:
        self.upstream, self.scratch = upstream, scratch
        self.git = Git(upstream.path)

    def carry(
        self,
        *patches: tuple[str, Files],
        landed: str = "",
        dropped: str = "",
        resolved: str = "",
    ) -> Rebased:
        made = self.upstream.patches("b100", *patches)
        series = load_series(write_series(self.scratch / "series", "b100", made))
        old = apply_series(self.git, series, Version(100), self._at("b100"), self.scratch)
        decisions = gather_decisions(series, Pending(self.scratch / "state"), Version(200))
        if landed:
            record = Landed("first", landed, "x", Version(200), "y")
            decisions = replace(decisions, landed={landed: record})
        if dropped:
            decisions = replace(decisions, dropped={dropped: Dropped("first", dropped, "no")})
        if resolved:
            plan = self._plan(old, decisions)
            decisions = replace(decisions, resolutions=self._resolve(plan, resolved))
        return Rebased(self.git, self._plan(old, decisions), decisions, self.scratch)

    def _at(self, tag: str) -> str:
        return self.upstream.text("rev-parse", f"{tag}^0")

    def _plan(self, old: Stack, decisions: Decisions) -> Plan:
        at = self._at("b200")
        return plan_rebase(self.git, old, Version(200), at, decisions, self.scratch)

    def _resolve(self, plan: Plan, patch: str) -> dict[tuple[str, str], Resolution]:
        outcome = next(o for o in plan.outcomes if o.patch == patch)
        conflict = outcome.conflict
        assert isinstance(conflict, Conflict)
        ours = conflict.write_upstream(self.git, self.scratch)
        entry = Stage("100644", self.git.write_blob(MINE.encode()), 0, "src/delta.c")
        theirs = self.git.edit_tree(ours, [entry], self.scratch)
        diff = self.git.diff(ours, theirs, "--binary", "--no-renames")
        found = Resolution(patch, conflict.key, "b100", "b200", "", "checked", diff)
        return {(patch, conflict.key): found}


@pytest.fixture
def rebaser(upstream: Miniature, scratch: Path) -> Rebaser:
    return Rebaser(upstream, scratch)


def test_every_file_of_a_clean_rebase_is_proven(rebaser: Rebaser) -> None:
    done = rebaser.carry(STEADY, OFFSET, MOVED)
    proof = done.prove()
    require_equivalence(proof)
    # alpha, gamma, delta, omega, taken, beta under both of its names
    assert (proof.proven, proof.explained, proof.step_by_step) == (7, (), ())
    assert format_proof(proof) == "equivalence: 7 files proven equal"


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("src/alpha.c", "new 3\n", ""),  # upstream's line is lost
        ("src/alpha.c", "alpha line 20 patched\n", ""),  # the patch's own line is lost
        ("src/alpha.c", "alpha line 25\n", "alpha line 25\nnobody wrote this\n"),
        ("src/alpha.c", "alpha line 20 patched\n", "alpha line 20 patched\n" * 2),
        ("lib/beta.c", "beta line 10 patched\n", "beta line 10\n"),
        ("src/half.c", "half line 1\n", "half line one\n"),  # a file that nobody changed
    ],
)
@pytest.mark.parametrize("at", [0, 2])
def test_planted_change_is_found_in_its_file(
    rebaser: Rebaser, path: str, old: str, new: str, at: int
) -> None:
    done = rebaser.carry(STEADY, OFFSET, MOVED)
    text = done.read(path)
    assert text.count(old) == 1
    proof = done.prove(done.plant(at, {path: text.replace(old, new)}))
    assert {u.path for u in proof.unexplained} == {path}
    with pytest.raises(GateFailed, match=path):
        require_equivalence(proof)


def test_file_added_or_removed_by_nobody_is_found(rebaser: Rebaser) -> None:
    done = rebaser.carry(STEADY, OFFSET)
    proof = done.prove(done.plant(1, {"src/ghost.c": "boo\n", "src/omega.c": None}))
    assert [u.path for u in proof.unexplained] == ["src/ghost.c", "src/omega.c"]
    assert "2 NOT EXPLAINED" in format_proof(proof)


def test_change_that_a_later_step_takes_back_is_no_difference_of_the_tips(rebaser: Rebaser) -> None:
    done = rebaser.carry(STEADY, OFFSET)
    first, second = done.plan.new.steps
    edited = done.plant(0, {"src/omega.c": "other\n"}).new.steps[0]
    known = done.git.read_commit(second.commit)
    last = done.git.write_commit(second.tree, (edited.commit,), known.author, known.message)
    steps = (edited, replace(second, commit=last))
    plan = replace(done.plan, new=replace(done.plan.new, steps=steps))
    assert first.tree != edited.tree
    assert done.prove(plan).holds


def test_resolution_explains_its_own_file_and_no_other(rebaser: Rebaser) -> None:
    done = rebaser.carry(STEADY, CLASH, OFFSET, resolved="clash.patch")
    assert [o.status for o in done.plan.outcomes] == ["clean", "replayed", "offset"]
    proof = done.prove()
    assert proof.holds
    assert proof.explained == (Explained("src/delta.c", "clash.patch", "resolution"),)
    assert "1 explained by resolution clash.patch" in format_proof(proof)
    for path, text in (("src/delta.c", MINE + "more\n"), ("src/gamma.c", lines("gamma"))):
        assert {u.path for u in done.prove(done.plant(1, {path: text})).unexplained} == {path}


def test_resolution_that_is_not_listed_explains_nothing(rebaser: Rebaser) -> None:
    done = rebaser.carry(CLASH, resolved="clash.patch")
    bare = replace(done, decisions=replace(done.decisions, resolutions={}))
    assert {u.path for u in bare.prove().unexplained} == {"src/delta.c"}


def test_landed_and_dropped_patches_explain_their_files_alone(rebaser: Rebaser) -> None:
    done = rebaser.carry(TAKEN, STEADY, OWN, OFFSET, landed="taken.patch", dropped="own.patch")
    proof = done.prove()
    assert proof.holds
    assert proof.explained == (
        Explained("src/taken.c", "taken.patch", "landed"),
        Explained("src/omega.c", "own.patch", "dropped"),
    )
    planted = done.plant(1, {"src/taken.c": lines("taken"), "src/omega.c": lines("omega")})
    assert {u.path for u in done.prove(planted).unexplained} == {"src/taken.c", "src/omega.c"}


def test_patches_that_only_conflict_together_are_proven_one_by_one(rebaser: Rebaser) -> None:
    """Upstream has the first; the second changes the same line again."""
    both = {9: "taken line 9 with the fix and more", 20: "taken line 20 patched"}
    first = {9: "taken line 9 with the fix", 20: "taken line 20 patched"}
    done = rebaser.carry(
        ("one.patch", {"src/taken.c": lines("taken", changes=first)}),
        ("two.patch", {"src/taken.c": lines("taken", changes=both)}),
    )
    proof = done.prove()
    assert (proof.holds, proof.step_by_step) == (True, ("src/taken.c",))
    assert "1 of them patch by patch" in format_proof(proof)
    text = done.read("src/taken.c")
    planted = done.plant(1, {"src/taken.c": text.replace("taken line 25\n", "")})
    assert {u.path for u in done.prove(planted).unexplained} == {"src/taken.c"}


def test_step_that_no_patch_accounts_for_is_found(rebaser: Rebaser) -> None:
    done = rebaser.carry(STEADY, OFFSET)
    tip = done.plan.new.steps[-1]
    tree = done.edit(tip.tree, {"src/omega.c": "other\n"})
    known = done.git.read_commit(tip.commit)
    extra = done.git.write_commit(tree, (tip.commit,), known.author, "extra\n")
    steps = (*done.plan.new.steps, Step("first", "extra.patch", extra, tree))
    proof = done.prove(replace(done.plan, new=replace(done.plan.new, steps=steps)))
    assert [(u.path, u.patches) for u in proof.unexplained] == [("src/omega.c", ("extra.patch",))]


def test_commit_that_holds_another_tree_than_the_step_is_found(rebaser: Rebaser) -> None:
    done = rebaser.carry(STEADY, OFFSET)
    crossed = (replace(done.plan.new.steps[0], commit=done.plan.new.steps[1].commit),)
    steps = (*crossed, done.plan.new.steps[1])
    proof = done.prove(replace(done.plan, new=replace(done.plan.new, steps=steps)))
    assert "src/alpha.c" in {u.path for u in proof.unexplained}


def test_report_has_the_proof_and_a_waiting_rebase_has_none(
    upstream: Miniature, tmp_path: Path, make_lab: MakeLab
) -> None:
    patches = upstream.patches("b100", STEADY, OFFSET)
    lab = make_lab(write_series(tmp_path / "series", "b100", patches))
    assert "equivalence: 7 files proven equal" in lab.rebase("--onto", "b200").out
    report = lab.rebase("--onto", "b300", "--dry-run", "--json").document()
    assert report["equivalence"]["proven"] > 0
    assert report["equivalence"]["unexplained"] == []
    clash = upstream.patches("b100", CLASH)
    waits = make_lab(write_series(tmp_path / "clash", "b100", clash), name="other")
    assert waits.rebase("--onto", "b200", "--json").document()["equivalence"] is None


def test_unexplained_difference_ends_the_rebase_before_a_ref_moves(
    upstream: Miniature, tmp_path: Path, make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine itself is made to lose a line; that needs the command in this process."""
    lab = make_lab(write_series(tmp_path / "series", "b100", upstream.patches("b100", STEADY)))

    def lose_a_line(
        git: Git, old: Stack, onto: Version, commit: str, decisions: Decisions, scratch: Path
    ) -> Plan:
        plan = plan_rebase(git, old, onto, commit, decisions, scratch)
        return Rebased(git, plan, decisions, scratch).plant(0, {"src/omega.c": "one line\n"})

    monkeypatch.setenv("LAB_DIR", str(lab.folder))
    monkeypatch.setattr(commands, "plan_rebase", lose_a_line)
    args = build_parser().parse_args(lab.command("rebase", "--onto", "b200", "--write")[3:])
    files = lab.files()
    with pytest.raises(GateFailed, match=r"src/omega\.c  \(steady\.patch\)"):
        args.run(args)
    assert (lab.refs(), lab.files()) == ({}, files)
