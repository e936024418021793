"""`test-backend-ops`: the operations that a patch touches, on one device, judged by its parent.

Source: tests/test-backend-ops.cpp of llama.cpp. It exits 0 when the device does not exist and when
nothing was tested, counts what is unsupported as neither good nor bad, and draws its inputs
unseeded. So its cases are read and counted, the supported set is compared with the parent's, and
only a case that fails in two of three runs counts.

The device is compared with the CPU of the same build: what breaks both alike is not seen here but
by `results` and `divergence`. The CPU itself is compared with its reference mode, which has other
code for few operations (OWN_REFERENCE); all others are compared with themselves, so that a run
shows no more than that nothing crashes, is NaN or writes past its end.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from upstream.errors import InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.changed_code import read_changes
from validate.ops_selection import Selection, Words, select_cases, select_names
from validate.report import shorten
from validate.room import ENDED_BY_ITSELF, Room, last_line, require_target
from validate.touched import Touched
from validate.verdict import CheckResult, Verdict

CHECK = "backend ops"
TARGET = "test-backend-ops"
CPU = "CPU"
RUNS = 3
START = "the start"
FAILS = 2  # of RUNS: one failure may be an unlucky draw
ONLY_NEW = "its new ones only, the libraries are the parent's"
CODE_VERSION = 4  # of changed_code and what it takes: another one compares anew
SECONDS = 7200.0  # for one program, beside others
# Where `use_ref` of ggml-cpu chooses other code (ggml-cpu.c, ops.cpp, tiled.cpp of b11549).
OWN_REFERENCE = ("MUL_MAT", "FLASH_ATTN_EXT", "RMS_NORM_MUL")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
# A case is named after it ran: what it was told comes first (`[MUL_MAT] ERR = 0.1 > 0.0005 `).
_CASE = re.compile(r"(?:^|.* )  ([A-Z][A-Z0-9_a-z]*\(.*?\)): (.*)$")
_END = re.compile(r"\b(OK|FAIL)$")
_SUMMARY = re.compile(r"^  (\d+)/(\d+) tests passed$", re.MULTILINE)
_DEVICE = re.compile(r"^Backend \d+/\d+: (.*)\n  (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class OpsRun:
    """One run: how many cases passed, which failed, where it crashed ("" when it did not): at the
    case after the one that `crashed` names, or at "the start".

    `compared` are the executed cases that were compared with other code than their own.
    """

    passed: int
    failed: tuple[str, ...]
    compared: int
    crashed: str = ""

    @property
    def executed(self) -> int:
        return self.passed + len(self.failed)


def check_backend_ops(
    room: Room, step: StepBinaries, parent: StepBinaries, touched: Touched, device: str = CPU
) -> CheckResult:
    """Test what the patch touches on a device (a name as the program prints it).

    Raises InvalidMeasurement when there is no such device or nothing was tested.
    """
    if touched.nothing:
        where = "nothing that computes" if touched.files else "no ggml file"
        facts = {"skipped": True, **asdict(touched)}
        detail = f"skipped: it touches {where}"
        return CheckResult(CHECK, Verdict.INFORMATION, detail, facts, cached=True)
    for binaries in (step, parent):
        require_target(binaries, TARGET)
    if step.fingerprint(TARGET) == parent.fingerprint(TARGET):
        return CheckResult(CHECK, Verdict.IDENTICAL, cached=True)
    known, supported = (list_supported(room, each, device) for each in (parent, step))
    lost = compare_supported(known, supported, device)
    if lost is not None:
        return lost
    new = {name for name, good in supported.items() if good and name not in known}
    same = has_same_libraries(step, parent)
    if same and new:
        touched = Touched(touched.files)
    elif not same and device == CPU:
        touched = narrow(room, step, parent, touched, {_op(name) for name in supported})
    selection = select_cases(touched, [name for name, good in supported.items() if good], new)
    if not selection.list_runs(0):
        return _say_nothing_runs(touched)
    after, cached = run_ops(room, step, selection, device)
    if device == CPU:  # another one runs only what the CPU, its reference, supports too
        require_all(after[0], selection.planned)
    suspects = sorted(count_failed(after))
    before = run_parent(room, parent, selection, suspects, after, device)
    found = judge_ops(after, before, touched, device, cached=cached)
    told = (ONLY_NEW,) if same and new else _describe_runs(touched, selection)
    return replace(found, detail="; ".join((found.detail, *told)))


def _op(case: str) -> str:
    return case.partition("(")[0]


def narrow(
    room: Room, step: StepBinaries, parent: StepBinaries, touched: Touched, ops: Collection[str]
) -> Touched:
    """What the changed code says in place of the changed files, where it can be read."""
    pair = {"parent": parent.fingerprint(TARGET), "step": step.fingerprint(TARGET)}
    inputs = {"check": CHECK, "changed code": CODE_VERSION, **pair}

    def produce() -> dict[str, Any]:
        found = read_changes(step, parent, TARGET, ops)
        return {"changes": asdict(found) if found else None}

    changes = room.cache.obtain(inputs, produce)[0]["changes"]
    if changes is None:
        return touched
    names = {kind: changes[kind] for kind in ("ops", "types", "stored")}
    names["unknown"] = changes["anything"]
    return replace(touched, **{kind: tuple(mine) for kind, mine in names.items()})


def _say_nothing_runs(touched: Touched) -> CheckResult:
    facts = {"skipped": True, **asdict(touched)}
    if touched.nothing:
        detail = "skipped: no operation reaches the code that it changes"
        return CheckResult(CHECK, Verdict.INFORMATION, detail, facts, cached=True)
    names = (*touched.ops, *touched.types, *touched.stored)
    detail = f"no case of {shorten(names)} is supported"
    return CheckResult(CHECK, Verdict.NOT_RUN, detail, facts, cached=True)


def _describe_runs(touched: Touched, selection: Selection) -> Iterator[str]:
    if selection.thrice:
        which = [f"{kind} {shorten(mine)}" for kind, mine in _kinds(touched) if mine] or [
            "new cases"
        ]
        yield f"{RUNS} runs of {', '.join(which)}"
    if selection.everything:
        yield f"all others once, for {shorten(touched.unknown)}"


def _kinds(touched: Touched) -> tuple[tuple[str, tuple[str, ...]], ...]:
    kinds = ("ops", touched.ops), ("types", touched.types), ("writing", touched.stored)
    return tuple((kind, mine) for kind, mine in kinds if mine)


def has_same_libraries(step: StepBinaries, parent: StepBinaries) -> bool:
    """Whether only the program of the tests itself differs: then no old case can have another end.

    So it is on the CPU for a patch to shaders that brings cases of its own.
    """
    names = {*step.uses[TARGET], *parent.uses[TARGET]} - {TARGET}
    return bool(names) and all(
        step.files.get(name) == parent.files.get(name) is not None for name in names
    )


def parse_ops(output: str, code: int, device: str) -> OpsRun:
    """Read a run that ended with `code`.

    Raises InvalidMeasurement when the device did not run, no case did, or cases, summary and exit
    code disagree.
    """
    text = _ANSI.sub("", output)
    require_device(text, device)
    names: dict[str, list[str]] = {"OK": [], "FAIL": []}
    last = START
    for line in text.splitlines():
        if case := _CASE.match(line):
            last = case[1]
            if end := _END.search(case[2].rstrip()):
                names[end[1]].append(last)
    executed = names["OK"] + names["FAIL"]
    compared = executed if device != CPU else [n for n in executed if n.startswith(OWN_REFERENCE)]
    crashed = "" if code in ENDED_BY_ITSELF else last
    run = OpsRun(len(names["OK"]), tuple(sorted(names["FAIL"])), len(compared), crashed)
    _require_sense(run, text, code)
    return run


def parse_supported(output: str, device: str) -> dict[str, bool]:
    """Every case of `support --output csv` and whether the device supports it.

    Raises InvalidMeasurement when the device is not in it.
    """
    start = output.find('"backend_name"')
    rows = list(csv.DictReader(io.StringIO(output[start:] if start >= 0 else "")))
    try:
        mine = [row for row in rows if row["backend_name"] == device]
        found = {f"{row['op_name']}({row['op_params']})": row["supported"] == "1" for row in mine}
    except KeyError as error:
        raise InvalidMeasurement(f"{TARGET} support: no column {error}") from error
    if not any(found.values()):
        raise InvalidMeasurement(
            f"{TARGET}: the device {device} supports nothing or does not exist",
            remedy="name a device as llama-bench --list-devices prints it, or CPU",
        )
    return found


def require_device(text: str, device: str) -> None:
    """Refuse a run that skipped the device, which is what a misspelt name leads to."""
    found = dict(_DEVICE.findall(text))
    if found.get(device, "Skipping").startswith("Skipping"):
        known = ", ".join(found) or "none"
        raise InvalidMeasurement(f"{TARGET} did not run on the device {device}; it has {known}")


def run_ops(
    room: Room, binaries: StepBinaries, selection: Selection, device: str
) -> tuple[list[OpsRun], bool]:
    """The three runs of one step and whether all were found in the cache.

    What fails or crashes among the cases that run once is in the other runs too.
    """
    first = run_parts(room, binaries, selection.list_runs(0), device, 0)
    failed = {name for part in first for name in part.run.failed}
    again = [*selection.thrice]
    again += select_names(sorted(name for name in failed if not selection.has(name)))
    again += [each.words for each in first if each.run.crashed and each.words not in again]
    parts = [first, *(run_parts(room, binaries, again, device, n) for n in range(1, RUNS))]
    cached = all(each.cached for mine in parts for each in mine)
    return [merge_runs([each.run for each in mine]) for mine in parts if mine], cached


def run_parent(
    room: Room,
    parent: StepBinaries,
    selection: Selection,
    suspects: Sequence[str],
    after: Sequence[OpsRun],
    device: str,
) -> list[OpsRun]:
    """The parent's runs of what failed in the step; of all that crashed may have been in."""
    if any(run.crashed for run in after):
        return run_ops(room, parent, selection, device)[0]
    known = list_supported(room, parent, device)
    # `known` has no fused cases; a case that the step adds fails in the step alone
    names = [name for name in suspects if known.get(name, name not in selection.added)]
    again = Selection(Touched(), (), tuple(select_names(names)), frozenset(names), 0)
    return run_ops(room, parent, again, device)[0]


@dataclass(frozen=True)
class Part:
    """One program that ran: its arguments, what it said, and whether that was in the cache."""

    words: Words
    run: OpsRun
    cached: bool


def run_parts(
    room: Room, binaries: StepBinaries, parts: Sequence[Words], device: str, number: int
) -> list[Part]:
    """Start the programs of a run, as many at once as there are threads: each is kept."""

    def run_one(words: Words) -> Part:
        arguments = ("test", "-b", device, *words)
        inputs = {
            "check": CHECK,
            "binaries": binaries.fingerprint(TARGET),
            "arguments": arguments,
            "run": number,
            **room.launch.inputs,
        }

        def produce() -> dict[str, Any]:
            done = room.run(binaries, TARGET, *arguments, seconds=SECONDS)
            return asdict(parse_ops(done.text, done.code, device))

        facts, cached = room.cache.obtain(inputs, produce)
        return Part(words, OpsRun(**facts | {"failed": tuple(facts["failed"])}), cached)

    with ThreadPoolExecutor(room.threads) as pool:
        return list(pool.map(run_one, parts))


def merge_runs(runs: Sequence[OpsRun]) -> OpsRun:
    """The parts of one run as one."""
    failed = sorted({name for run in runs for name in run.failed})
    crashed = next((run.crashed for run in runs if run.crashed), "")
    passed, compared = sum(run.passed for run in runs), sum(run.compared for run in runs)
    return OpsRun(passed, tuple(failed), compared, crashed)


def list_supported(room: Room, binaries: StepBinaries, device: str) -> dict[str, bool]:
    """Every case that the program knows, whatever the patch touches: it takes no second."""
    arguments = ("support", "-b", device, "--output", "csv")
    inputs = {"check": CHECK, "binaries": binaries.fingerprint(TARGET), "arguments": arguments}
    inputs |= room.launch.inputs

    def produce() -> dict[str, Any]:
        done = room.run(binaries, TARGET, *arguments)
        if done.code not in ENDED_BY_ITSELF:
            said = last_line(done.stdout, done.stderr)
            raise InvalidMeasurement(f"{TARGET} support ended with {done.code}: {said}")
        return parse_supported(done.text, device)

    return room.cache.obtain(inputs, produce)[0]


def count_failed(runs: Sequence[OpsRun]) -> set[str]:
    """The cases that fail in at least FAILS of the runs."""
    counts = Counter(name for run in runs for name in {*run.failed})
    return {name for name, count in counts.items() if count >= FAILS}


def judge_ops(
    after: Sequence[OpsRun],
    before: Sequence[OpsRun],
    touched: Touched,
    device: str,
    *,
    cached: bool = False,
) -> CheckResult:
    """FAIL for what only the step fails; not run when nothing was compared with other code."""
    facts = {"device": device, "runs": [asdict(run) for run in after], **asdict(touched)}
    new = sorted(count_failed(after) - count_failed(before))
    if new:
        detail = f"{device}: fails in {FAILS} of {RUNS} runs: {shorten(new)}"
        return CheckResult(CHECK, Verdict.FAIL, detail, facts, cached)
    crashed = [run.crashed for run in after if run.crashed]
    if len(crashed) >= FAILS and not any(run.crashed for run in before):
        detail = f"{device}: crashes at or after {crashed[0]}"
        return CheckResult(CHECK, Verdict.FAIL, detail, facts, cached)
    executed, compared = after[0].executed, after[0].compared
    if not compared:
        detail = f"no second backend: {executed} cases ran, the CPU compares them with themselves"
        return CheckResult(CHECK, Verdict.NOT_RUN, detail, facts, cached)
    alone = f", {executed - compared} only with themselves" if executed > compared else ""
    detail = f"{device}: {compared} cases compared{alone}"
    return CheckResult(CHECK, Verdict.PASS, detail, facts, cached)


def compare_supported(
    before: Mapping[str, bool], after: Mapping[str, bool], device: str
) -> CheckResult | None:
    """The verdict on cases that the parent supports and the step does not, None without any."""
    lost = sorted(name for name, good in before.items() if good and not after.get(name, True))
    gone = sorted(name for name in before if name not in after)
    if lost:
        detail = f"{device}: {len(lost)} cases became unsupported: {shorten(lost)}"
        return CheckResult(CHECK, Verdict.FAIL, detail, {"device": device, "unsupported": lost})
    if gone:
        detail = f"{device}: {len(gone)} cases are tested no more: {shorten(gone)}"
        return CheckResult(CHECK, Verdict.INVALID, detail, {"device": device, "gone": gone})
    return None


def require_all(run: OpsRun, planned: int) -> None:
    """Refuse a run that has fewer cases than were to run, unless it crashed."""
    if run.executed < planned and not run.crashed:
        raise InvalidMeasurement(
            f"{TARGET} ran {run.executed} of {planned} cases: its -o or -p mean something else"
        )


def _require_sense(run: OpsRun, text: str, code: int) -> None:
    if run.crashed:
        return
    summary = _SUMMARY.search(text)
    if summary is None:
        raise InvalidMeasurement(f"{TARGET} prints no summary: {last_line(text.encode())}")
    if not run.executed:
        raise InvalidMeasurement(f"{TARGET} tested nothing: no case of these ops is supported")
    if (int(summary[1]), int(summary[2])) != (run.passed, run.executed):
        raise InvalidMeasurement(
            f"{TARGET} says {summary[0].strip()}, its cases are {run.passed}/{run.executed}"
        )
    if bool(run.failed) is not bool(code):
        raise InvalidMeasurement(f"{TARGET} ended with {code} and {len(run.failed)} failed cases")
