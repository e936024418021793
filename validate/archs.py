"""`test-llama-archs`: a tiny random model of every architecture, judged against the parent's run.

Source of the table: tests/test-llama-archs.cpp of llama.cpp. It prints the first three cells before
a case runs, so that a crash leaves an open row that names the case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from upstream.errors import InvalidMeasurement
from upstream.process import Completed
from validate.artifacts import StepBinaries
from validate.room import Room, last_line, require_target
from validate.verdict import CheckResult, Verdict

CHECK = "archs"
TARGET = "test-llama-archs"
ARGUMENTS = ("-s", "20261130")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SUMMARY = re.compile(r"^Summary: (?:all )?(\d+) test\(s\)", re.MULTILINE)


@dataclass(frozen=True)
class ArchsRun:
    """The cases of a run by what became of them, as "arch device config".

    `crashed` is the case that was running when the program ended, "" when it came to its end.
    """

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    skipped: tuple[str, ...]
    crashed: str = ""

    @property
    def executed(self) -> int:
        return len(self.passed) + len(self.failed)

    @property
    def bad(self) -> frozenset[str]:
        return frozenset((*self.failed, *filter(None, (self.crashed,))))


def parse_archs(output: str) -> ArchsRun:
    """Read the table. Raises InvalidMeasurement when nothing ran or the summary disagrees."""
    text = _ANSI.sub("", output)
    sorted_cases: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    crashed = ""
    for line in text.splitlines():
        if not line.startswith("|") or line.startswith("|-") or "Model arch." in line:
            continue
        case, cells = _split(line)
        if not cells:
            crashed = case
            continue
        sorted_cases[_judge_cells(cells)].append(case)
    run = ArchsRun(**{kind: tuple(names) for kind, names in sorted_cases.items()}, crashed=crashed)
    _require_cases(run, text)
    return run


def check_archs(room: Room, step: StepBinaries, parent: StepBinaries) -> CheckResult:
    """Run both (or find their runs) and compare: only what the parent does not have counts."""
    for binaries in (step, parent):
        require_target(binaries, TARGET)
    if step.fingerprint(TARGET) == parent.fingerprint(TARGET):
        return CheckResult(CHECK, Verdict.IDENTICAL, cached=True)
    before, _ = run_archs(room, parent)
    after, cached = run_archs(room, step)
    return judge_archs(after, before, cached=cached)


def run_archs(room: Room, binaries: StepBinaries) -> tuple[ArchsRun, bool]:
    """The run of one step and whether it was found in the cache."""
    inputs = {"check": CHECK, "binaries": binaries.fingerprint(TARGET), "arguments": ARGUMENTS}

    def produce() -> dict[str, object]:
        done = room.run(binaries, TARGET, *ARGUMENTS)
        return asdict(_read_run(done))

    found, cached = room.cache.obtain(inputs, produce)
    names = {kind: tuple(found[kind]) for kind in ("passed", "failed", "skipped")}
    return ArchsRun(**names, crashed=found["crashed"]), cached


def judge_archs(after: ArchsRun, before: ArchsRun, *, cached: bool = False) -> CheckResult:
    """FAIL for cases that only the step fails, INVALID when it runs fewer cases than its parent."""
    facts = {"executed": after.executed, **asdict(after)}
    new = sorted(after.bad - before.bad)
    if new:
        crash = f", crashed in {after.crashed}" if after.crashed else ""
        return CheckResult(CHECK, Verdict.FAIL, f"fails {_shorten(new)}{crash}", facts, cached)
    lost = sorted({*before.passed} - {*after.passed, *after.failed})
    if lost:
        return CheckResult(CHECK, Verdict.INVALID, f"does not run {_shorten(lost)}", facts, cached)
    old = f", {len(after.bad)} fail in the parent too" if after.bad else ""
    return CheckResult(CHECK, Verdict.PASS, f"{after.executed} archs{old}", facts, cached)


def _read_run(done: Completed) -> ArchsRun:
    run = parse_archs(done.text)
    if done.code != 0 and not run.bad:
        raise InvalidMeasurement(
            f"{TARGET} ended with {done.code} and names no failed case: {last_line(done.stderr)}"
        )
    return run


def _split(line: str) -> tuple[str, tuple[str, ...]]:
    """The name of a case, and its result cells; none of them in a row that was never finished."""
    parts = [part.strip() for part in line.strip().strip("|").split("|")]
    return " ".join(parts[:3]), tuple(parts[3:])


def _judge_cells(cells: Sequence[str]) -> str:
    if any(cell.startswith("FAIL") for cell in cells):
        return "failed"
    return "passed" if any(cell.startswith("OK") for cell in cells) else "skipped"


def _require_cases(run: ArchsRun, text: str) -> None:
    if run.executed == 0 and not run.crashed:
        raise InvalidMeasurement(
            f"{TARGET} ran no architecture: {last_line(text.encode())}",
            remedy=f"run it by hand: {TARGET} {' '.join(ARGUMENTS)}",
        )
    summary = _SUMMARY.search(text)
    if summary is not None and int(summary[1]) != run.executed:
        raise InvalidMeasurement(
            f"{TARGET} says that it ran {summary[1]} cases, its table shows {run.executed}"
        )


def _shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
