"""Writing the `[[landed]]` record of a patch, with the evidence."""

from __future__ import annotations

from dataclasses import dataclass

from series import commands
from series.commands import Bench
from series.equivalence import require_equivalence
from series.manifest import digest_series, load_series
from series.pull_request import find_references
from series.stack import load_stack, save_stack
from upstream.errors import ConflictWaiting, GateFailed, UsageError
from validate.drift.model import Row
from validate.landing.signals import NEEDED, Signals


@dataclass(frozen=True)
class Words:
    """What the person said: any of them may be empty."""

    reference: str = ""
    evidence: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Retired:
    """What was written. `removed`: the patch has left the series; else it leaves when the base
    reaches the version. `backup`: where the refs before are kept, None where none moved."""

    reference: str
    evidence: str
    removed: bool
    backup: str | None


def retire(bench: Bench, signals: Signals, row: Row, words: Words) -> Retired:
    """Write the record. Raises GateFailed when too few signs agree and no reason is given,
    ConflictWaiting when another patch does not apply without this one."""
    if row.carried.record is not None:
        raise UsageError(
            f"{signals.patch} has a [[landed]] record for {row.carried.record.version} already",
            remedy=f"nox -s rebase -- --onto {row.carried.record.version} --write",
        )
    if not signals.enough and not words.reason.strip():
        raise GateFailed(
            f"{len(signals.agreeing)} of the signs say that {signals.version} has {signals.patch}, "
            f"{NEEDED} must, and its own check may not contradict: nothing was written",
            remedy="look at upstream's change; if it does the job, add --reason 'how you know'",
        )
    reference, evidence = _reference(row, words), describe_evidence(signals, words)
    return _write(bench, signals, reference, evidence)


def describe_evidence(signals: Signals, words: Words) -> str:
    """All that is known, in one line for the record."""
    parts = [f"{sign.name}: {sign.detail}" for sign in signals.signs]
    parts += [f"pull request: {answer.describe()}" for answer in signals.pulls]
    parts += [words.evidence.strip()] if words.evidence.strip() else []
    parts += [f"reason: {words.reason.strip()}"] if words.reason.strip() else []
    return f"on {signals.version}: " + "; ".join(" ".join(part.split()) for part in parts)


def _reference(row: Row, words: Words) -> str:
    named = words.reference.strip()
    found = (named,) if named else find_references(row.carried.alone.commit.message)
    if not found:
        raise UsageError(
            "--reference is missing, and the patch has no Upstream-PR: trailer",
            remedy="add --reference ggml-org/llama.cpp#NUMBER (or the commit)",
        )
    return found[0]


def _write(bench: Bench, signals: Signals, reference: str, evidence: str) -> Retired:
    """The rebase of the series onto its own base, with the record: one journalled write."""
    base, digest = bench.series.base, digest_series(bench.series)
    before = load_stack(bench.git, bench.series)
    commands.record_landed(bench, signals.patch, reference, signals.version, evidence)
    plan, decisions = commands.make_plan(bench, base, base)
    if plan.waiting:
        names = ", ".join(outcome.patch for outcome in plan.waiting)
        raise ConflictWaiting(
            f"{names} needs a decision once {signals.patch} is gone; the record waits with it",
            remedy=f"nox -s rebase -- --onto {base} --write   (--abort forgets the record)",
        )
    proof = commands.prove(bench, plan, decisions)
    if proof is not None:
        require_equivalence(proof)
    commands.write_series(bench, plan, decisions, digest)
    backup = None
    if before is None or before.version == base:  # a stack rebased further on stays as it is
        backup = save_stack(bench.git, load_series(bench.series.directory), plan.new)
    return Retired(reference, evidence, signals.version <= base, backup)
