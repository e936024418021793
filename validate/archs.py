"""`test-llama-archs`: a tiny random model of every architecture, judged against the parent's run.

Source of the table: tests/test-llama-archs.cpp of llama.cpp. It prints the first three cells before
a case runs, so that a crash leaves an open row; it exits 0 or 1 when it comes to its end. Versions
that print through the logger (b11549) may lose the last rows, see Room.run_whole; they print a
summary, which is how that is noticed. Older ones (b10566) print directly and have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from upstream.errors import InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.room import ENDED_BY_ITSELF, Room, last_line, require_target
from validate.verdict import CheckResult, Verdict

CHECK = "archs"
TARGET = "test-llama-archs"
ARGUMENTS = ("-s", "20261130")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SUMMARY = re.compile(r"^Summary: (?:all )?(\d+) test\(s\)", re.MULTILINE)


@dataclass(frozen=True)
class ArchsRun:
    """The cases of a run by what became of them, as "arch device config".

    `crashed` is the last case that a run which did not come to its end told of, else "".
    """

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    skipped: tuple[str, ...]
    crashed: str = ""

    @property
    def executed(self) -> int:
        return len(self.passed) + len(self.failed)


def parse_archs(output: str, code: int) -> ArchsRun:
    """Read the table of a run that ended with `code`.

    Raises InvalidMeasurement when nothing ran or the table disagrees with summary or exit code.
    """
    groups: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    last = ""
    for last, cells in _read_rows(output):
        if cells:
            groups[_judge_cells(cells)].append(last)
    crashed = "" if code in ENDED_BY_ITSELF else last or "the start"
    run = ArchsRun(**{kind: tuple(names) for kind, names in groups.items()}, crashed=crashed)
    _require_sense(run, output, code)
    return run


def is_whole(output: str, *, has_summary: bool) -> bool:
    """Whether nothing is missing at the end: no open row, and a summary where there should be."""
    rows = list(_read_rows(output))
    if not rows:
        return True  # an error of another kind, such as a refused argument
    return bool(rows[-1][1]) and (not has_summary or "Summary: " in output)


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
        has_summary = b"Summary: " in (binaries.folder / TARGET).read_bytes()
        done = room.run_whole(
            binaries, TARGET, ARGUMENTS, lambda d: is_whole(d.text, has_summary=has_summary)
        )
        return asdict(parse_archs(done.text, done.code))

    found, cached = room.cache.obtain(inputs, produce)
    names = {kind: tuple(found[kind]) for kind in ("passed", "failed", "skipped")}
    return ArchsRun(**names, crashed=found["crashed"]), cached


def judge_archs(after: ArchsRun, before: ArchsRun, *, cached: bool = False) -> CheckResult:
    """FAIL for cases that only the step fails, INVALID when it runs fewer cases than its parent."""
    facts = {"executed": after.executed, **asdict(after)}
    new = sorted({*after.failed} - {*before.failed})
    if new:
        return CheckResult(CHECK, Verdict.FAIL, f"fails {_shorten(new)}", facts, cached)
    if after.crashed and not before.crashed:
        detail = f"crashes at or after {after.crashed}"
        return CheckResult(CHECK, Verdict.FAIL, detail, facts, cached)
    lost = sorted({*before.passed} - {*after.passed, *after.failed})
    if lost and not after.crashed:
        return CheckResult(CHECK, Verdict.INVALID, f"does not run {_shorten(lost)}", facts, cached)
    detail = f"{after.executed} archs{_describe_old(after)}"
    return CheckResult(CHECK, Verdict.PASS, detail, facts, cached)


def _describe_old(run: ArchsRun) -> str:
    """What is wrong but not the step's doing: its parent has it too."""
    failed = f", {len(run.failed)} fail in the parent too" if run.failed else ""
    return failed + (", crashes in the parent too" if run.crashed else "")


def _read_rows(output: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The cases in order, each with its result cells; none in a row that was never finished."""
    for line in _ANSI.sub("", output).splitlines():
        if line.startswith("|") and not line.startswith("|-") and "Model arch." not in line:
            parts = [part.strip() for part in line.strip().strip("|").split("|")]
            yield " ".join(parts[:3]), tuple(parts[3:])


def _judge_cells(cells: Sequence[str]) -> str:
    if any(cell.startswith("FAIL") for cell in cells):
        return "failed"
    return "passed" if any(cell.startswith("OK") for cell in cells) else "skipped"


def _require_sense(run: ArchsRun, output: str, code: int) -> None:
    if run.executed == 0 and not run.crashed:
        raise InvalidMeasurement(
            f"{TARGET} ran no architecture: {last_line(output.encode())}",
            remedy=f"run it by hand: {TARGET} {' '.join(ARGUMENTS)}",
        )
    summary = _SUMMARY.search(_ANSI.sub("", output))
    if summary is not None and int(summary[1]) != run.executed:
        raise InvalidMeasurement(
            f"{TARGET} says that it ran {summary[1]} cases, its table shows {run.executed}"
        )
    if code in ENDED_BY_ITSELF and bool(run.failed) is not bool(code):
        raise InvalidMeasurement(
            f"{TARGET} ended with {code}, its table shows {len(run.failed)} failed cases"
        )


def _shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
