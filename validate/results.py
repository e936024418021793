"""`llama-results`: the logits of a real model, compared with the parent's.

Source: tools/results/results.cpp of llama.cpp. `--check` fails above an NMSE of 1e-6; it prints OK
for NaN, which compares false, so the number is read and judged here.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from series.model import Numerics
from upstream.download import hash_file
from upstream.errors import InvalidMeasurement
from upstream.process import Completed
from validate.artifacts import StepBinaries
from validate.float_model import cache_type, open_float_room
from validate.guards import NO_DEVICE
from validate.room import ENDED_BY_ITSELF, Room, last_line, require_target
from validate.verdict import CheckResult, Verdict

CHECK = "results"
TARGET = "llama-results"
NMSE_LIMIT = 1e-6
PROMPT = (
    "The patch queue of a project is a list of changes, each made on top of the one before it. "
    "Seven of them add a feature: 1, 2, 3, 5, 8, 13 and 21."
)
SHORT_PROMPT = PROMPT.partition(",")[0]  # on a driver in software seconds, not a minute
_NMSE = re.compile(r"NMSE=\s*([-+.\w]+)")
_JUDGED = re.compile(rb"(OK|FAIL)\b")  # a colour code stands before it


def parse_nmse(output: str) -> float:
    """The number that `--check` prints. Raises InvalidMeasurement without one, or when not finite.

    NaN means that the reference is all zero, holds NaN, or that there were no tokens.
    """
    match = _NMSE.search(output)
    try:
        value = float(match[1]) if match else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        said = match[0] if match else last_line(output.encode())
        raise InvalidMeasurement(f"{TARGET} --check measured nothing: {said}")
    return value


def is_whole(done: Completed) -> bool:
    """Whether the number is there; it goes through the logger, OK and FAIL do not."""
    return bool(_NMSE.search(_say(done))) or not _JUDGED.search(done.stdout)


def check_results(
    room: Room,
    step: StepBinaries,
    parent: StepBinaries,
    numerics: Numerics,
    *,
    quantizer: StepBinaries | None = None,
) -> CheckResult:
    """Compare the step's logits with its parent's, as far as the patch declares.

    `nmse` is judged on a copy of the model in floats that `quantizer` makes, where there is one.
    """
    for binaries in (step, parent):
        require_target(binaries, TARGET)
    if step.fingerprint(TARGET) == parent.fingerprint(TARGET):
        return CheckResult(CHECK, Verdict.IDENTICAL, cached=True)
    if numerics == "nmse" and quantizer is not None:
        room = open_float_room(room, quantizer)
    inputs = _inputs(room, step) | {"parent": parent.fingerprint(TARGET)}
    found, cached = room.cache.obtain(inputs, lambda: _measure(room, step, parent))
    return judge_results(found, numerics, cached=cached)


def judge_results(
    facts: dict[str, Any], numerics: Numerics, *, cached: bool = False
) -> CheckResult:
    """bit-exact: every byte equal; nmse: at most 1e-6; changes: shown only."""
    if crash := facts.get("crash"):
        return CheckResult(CHECK, Verdict.FAIL, crash, facts, cached)
    nmse, equal = facts["nmse"], facts["equal"]
    detail = f"{numerics}: " + ("same bytes" if equal else f"NMSE {nmse:.3e}")
    good = {
        "bit-exact": equal and nmse == 0.0,
        "nmse": nmse <= NMSE_LIMIT,
        "changes": True,
    }[numerics]
    if numerics == "changes":
        return CheckResult(CHECK, Verdict.INFORMATION, detail, facts, cached)
    return CheckResult(CHECK, Verdict.PASS if good else Verdict.FAIL, detail, facts, cached)


def record_logits(room: Room, binaries: StepBinaries) -> Path:
    """The file with a step's logits, made when missing.

    Raises InvalidMeasurement when the program fails or writes nothing.
    """
    path = room.cache.path(_inputs(room, binaries), ".data")
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}")
    half.unlink(missing_ok=True)
    done = room.run(binaries, TARGET, *_arguments(room), "-o", str(half))
    if done.code != 0 or not half.exists() or not half.stat().st_size:
        said = last_line(done.stdout, done.stderr)
        raise InvalidMeasurement(f"{TARGET} ended with {done.code} and no logits: {said}")
    return half.replace(path)


def _measure(room: Room, step: StepBinaries, parent: StepBinaries) -> dict[str, Any]:
    reference = record_logits(room, parent)
    arguments = (*_arguments(room), "-o", str(reference), "--check")
    done = room.run_whole(step, TARGET, arguments, is_whole)
    if done.code not in ENDED_BY_ITSELF or not _JUDGED.search(done.stdout):
        # The parent's run worked, so this end is the step's doing.
        said = last_line(done.stdout, done.stderr)
        return {"crash": f"{TARGET} ended with {done.code}: {said}"}
    nmse = parse_nmse(_say(done))
    equal = hash_file(record_logits(room, step)) == hash_file(reference)
    return {"nmse": nmse, "equal": equal}


def _say(done: Completed) -> str:
    return (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")


def _arguments(room: Room) -> tuple[str, ...]:
    """Every setting that may change a bit of the result is given, none left to `auto`."""
    steady = ("-t", str(room.threads), "-tb", str(room.threads), "-fa", "off")
    kind = cache_type(room.model)
    sizes = ("-c", "512", "-b", "512", "-ub", "512", "-ctk", kind, "-ctv", kind)
    device = room.launch.device
    where = ("-ngl", "0" if device == NO_DEVICE else "999", "--device", device, "-fit", "off")
    prompt = SHORT_PROMPT if room.launch.slow else PROMPT
    return ("-m", room.model.name, "-p", prompt, *steady, *sizes, *where)


def _inputs(room: Room, binaries: StepBinaries) -> dict[str, Any]:
    return {
        "check": CHECK,
        "binaries": binaries.fingerprint(TARGET),
        "model": room.model.sha256,
        "arguments": _arguments(room),
        **room.launch.inputs,
    }
