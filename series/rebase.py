"""Carrying a stack onto another upstream version, in memory.

A conflict never ends the report: the step is left out, and every later patch is still assessed on
the best tree there is. Nothing here moves a ref or writes a file of the user's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from series.decisions import Decisions
from series.loss import Change, Loss, find_loss, read_changes
from series.merge import Conflict, merge_patch
from series.model import Stack, Step
from series.resolutions import replay
from upstream.errors import LabError
from upstream.git import Commit, Git
from upstream.version import Version

Status = Literal[
    "clean", "offset", "moved", "replayed", "empty", "conflict", "needs", "landed", "dropped"
]
Fate = Literal["kept", "changed", "landed", "dropped", "waiting"]


@dataclass(frozen=True)
class Outcome:
    """How one input patch ended."""

    topic: str
    patch: str
    status: Status
    fate: Fate
    step: Step | None = None
    conflict: Conflict | None = None
    loss: Loss = field(default_factory=lambda: Loss((), ()))
    reason: str = ""


@dataclass(frozen=True)
class Plan:
    """A rebase worked out: the stack before, the stack after, one outcome an input patch."""

    old: Stack
    new: Stack
    outcomes: tuple[Outcome, ...]

    @property
    def waiting(self) -> tuple[Outcome, ...]:
        return tuple(o for o in self.outcomes if o.fate == "waiting")

    def count_fates(self) -> dict[str, int]:
        """How many patches were kept, changed, landed, dropped or wait for a person."""
        return dict(Counter(o.fate for o in self.outcomes))


@dataclass
class _Run:
    """The moving parts of one rebase: where the new stack stands, the old one without what is
    parked (None while nothing is), and each carried patch's trees before and after."""

    git: Git
    decisions: Decisions
    scratch: Path
    parent: str
    tree: str
    old_without: str | None = None
    steps: list[Step] = field(default_factory=list)
    pairs: dict[str, tuple[tuple[str, str], tuple[str, str]]] = field(default_factory=dict)
    parked: list[str] = field(default_factory=list)


def plan_rebase(
    git: Git, old: Stack, onto: Version, commit: str, decisions: Decisions, scratch: Path
) -> Plan:
    """Work out the stack of `old` on the upstream commit of `onto`."""
    upstream, *patches = git.read_commits([commit, *(step.commit for step in old.steps)])
    run = _Run(git, decisions, scratch, commit, upstream.tree)
    parents = (old.tree, *(step.tree for step in old.steps))
    carried = [
        _carry(run, step, patch, parent)
        for step, patch, parent in zip(old.steps, patches, parents, strict=False)
    ]
    new = Stack(onto, commit, upstream.tree, tuple(run.steps))
    plan = Plan(old, new, tuple(_weigh(run, carried)))
    check_accounts(old.steps, plan)
    return plan


def check_accounts(inputs: Sequence[Step], plan: Plan) -> None:
    """Every input patch ends exactly once, and only kept or changed ones are in the new stack."""
    ended = Counter(o.patch for o in plan.outcomes)
    if ended != Counter(step.patch for step in inputs):
        raise LabError(
            "the rebase lost count of its patches; nothing was changed",
            remedy="report this with `nox -s rebase -- --dry-run --json`",
        )
    carried = [o.patch for o in plan.outcomes if o.step is not None]
    if carried != [step.patch for step in plan.new.steps]:
        raise LabError(
            "the new stack does not hold what the report says; nothing was changed",
            remedy="report this with `nox -s rebase -- --dry-run --json`",
        )


def _carry(run: _Run, step: Step, patch: Commit, parent: str) -> Outcome:
    landed = run.decisions.landed.get(step.patch)
    if landed is not None:
        note = f"{landed.reference} in {landed.version}: {landed.evidence}"
        return Outcome(step.topic, step.patch, "landed", "landed", reason=note)
    dropped = run.decisions.dropped.get(step.patch)
    if dropped is not None:
        return Outcome(step.topic, step.patch, "dropped", "dropped", reason=dropped.reason)
    merged = merge_patch(run.git, patch, run.tree)
    if isinstance(merged, Conflict):
        return _resolve(run, step, patch, parent, merged)
    return _accept(run, step, patch, parent, merged, None)


def _resolve(run: _Run, step: Step, patch: Commit, parent: str, conflict: Conflict) -> Outcome:
    known = run.decisions.resolutions.get((step.patch, conflict.key))
    tree = None if known is None else replay(run.git, conflict, known, run.scratch)
    if tree is not None:
        return _accept(run, step, patch, parent, tree, conflict)
    blocked = _needs_parked(run, patch)
    _park(run, step, parent)
    if blocked:
        reason = f"needs {', '.join(run.parked[:-1])}"
        return Outcome(step.topic, step.patch, "needs", "waiting", reason=reason)
    note = "" if known is None else f"{known.file_name} no longer fits around the conflict"
    return Outcome(step.topic, step.patch, "conflict", "waiting", conflict=conflict, reason=note)


def _accept(
    run: _Run, step: Step, patch: Commit, parent: str, tree: str, conflict: Conflict | None
) -> Outcome:
    if tree == run.tree:
        _park(run, step, parent)
        reason = "upstream has all of it; record it with --landed"
        return Outcome(step.topic, step.patch, "empty", "waiting", None, conflict, reason=reason)
    commit = run.git.write_commit(tree, (run.parent,), patch.author, patch.message)
    new = Step(step.topic, step.patch, commit, tree)
    run.pairs[step.patch] = ((parent, step.tree), (run.tree, tree))
    run.parent, run.tree = commit, tree
    run.steps.append(new)
    _follow_without(run, patch)
    status: Status = "clean" if conflict is None else "replayed"
    return Outcome(step.topic, step.patch, status, "waiting", new, conflict)


def _weigh(run: _Run, outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
    """Compare every carried patch before and after: its fate, its move, its losses."""
    pairs = [pair for before_and_after in run.pairs.values() for pair in before_and_after]
    changes = iter(read_changes(run.git, pairs))
    for outcome in outcomes:
        if outcome.patch not in run.pairs:
            yield outcome
            continue
        before, after = next(changes), next(changes)
        loss = find_loss(before, after)
        reason = run.decisions.reason_for(outcome.patch, loss) if loss else ""
        fate: Fate = "waiting" if loss and not reason else _classify_fate(before, after)
        status = outcome.status if outcome.conflict else _classify_move(before, after)
        yield replace(outcome, status=status, fate=fate, loss=loss, reason=reason)


def _classify_move(before: Change, after: Change) -> Status:
    if before.paths != after.paths:
        return "moved"
    return "clean" if before.starts == after.starts else "offset"


def _classify_fate(before: Change, after: Change) -> Fate:
    same = (before.added, before.removed, before.paths) == (after.added, after.removed, after.paths)
    return "kept" if same else "changed"


def _needs_parked(run: _Run, patch: Commit) -> bool:
    """Whether a patch fails on its own old base too once the parked ones are gone from it."""
    if run.old_without is None:
        return False
    return isinstance(merge_patch(run.git, patch, run.old_without), Conflict)


def _park(run: _Run, step: Step, parent: str) -> None:
    run.parked.append(step.patch)
    if run.old_without is None:
        run.old_without = parent


def _follow_without(run: _Run, patch: Commit) -> None:
    if run.old_without is None:
        return
    merged = merge_patch(run.git, patch, run.old_without)
    if not isinstance(merged, Conflict):
        run.old_without = merged
