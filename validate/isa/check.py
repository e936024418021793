"""The compilers' word on one step, as a check among the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from series.model import IsaAllowance
from upstream.git import Git
from upstream.lab import Lab
from validate.isa.compilers import compilers_at_hand
from validate.isa.judge import REFUSED, StepChanges, Word
from validate.isa.recording import open_bench, read_trees
from validate.isa.run import Session, Tree, compare_trees
from validate.isa.tables import document_change
from validate.isa.workshop import open_workshop
from validate.verdict import CheckResult, Verdict

CHECK = "isa"
SAME = "the same ggml folder as the parent's"
NOT_AMD = "what changed are mat-vecs that no AMD device runs (nox -s isa -- --mat-vec)"
NOT_RUN = "not run: no toolchain roots here (nox -s isa makes them, as root)"


@dataclass(frozen=True)
class StepPair:
    """A step and its parent: names, and ids of trees of the lab's repository."""

    step: str
    parent: str
    step_tree: str
    parent_tree: str
    allowance: IsaAllowance | None = None


def check_isa(lab: Lab, git: Git, pair: StepPair, jobs: int = 2) -> CheckResult:
    """Compile what a step changes and judge it; only shown, as "not run", without both roots.

    Nothing is installed or made for it. Raises what recording a tree raises.
    """
    with open_workshop(lab, git, jobs) as shop:
        if shop.subtree(pair.step_tree) == shop.subtree(pair.parent_tree):
            return CheckResult(CHECK, Verdict.IDENTICAL, SAME, cached=True)
        compilers = compilers_at_hand(lab, shop.folder)
        if compilers is None:
            return CheckResult(CHECK, Verdict.INFORMATION, NOT_RUN, cached=True)
        bench = open_bench(shop, compilers)
        session = Session(bench, compilers)
        found = summarize(_compare(session, pair), [compiler.version for compiler in compilers])
    return replace(found, cached=not session.fresh)


def summarize(changes: StepChanges, compilers: list[str]) -> CheckResult:
    """The verdict on a step, with every changed pipeline in the facts."""
    facts: dict[str, Any] = {"compilers": compilers, "same": changes.same}
    facts |= {"new": changes.new, "gone": changes.gone, "left out": changes.left}
    facts["changes"] = [document_change(change) for change in changes.changes]
    said = " and ".join(compilers)
    if not changes.changes and changes.left:
        return CheckResult(CHECK, Verdict.INFORMATION, f"not run: {NOT_AMD}", facts)
    if not changes.changes:
        detail = f"{said}: {changes.same} pipelines compile to the same"
        return CheckResult(CHECK, Verdict.IDENTICAL, detail, facts)
    bad = [each for each in changes.changes if each.word in (*REFUSED, Word.INVALID)]
    if not bad:
        detail = f"{said}: {len(changes.changes)} changed, none spills more or is over the margin"
        return CheckResult(CHECK, Verdict.PASS, detail, facts)
    worst = next(each for each in bad if each.word is changes.word)
    verdict = Verdict.INVALID if changes.word is Word.INVALID else Verdict.FAIL
    detail = f"{worst.pair.variant.label} on {worst.compiler}: {worst.reason}"
    return CheckResult(CHECK, verdict, detail, facts)


def _compare(session: Session, pair: StepPair) -> StepChanges:
    before, after = read_trees(session.bench, [pair.parent_tree, pair.step_tree])
    step = Tree(pair.step, after, pair.allowance)
    return compare_trees(session, Tree(pair.parent, before), step)
