"""Chosen cases of `test-backend-ops` on a Vulkan device, judged by the parent.

The device is compared with the CPU of the same build. Inputs are drawn unseeded, so a case that
fails is run twice more, alone, and counts when it fails in two of three runs and does not so in the
parent. Each run counts its cases; none is INVALID, not a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from upstream.errors import InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.backend_ops import (
    CPU,
    RUNS,
    TARGET,
    OpsRun,
    compare_supported,
    count_failed,
    list_supported,
    parse_ops,
)
from validate.report import shorten
from validate.room import Room
from validate.verdict import CheckResult, Verdict
from validate.vulkan.cases import LIMIT, Choice, Interest, choose_cases

CHECK = "vulkan ops"
SECONDS = 3600.0
BATCH = 200  # cases in one run: their names are one argument, of at most 128 KiB


@dataclass(frozen=True)
class Arm:
    """A step's or its parent's programs in the room of the device."""

    room: Room
    binaries: StepBinaries

    @property
    def device(self) -> str:
        return self.room.launch.device


def check_ops(
    room: Room,
    step: StepBinaries,
    parent: StepBinaries,
    interest: Interest,
    *,
    limit: int = LIMIT,
) -> CheckResult:
    """Run the chosen cases of the step; the parent runs those that fail.

    Raises InvalidMeasurement when no case was chosen or run.
    """
    if step.fingerprint(TARGET) == parent.fingerprint(TARGET):
        return CheckResult(CHECK, Verdict.IDENTICAL, cached=True)
    after, before = Arm(room, step), Arm(room, parent)
    sets = [list_supported(room, each, after.device) for each in (parent, step)]
    if (lost := compare_supported(sets[0], sets[1], after.device)) is not None:
        return replace(lost, check=CHECK)
    old, known = (list_both(room, each) for each in (parent, step))
    added = known.keys() - old.keys()
    choice = choose_cases(known, interest, added=added, limit=limit)
    if not choice.cases:
        raise InvalidMeasurement(f"no case to run on {after.device}: {choice.describe()}")
    return run_choice(after, before, choice)


def list_both(room: Room, binaries: StepBinaries) -> dict[str, bool]:
    """Every case, and whether both the device and the CPU, its reference, support it."""
    mine, cpu = (list_supported(room, binaries, name) for name in (room.launch.device, CPU))
    return {name: good and cpu.get(name, False) for name, good in mine.items()}


def run_choice(after: Arm, before: Arm, choice: Choice) -> CheckResult:
    """Run, run suspects again, judge."""
    parts = [choice.cases[at : at + BATCH] for at in range(0, len(choice.cases), BATCH)]
    found = [run_cases(after, part, 0) for part in parts]
    runs, cached = [run for run, _ in found], all(old for _, old in found)
    suspects = sorted({name for run in runs for name in (*run.failed, run.crashed) if name})
    facts: dict[str, Any] = {
        "device": after.device,
        "planned": choice.planned,
        "run": sum(run.executed for run in runs),
        "skipped": dict(choice.skipped),
        "cases": choice.cases,
    }
    if suspects:
        return _judge_suspects(after, before, runs, suspects, facts)
    _require_all(runs, choice)
    detail = f"{after.device}: {facts['run']} cases compared; {choice.describe()}"
    return CheckResult(CHECK, Verdict.PASS, detail, facts, cached)


def run_cases(arm: Arm, cases: Sequence[str], number: int) -> tuple[OpsRun, bool]:
    """One run of some cases by their full names, and whether it was in the cache."""
    arguments = ("test", "-b", arm.device, "-o", ",".join(cases))
    inputs = {
        "check": CHECK,
        "binaries": arm.binaries.fingerprint(TARGET),
        "arguments": arguments,
        "run": number,
        **arm.room.launch.inputs,
    }

    def produce() -> dict[str, Any]:
        done = arm.room.run(arm.binaries, TARGET, *arguments, seconds=SECONDS)
        return asdict(parse_ops(done.text, done.code, arm.device))

    facts, cached = arm.room.cache.obtain(inputs, produce)
    return OpsRun(**facts | {"failed": tuple(facts["failed"])}), cached


def _judge_suspects(
    after: Arm, before: Arm, runs: Sequence[OpsRun], suspects: Sequence[str], facts: dict[str, Any]
) -> CheckResult:
    bad = _confirm(after, suspects, [*runs])
    old = _confirm(before, sorted(bad), []) if bad else set()
    facts |= {"suspects": list(suspects), "failed": sorted(bad), "also in the parent": sorted(old)}
    new = sorted(bad - old)
    if new:
        detail = f"{after.device}: fails or crashes, the parent does not: {shorten(new)}"
        return CheckResult(CHECK, Verdict.FAIL, detail, facts)
    if any(run.crashed for run in runs):
        crashed = shorten([run.crashed for run in runs if run.crashed])
        detail = f"{after.device}: crashed at or after {crashed}, not by itself or also the parent"
        return CheckResult(CHECK, Verdict.INVALID, detail, facts)
    told = f"{len(bad)} fail in the parent too" if bad else f"{len(suspects)} failed once"
    detail = f"{after.device}: {facts['run']} cases compared, {told}: {shorten(suspects)}"
    return CheckResult(CHECK, Verdict.PASS, detail, facts)


def _confirm(arm: Arm, suspects: Sequence[str], earlier: list[OpsRun]) -> set[str]:
    """Those that fail or crash in two of three runs; each runs alone, a crash ends a run."""
    bad = set()
    for name in suspects:
        seen = [run for run in earlier if name in (*run.failed, run.crashed)][:1]
        runs = seen + [run_cases(arm, (name,), n)[0] for n in range(len(seen), RUNS)]
        crashes = sum(bool(run.crashed) for run in runs)
        if name in count_failed(runs) or crashes * 2 > RUNS:
            bad.add(name)
    return bad


def _require_all(runs: Sequence[OpsRun], choice: Choice) -> None:
    """Every chosen case must have run: a name that fits none is skipped without a word."""
    executed = sum(run.executed for run in runs)
    if executed < len(choice.cases):
        raise InvalidMeasurement(
            f"{TARGET} ran {executed} of {len(choice.cases)} chosen cases: it skipped the others"
        )
