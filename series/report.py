"""What a rebase says to a person and, as JSON, to a program."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

from series.cause import Cause
from series.equivalence import Proof, document_proof, format_proof
from series.model import Stack
from series.park import Parked
from series.rebase import Outcome, Plan

WORDS = {
    "clean": "clean",
    "offset": "clean with offset",
    "moved": "clean, moved by rename",
    "replayed": "resolution replayed",
    "empty": "empty",
    "conflict": "conflict",
    "needs": "needs a parked one",
    "landed": "landed upstream",
    "dropped": "dropped",
}
MOST_LINES = 12
COLUMNS = 118


@dataclass(frozen=True)
class Findings:
    """A plan with what was found out about its conflicts, by patch, and the proof of equivalence
    where nothing waits; `again` begins the command that names the same series and versions."""

    plan: Plan
    parked: Mapping[str, Parked]
    causes: Mapping[str, tuple[Cause, ...]]
    again: str = "nox -s rebase --"
    proof: Proof | None = None


def repeat_command(args: argparse.Namespace) -> str:
    """The beginning of a command line on the same series and versions as this one."""
    options = (
        ("--series", args.series, Path("series")),
        ("--upstream", args.upstream, "auto"),
        ("--remote", args.remote, None),
        ("--from", args.start, None),
        ("--onto", args.onto, "HEAD"),
    )
    words = [w for name, value, usual in options if value != usual for w in (name, str(value))]
    return shlex.join(("nox", "-s", "rebase", "--", *words))


def format_plan(findings: Findings) -> str:
    """The table of a rebase, its counts, and for every waiting patch what to do."""
    plan = findings.plan
    width = max((len(o.patch) for o in plan.outcomes), default=5)
    lines = [f"{plan.old.version} -> {plan.new.version}, {len(plan.outcomes)} patches"]
    lines += [_format_row(outcome, width) for outcome in plan.outcomes]
    lines.append(format_counts(plan))
    lines += [format_proof(findings.proof)] if findings.proof else []
    for outcome in plan.waiting:
        lines += ["", *explain_waiting(outcome, findings)]
    return "\n".join(lines)


def _format_row(outcome: Outcome, width: int) -> str:
    """One line that fits a terminal; the whole reason is in --json and in the series' files."""
    head = f"  {outcome.patch:{width}}  {WORDS[outcome.status]:22}  {outcome.fate:8}"
    room = max(COLUMNS - len(head) - 1, 30)
    return f"{head} {shorten(outcome.reason, room, placeholder=' ...')}".rstrip()


def format_counts(plan: Plan) -> str:
    """Each input patch ends exactly once: the sum is asserted in series.rebase."""
    fates = plan.count_fates()
    parts = [f"{fates.get(fate, 0)} {fate}" for fate in ("kept", "changed", "landed", "dropped")]
    parts += [f"{fates['waiting']} waiting for you"] if fates.get("waiting") else []
    return f"{len(plan.outcomes)} in = {' + '.join(parts)}"


def explain_waiting(outcome: Outcome, findings: Findings) -> list[str]:
    """What happened to a waiting patch and the next command."""
    if outcome.status == "conflict":
        return _explain_conflict(outcome, findings)
    if outcome.status == "needs":
        return [
            f"{outcome.patch} {outcome.reason}: resolve that first",
            f"  next: {findings.again} --continue --reason 'what you decided'",
        ]
    if outcome.status == "empty":
        return [
            f"{outcome.patch} changes nothing on {findings.plan.new.version} any more",
            f"  next: {findings.again} --landed {outcome.patch} --reference '#PR' "
            "--evidence 'how you know'",
        ]
    return [
        f"{outcome.patch} merged, but not without loss:",
        *(f"  {line}" for line in outcome.loss.describe()),
        f"  next: {findings.again} --acknowledge {outcome.patch} --reason 'why that is right'",
    ]


def _explain_conflict(outcome: Outcome, findings: Findings) -> list[str]:
    lines = [f"{outcome.patch} conflicts:"]
    for cause in findings.causes.get(outcome.patch, ()):
        lines.append(f"  {cause.describe()}")
        lines += [f"    upstream | {text}" for text in cause.upstream_lines[:MOST_LINES]]
        more = len(cause.upstream_lines) - MOST_LINES
        lines += [f"    ... {more} more lines"] if more > 0 else []
    lines += [f"  {outcome.reason}"] if outcome.reason else []
    parked = findings.parked.get(outcome.patch)
    if parked is None:
        return [
            *lines,
            f"  next: {findings.again.removesuffix(' --')}  (parks it for you to resolve)",
        ]
    return [
        *lines,
        f"  resolve it in:  {parked.worktree}",
        f"  three versions: {parked.versions}",
        f"  next: {findings.again} --continue --reason 'what you decided'",
    ]


def plan_document(findings: Findings) -> dict[str, object]:
    """The plan as a JSON document."""
    plan = findings.plan
    return {
        "from": str(plan.old.version),
        "onto": str(plan.new.version),
        "base_commit": plan.new.commit,
        "tip": plan.new.tip,
        "tip_tree": plan.new.tip_tree,
        "counts": plan.count_fates(),
        "equivalence": document_proof(findings.proof) if findings.proof else None,
        "patches": [_outcome_document(o, findings) for o in plan.outcomes],
    }


def _outcome_document(outcome: Outcome, findings: Findings) -> dict[str, object]:
    parked = findings.parked.get(outcome.patch)
    return {
        "topic": outcome.topic,
        "patch": outcome.patch,
        "status": outcome.status,
        "fate": outcome.fate,
        "reason": outcome.reason,
        "commit": outcome.step.commit if outcome.step else None,
        "tree": outcome.step.tree if outcome.step else None,
        "vanished": list(outcome.loss.vanished),
        "newly_removed": list(outcome.loss.newly_removed),
        "conflict": outcome.conflict.key if outcome.conflict else None,
        "worktree": str(parked.worktree) if parked else None,
        "causes": [
            {"path": c.path, "version": str(c.version) if c.version else None}
            for c in findings.causes.get(outcome.patch, ())
        ],
    }


def format_stack(stack: Stack, where: str) -> str:
    """The steps of a stack, one a line, with abbreviated trees."""
    width = max((len(step.patch) for step in stack.steps), default=5)
    lines = [f"stack of {len(stack.steps)} patches on {stack.version}{where}"]
    lines += [f"  {s.patch:{width}}  {s.topic:20}  tree {s.tree[:12]}" for s in stack.steps]
    return "\n".join(lines)
