"""How many instructions a short llama-bench run executes: an explanation, never a speed verdict.

One thread and no polling: with more, threads that wait for each other count in a loop
(ggml_barrier in ggml/src/ggml-cpu/ggml-cpu.c). Repeatable to about 0.01 % on one machine. Layout,
caches and waiting for memory do not show, which is why it does not judge the speed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upstream.errors import InvalidMeasurement
from upstream.process import Completed
from validate.artifacts import StepBinaries
from validate.room import Room, last_line, require_target
from validate.verdict import CheckResult, Verdict

CHECK = "instructions"
TARGET = "llama-bench"
FREE_LIMIT = 0.001  # a "must be free" patch stays below 0.1 %
SECONDS = 900.0
_PERF = ("perf", "stat", "-x", ",", "-e", "instructions:u")
_VALGRIND = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
_COUNTED = re.compile(r"Collected : (\d+)")
_PERF_LINE = re.compile(r"^(\d+|<[^>]*>),[^,]*,instructions", re.MULTILINE)


@dataclass(frozen=True)
class Counter:
    """A program that counts: its command, and how to read what it says on stderr."""

    name: str
    command: tuple[str, ...]
    read: Callable[[Completed], int]


def count_instructions(room: Room, binaries: StepBinaries) -> int:
    """Instructions in user space of one short run.

    Raises InvalidMeasurement with the reason of every counter when none can count here.
    """
    require_target(binaries, TARGET)
    reasons = []
    for counter in COUNTERS:
        if shutil.which(counter.command[0]) is None:
            reasons.append(f"{counter.name} is not installed")
            continue
        try:
            return _count(room, binaries, counter)
        except InvalidMeasurement as error:
            reasons.append(error.what)
    raise InvalidMeasurement(
        f"no instruction counter works here: {'; '.join(reasons)}",
        remedy="install perf on a machine with hardware counters, or build without AVX-512",
    )


def compare_instructions(room: Room, step: StepBinaries, parent: StepBinaries) -> tuple[int, int]:
    """The counts of step and parent; stored, because they do not depend on the day."""
    before, after = (_obtain(room, each) for each in (parent, step))
    return after, before


def explain(room: Room, step: StepBinaries, parent: StepBinaries) -> str:
    """One phrase to stand beside a SLOWER."""
    try:
        after, before = compare_instructions(room, step, parent)
    except InvalidMeasurement as error:
        return f"instructions not counted ({error.what})"
    change = after / before - 1
    if abs(change) < FREE_LIMIT:
        return f"instructions equal ({change:+.3%}): layout, caches or waiting, not more work"
    return f"instructions {change:+.2%}"


def check_free(room: Room, step: StepBinaries, parent: StepBinaries) -> CheckResult:
    """For a patch that declares `free = true`: less than 0.1 % more or fewer instructions.

    NOT_RUN where nothing can count, with the reason.
    """
    if step.fingerprint(TARGET) == parent.fingerprint(TARGET):
        return CheckResult(CHECK, Verdict.IDENTICAL, cached=True)
    try:
        after, before = compare_instructions(room, step, parent)
    except InvalidMeasurement as error:
        return CheckResult(CHECK, Verdict.NOT_RUN, error.what)
    change = after / before - 1
    facts = {"step": after, "parent": before, "change": change}
    verdict = Verdict.PASS if abs(change) < FREE_LIMIT else Verdict.FAIL
    return CheckResult(CHECK, verdict, f"free: {change:+.3%} instructions", facts)


def bench_arguments(model: str) -> tuple[str, ...]:
    """A run short enough for a simulator: four tokens of prompt, one generated."""
    size = ("-p", "4", "-n", "1", "-r", "1", "--no-warmup")
    steady = ("-t", "1", "--poll", "0", "-dev", "none", "-ngl", "0", "-fa", "0", "-lm", "mmap")
    return ("-m", model, *size, *steady, "-o", "jsonl")


def read_perf(done: Completed) -> int:
    """The count of `perf stat -x,`. Raises InvalidMeasurement where the machine has no counter."""
    match = _PERF_LINE.search(_say(done))
    if match is None or not match[1].isdigit():
        said = match[1] if match else last_line(done.stderr)
        raise InvalidMeasurement(f"perf counts no instructions: {said}")
    return int(match[1])


def read_callgrind(done: Completed) -> int:
    """The count of callgrind. Raises InvalidMeasurement, also for instructions it cannot run."""
    said = _say(done)
    if "nrecognised instruction" in said:
        raise InvalidMeasurement(
            "valgrind cannot run the build: it knows no AVX-512, which -march=native uses here"
        )
    match = _COUNTED.search(said)
    if match is None or done.code != 0:
        raise InvalidMeasurement(f"valgrind counts no instructions: {last_line(done.stderr)}")
    return int(match[1])


COUNTERS: Sequence[Counter] = (
    Counter("perf", _PERF, read_perf),
    Counter("valgrind", _VALGRIND, read_callgrind),
)


def _count(room: Room, binaries: StepBinaries, counter: Counter) -> int:
    arguments = bench_arguments(room.model.name)
    done = room.run(binaries, TARGET, *arguments, seconds=SECONDS, under=counter.command)
    found = counter.read(done)
    if done.code != 0 or not done.text.lstrip().startswith("{"):
        said = last_line(done.stdout, done.stderr)
        raise InvalidMeasurement(f"{TARGET} under {counter.name} ended with {done.code}: {said}")
    return found


def _obtain(room: Room, binaries: StepBinaries) -> int:
    inputs = {
        "check": CHECK,
        "binaries": binaries.fingerprint(TARGET),
        "model": room.model.sha256,
        "arguments": bench_arguments(room.model.name),
    }
    found, _ = room.cache.obtain(inputs, lambda: {"count": count_instructions(room, binaries)})
    return int(found["count"])


def _say(done: Completed) -> str:
    return done.stderr.decode("utf-8", "replace")
