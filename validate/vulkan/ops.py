"""Chosen cases of `test-backend-ops` on a Vulkan device, judged by the parent.

The device is compared with the CPU of the same build. Inputs are drawn unseeded, so a case that
fails is run again, alone, and counts when it fails in two of three runs and does not so in the
parent. Each run counts its cases; where none passes the result is INVALID, not a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from upstream.errors import InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.backend_ops import (
    CPU,
    FAILS,
    RUNS,
    TARGET,
    OpsRun,
    compare_supported,
    list_supported,
    parse_ops,
)
from validate.report import shorten
from validate.room import Room
from validate.verdict import CheckResult, Verdict
from validate.vulkan.cases import LIMIT, Choice, Interest, choose_cases, read_type
from validate.vulkan.integer_dot import take_quantised, watch_pipelines

CHECK = "vulkan ops"
SECONDS = 3600.0
BATCH = 200  # cases in one run: their names are one argument, of at most 128 KiB
AFTER_ALL = "the end, after all cases"


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
    return run_choice(after, before, choice, [*known])


def list_both(room: Room, binaries: StepBinaries) -> dict[str, bool]:
    """Every case, and whether both the device and the CPU, its reference, support it."""
    mine, cpu = (list_supported(room, binaries, name) for name in (room.launch.device, CPU))
    return {name: good and cpu.get(name, False) for name, good in mine.items()}


def run_choice(after: Arm, before: Arm, choice: Choice, order: Sequence[str]) -> CheckResult:
    """Run, run suspects again, judge. `order` is the program's own, of all cases."""
    parts = share_out(choice.cases, after.room.threads, order)
    with ThreadPoolExecutor(after.room.threads) as pool:
        done = list(pool.map(lambda part: run_part(after, part), parts))
    timed = [each for part in done for each in part.timed]
    runs = [each.run for each in timed]
    dead = sorted(name for part in done for name in part.dead)
    suspects = sorted({name for run in runs for name in run.failed} | {*dead})
    facts: dict[str, Any] = {
        "device": after.device,
        "planned": choice.planned,
        "run": len(choice.cases),
        "executed": sum(run.executed for run in runs) + sum(name != AFTER_ALL for name in dead),
        "skipped": dict(choice.skipped),
        "cases": choice.cases,
        "suspects": suspects,
        "bound": take_quantised(sum((Counter(each.bound) for each in timed), Counter())),
        "seconds": max(sum(each.seconds for each in part.timed) for part in done),
    }
    if facts["executed"] < facts["run"]:
        raise InvalidMeasurement(
            f"{TARGET} ran {facts['executed']} of {facts['run']} chosen cases: it skipped others"
        )
    found = Suspicion(suspects, dead, sum(run.passed for run in runs))
    result = _judge(after, before, found, choice, facts)
    return replace(result, cached=all(each.cached for each in timed))


def share_out(cases: Sequence[str], number: int, order: Sequence[str]) -> list[tuple[str, ...]]:
    """As many parts as run at once, each in the program's order.

    Cases of one operation and type share pipelines, whose compilation is most of the time: they
    stay together.
    """
    size = min(BATCH, -(-len(cases) // number))
    place = {name: at for at, name in enumerate(order)}
    alike = sorted(cases, key=lambda name: (name.partition("(")[0], read_type(name), place[name]))
    parts = [alike[at : at + size] for at in range(0, len(alike), size)]
    return [tuple(sorted(part, key=place.__getitem__)) for part in parts]


@dataclass(frozen=True)
class Part:
    """The runs that it took to run some cases, and those at which a run died."""

    timed: tuple[TimedRun, ...]
    dead: tuple[str, ...]


def run_part(arm: Arm, cases: Sequence[str]) -> Part:
    """Run cases, given in the program's order; after a crash go on behind the case that died."""
    left, timed, dead = [*cases], list[TimedRun](), list[str]()
    while left:
        timed.append(run_cases(arm, left, 0))
        if not (last := timed[-1].run.crashed):
            break
        ended = left.index(last) + 1 if last in left else 0
        dead += left[ended : ended + 1] or [AFTER_ALL]
        left = left[ended + 1 :]
    return Part(tuple(timed), tuple(dead))


@dataclass(frozen=True)
class TimedRun:
    """A run, its wall time, whether it was in the cache, and how often it bound each pipeline."""

    run: OpsRun
    seconds: float
    cached: bool
    bound: Mapping[str, int]


def run_cases(arm: Arm, cases: Sequence[str], number: int) -> TimedRun:
    """One run of some cases by their full names."""
    arguments = ("test", "-b", arm.device, "-o", ",".join(cases))
    inputs = {
        "check": CHECK,
        "binaries": arm.binaries.fingerprint(TARGET),
        "arguments": arguments,
        "run": number,
        **arm.room.launch.inputs,
    }

    def produce() -> dict[str, Any]:
        with watch_pipelines(arm.room) as watched:
            done = watched.room.run(arm.binaries, TARGET, *arguments, seconds=SECONDS)
            bound = watched.bound
        found = asdict(parse_ops(done.text, done.code, arm.device))
        return {"run": found, "seconds": round(done.seconds, 1), "bound": bound}

    facts, cached = arm.room.cache.obtain(inputs, produce)
    run = OpsRun(**facts["run"] | {"failed": tuple(facts["run"]["failed"])})
    return TimedRun(run, facts["seconds"], cached, facts.get("bound", {}))


@dataclass(frozen=True)
class Suspicion:
    """The cases that failed or died once, those that died, and how many passed."""

    suspects: Sequence[str]
    dead: Sequence[str]
    passed: int


def _judge(
    after: Arm, before: Arm, found: Suspicion, choice: Choice, facts: dict[str, Any]
) -> CheckResult:
    bad = _confirm(after, found.suspects)
    old = _confirm(before, sorted(bad))
    facts |= {"failed": sorted(bad), "also in the parent": sorted(old)}
    if new := sorted(bad - old):
        detail = f"{after.device}: fails or crashes, the parent does not: {shorten(new)}"
        return CheckResult(CHECK, Verdict.FAIL, detail, facts)
    if lost := sorted({*found.dead} - bad):
        detail = f"{after.device}: crashed once, at {shorten(lost)}"
        return CheckResult(CHECK, Verdict.INVALID, detail, facts)
    if not found.passed:
        detail = f"{after.device}: all {len(bad)} cases fail, in the parent too: nothing was judged"
        return CheckResult(CHECK, Verdict.INVALID, detail, facts)
    told = [f"{found.passed} pass; {choice.describe()}"]
    told += [f"{len(bad)} fail in the parent too: {shorten(sorted(bad))}"] * bool(bad)
    once = sorted({*found.suspects} - bad)
    told += [f"{len(once)} failed once: {shorten(once)}"] * bool(once)
    return CheckResult(CHECK, Verdict.PASS, f"{after.device}: {'; '.join(told)}", facts)


def _confirm(arm: Arm, suspects: Sequence[str]) -> set[str]:
    """Those that fail or crash in two of three runs, each alone: a crash ends a run."""
    return {name for name in suspects if name != AFTER_ALL and _is_bad(arm, name)}


def _is_bad(arm: Arm, name: str) -> bool:
    bad = 0
    for number in range(1, RUNS + 1):
        run = run_cases(arm, (name,), number).run
        bad += bool(run.failed or run.crashed)
        if bad >= FAILS or number - bad > RUNS - FAILS:
            break
    return bad >= FAILS
