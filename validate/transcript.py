"""`llama-cli`: what the model answers to ten prompts, for information only.

Greedy and on one thread, a process a prompt. Source of the form: tools/cli of llama.cpp b11549,
which prints "> PROMPT", the answer, and "Exiting...".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from upstream.errors import InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.room import Room, last_line, require_target
from validate.verdict import CheckResult, Verdict

CHECK = "transcript"
TARGET = "llama-cli"
TOKENS = 24
PROMPTS = (
    "Name the four seasons.",
    "Write one sentence about the sea.",
    "What is 12 times 12?",
    "Translate 'good morning' into French.",
    "Give a Python function that adds two numbers.",
    "Why is the sky blue?",
    "List three animals that can fly.",
    "Finish the sentence: The old bridge",
    "What is the opposite of cold?",
    "Explain what a patch file is.",
)
_ANSWER = re.compile(r"^> (?P<prompt>[^\n]*)\n(?P<answer>.*?)\n*^Exiting\.\.\.", re.DOTALL | re.M)


def parse_answer(output: str, prompt: str) -> str:
    """The text between the echo of the prompt and the end.

    Raises InvalidMeasurement when there is none.
    """
    match = _ANSWER.search(output)
    answer = match["answer"].strip() if match and match["prompt"].strip() == prompt else ""
    if not answer:
        raise InvalidMeasurement(f"{TARGET} answered nothing: {last_line(output.encode())}")
    return answer


def show_transcript(room: Room, step: StepBinaries, parent: StepBinaries) -> CheckResult:
    """Both transcripts side by side: never a verdict.

    Raises InvalidMeasurement when one of the two says nothing.
    """
    for binaries in (step, parent):
        require_target(binaries, TARGET)
    if step.fingerprint(TARGET) == parent.fingerprint(TARGET):
        return CheckResult(CHECK, Verdict.IDENTICAL, cached=True)
    before, known = collect(room, parent)
    after, cached = collect(room, step)
    detail = describe(after, before)
    facts = {"step": after, "parent": before}
    return CheckResult(CHECK, Verdict.INFORMATION, detail, facts, cached and known)


def collect(room: Room, binaries: StepBinaries) -> tuple[list[str], bool]:
    """The answers of one step and whether they were found in the cache."""
    inputs = {
        "check": CHECK,
        "binaries": binaries.fingerprint(TARGET),
        "model": room.model.sha256,
        "arguments": _arguments(room),
        "prompts": PROMPTS,
    }
    found, cached = room.cache.obtain(inputs, lambda: _produce(room, binaries))
    return found["answers"], cached


def describe(after: Sequence[str], before: Sequence[str]) -> str:
    """How many answers are equal, and the first words that are not."""
    pairs = list(zip(PROMPTS, after, before, strict=True))
    different = [pair for pair in pairs if pair[1] != pair[2]]
    if not different:
        return f"{len(pairs)} of {len(pairs)} answers equal"
    prompt, new, old = different[0]
    at = next((i for i, (a, b) in enumerate(zip(new, old, strict=False)) if a != b), len(old))
    start = max(0, at - 8)
    return (
        f"{len(pairs) - len(different)} of {len(pairs)} answers equal; first other: {prompt!r}, "
        f"at character {at}: {new[start : at + 16]!r}, parent {old[start : at + 16]!r}"
    )


def _produce(room: Room, binaries: StepBinaries) -> dict[str, Any]:
    answers = []
    for prompt in PROMPTS:
        done = room.run(binaries, TARGET, *_arguments(room), "-p", prompt)
        if done.code != 0:
            said = last_line(done.stdout, done.stderr)
            raise InvalidMeasurement(f"{TARGET} ended with {done.code}: {said}")
        answers.append(parse_answer(done.text, prompt))
    return {"answers": answers}


def _arguments(room: Room) -> tuple[str, ...]:
    greedy = ("-n", str(TOKENS), "--temp", "0", "--seed", "1", "-st", "--simple-io")
    steady = ("-t", "1", "-tb", "1", "-fa", "off", "-c", "512", "-b", "512", "-ub", "512")
    where = ("-ngl", "0", "--device", "none", "-fit", "off", "--no-show-timings")
    return ("-m", room.model.name, *greedy, *steady, *where, "--log-disable")
