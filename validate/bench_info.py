"""One short `llama-bench` run, shown as information: a single sample is no verdict on speed."""

from __future__ import annotations

import json
from typing import Any

from upstream.errors import InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.room import Room, last_line, require_target
from validate.verdict import CheckResult, Verdict

CHECK = "bench"
TARGET = "llama-bench"


def parse_bench(output: str) -> dict[str, float]:
    """Tokens per second by test ("pp64", "tg16") from `-o jsonl`.

    Raises InvalidMeasurement when there is no row, or one that measured nothing.
    """
    speeds: dict[str, float] = {}
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        try:
            row = json.loads(line)
            speeds[_name(row)] = float(row["avg_ts"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidMeasurement(f"{TARGET} printed a row of another form: {line}") from error
    if not speeds or not all(0 < speed < float("inf") for speed in speeds.values()):
        raise InvalidMeasurement(f"{TARGET} measured nothing: {last_line(output.encode())}")
    return speeds


def show_bench(room: Room, step: StepBinaries, parent: StepBinaries) -> CheckResult:
    """Tokens per second of the step and its parent; FAIL only when the step's program does."""
    for binaries in (step, parent):
        require_target(binaries, TARGET)
    if step.fingerprint(TARGET) == parent.fingerprint(TARGET):
        return CheckResult(CHECK, Verdict.IDENTICAL, cached=True)
    (after, cached), (before, found) = (run_bench(room, each) for each in (step, parent))
    if crash := after.get("crash"):
        return CheckResult(CHECK, Verdict.FAIL, crash, after, cached)
    facts = {"speeds": after["speeds"], "parent": before.get("speeds", {})}
    shown = (_compare(name, facts["parent"], speed) for name, speed in after["speeds"].items())
    detail = f"one sample: {', '.join(shown)}"
    return CheckResult(CHECK, Verdict.INFORMATION, detail, facts, cached and found)


def run_bench(room: Room, binaries: StepBinaries) -> tuple[dict[str, Any], bool]:
    """`{"speeds": ...}` or `{"crash": ...}` of one step, and whether it was found in the cache."""
    size = ("-p", "64", "-n", "16", "-r", "1", "-t", str(room.threads), "-ngl", "0", "-fa", "0")
    arguments = ("-m", room.model.name, *size, "-o", "jsonl")
    inputs = {
        "check": CHECK,
        "binaries": binaries.fingerprint(TARGET),
        "model": room.model.sha256,
        "arguments": arguments,
    }

    def produce() -> dict[str, Any]:
        done = room.run(binaries, TARGET, *arguments)
        if done.code != 0:
            said = last_line(done.stdout, done.stderr)
            return {"crash": f"{TARGET} ended with {done.code}: {said}"}
        return {"speeds": parse_bench(done.text)}

    return room.cache.obtain(inputs, produce)


def _compare(name: str, parent: dict[str, float], speed: float) -> str:
    before = f" (parent {parent[name]:.1f})" if name in parent else ""
    return f"{name} {speed:.1f} t/s{before}"


def _name(row: dict[str, Any]) -> str:
    prompt, generated = int(row["n_prompt"]), int(row["n_gen"])
    if prompt and generated:
        return f"pp{prompt}+tg{generated}"
    return f"pp{prompt}" if prompt else f"tg{generated}"
