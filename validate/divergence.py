"""`llama-perplexity`: perplexity and KL divergence from the parent's logits, against a floor.

Source: tools/perplexity/perplexity.cpp of llama.cpp. It keeps logits in 16 bits, cut at 16 below
the largest, so that a build differs from itself: the floor is measured, three runs of the parent
on its own logits. It exits 0 whatever happens, so files and figures are checked here.

What a patch declares decides. bit-exact: the file with the logits has the same bytes. nmse: within
max(3 x floor, bound) on the model and, with narrow bounds, on its copy in floats. changes: shown.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from series.model import Numerics
from upstream.download import hash_file
from upstream.errors import InvalidMeasurement
from upstream.process import Completed
from validate.artifacts import StepBinaries
from validate.corpus import CHUNKS, Corpus
from validate.float_model import cache_type, is_float, open_float_room
from validate.room import Room, last_line, require_target
from validate.verdict import CheckResult, Verdict

CHECK = "divergence"
TARGET = "llama-perplexity"
CONTEXT = 512
FLOOR_RUNS = 3
_HEADER = struct.Struct("<8sIii")  # "_logits_", context, vocabulary, chunks
_PERPLEXITY = re.compile(r"Final estimate: PPL = (\S+)")
_ANY_CHUNK = re.compile(rb"\[\d+\]")


@dataclass(frozen=True)
class Divergence:
    """KL divergence in nats over all positions, and the share in % with the same best token."""

    mean: float
    p999: float
    maximum: float
    same_top: float


_FIGURES: Mapping[str, re.Pattern[str]] = {
    "mean": re.compile(r"^Mean\s+KLD:\s*(\S+)", re.MULTILINE),
    "p999": re.compile(r"^99\.9%\s+KLD:\s*(\S+)", re.MULTILINE),
    "maximum": re.compile(r"^Maximum KLD:\s*(\S+)", re.MULTILINE),
    "same_top": re.compile(r"^Same top p:\s*(\S+)", re.MULTILINE),
}
# Bounds of `nmse`. Measured on SmolLM2-135M, b11549, 1020 positions, as (mean, 99.9 %, maximum,
# same top). Quantised: floor 0, 3.8e-5, 4.4e-5, 100 %; one last bit in an RMS norm 3.5e-3, 0.022,
# 0.024, 97.3 %. In floats: floor 0, 4.3e-5, 5.3e-5, 100 %; one last bit the same; an RMS norm off
# by 1e-3 7e-6, 1.1e-4, 1.7e-4, 99.6 %. The program prints six decimals.
QUANTISED = Divergence(mean=0.01, p999=0.1, maximum=1.0, same_top=90.0)
FLOAT = Divergence(mean=3e-6, p999=1.5e-4, maximum=5e-4, same_top=99.5)


@dataclass(frozen=True)
class Recording:
    """The logits of one build: the hash of the file, and the perplexity of the text."""

    sha256: str
    perplexity: float


@dataclass(frozen=True)
class Measured:
    """A step's divergence on one model, and the worst of its parent's runs on its own logits."""

    found: Divergence
    floor: Divergence
    bound: Divergence
    cached: bool

    def find_excess(self) -> list[str]:
        """The figures beyond their limits, in words."""
        limit = make_limit(self.floor, self.bound)
        words = [
            f"{field.name} {getattr(self.found, field.name):.2g} > {getattr(limit, field.name):.2g}"
            for field in fields(Divergence)[:3]
            if not getattr(self.found, field.name) <= getattr(limit, field.name)  # NaN is beyond
        ]
        if not self.found.same_top >= limit.same_top:
            words.append(f"same top {self.found.same_top:.1f} % < {limit.same_top:.1f} %")
        return words


class _StepFailedError(Exception):
    """The step's program did not do what its parent's did."""


def parse_divergence(output: str) -> Divergence:
    """The figures of a `--kl-divergence` run; NaN is kept, it is an answer.

    Raises InvalidMeasurement when one is missing: fewer than 100 positions, or an error.
    """
    values = {}
    for name, pattern in _FIGURES.items():
        match = pattern.search(output)
        if match is None:
            said = last_line(output.encode())
            raise InvalidMeasurement(f"{TARGET} --kl-divergence measured nothing: {said}")
        values[name] = float(match[1])
    return Divergence(**values)


def require_logits(path: Path, asked: int = CHUNKS) -> None:
    """Raise InvalidMeasurement for a file of logits that is not whole or of another length."""
    with path.open("rb") as stream:
        head = stream.read(_HEADER.size)
    if len(head) < _HEADER.size:
        raise InvalidMeasurement(f"{TARGET} wrote no logits: the text or the model is not right")
    magic, context, vocabulary, chunks = _HEADER.unpack(head)
    row = 2 * ((vocabulary + 1) // 2) + 4
    rows = chunks * (context - 1 - context // 2)
    size = _HEADER.size + 4 * chunks * context + 2 * rows * row
    if (magic, context, chunks) != (b"_logits_", CONTEXT, asked) or path.stat().st_size != size:
        raise InvalidMeasurement(
            f"{TARGET} wrote {path.stat().st_size} bytes with {chunks} chunks of {context}, "
            f"expected {asked} of {CONTEXT}"
        )


def make_limit(floor: Divergence, bound: Divergence) -> Divergence:
    """max(3 x floor, bound) for each figure; for the share, the same of what is missing to 100."""
    low = {
        name: max(FLOOR_RUNS * getattr(floor, name), getattr(bound, name))
        for name in ("mean", "p999", "maximum")
    }
    share = min(100.0 - 3 * (100.0 - floor.same_top), bound.same_top)
    return Divergence(**low, same_top=share)


def check_divergence(
    room: Room,
    corpus: Corpus,
    step: StepBinaries,
    parent: StepBinaries,
    numerics: Numerics,
    quantizer: StepBinaries,
) -> CheckResult:
    """Compare the step with its parent, as far as the patch declares."""
    for binaries in (step, parent):
        require_target(binaries, TARGET)
    if step.fingerprint(TARGET) == parent.fingerprint(TARGET):
        return CheckResult(CHECK, Verdict.IDENTICAL, cached=True)
    try:
        if numerics == "bit-exact":
            return _check_bytes(room, corpus, step, parent)
        rooms = [room] if numerics == "changes" else [room, open_float_room(room, quantizer)]
        measured = [measure(each, corpus, step, parent) for each in rooms]
    except _StepFailedError as error:
        return CheckResult(CHECK, Verdict.FAIL, str(error))
    return judge_divergence(measured, numerics)


def judge_divergence(measured: Sequence[Measured], numerics: Numerics) -> CheckResult:
    """PASS when every figure is within its limit on every model; `changes` is only shown."""
    cached = all(each.cached for each in measured)
    facts: dict[str, Any] = {
        name: asdict(each) for name, each in zip(("model", "floats"), measured, strict=False)
    }
    first, last = measured[0].found, measured[-1].found
    if numerics == "changes":
        detail = f"changes: mean KLD {first.mean:.2g}, same top {first.same_top:.1f} %"
        return CheckResult(CHECK, Verdict.INFORMATION, detail, facts, cached)
    excess = [words for each in measured for words in each.find_excess()]
    if excess:
        return CheckResult(CHECK, Verdict.FAIL, f"nmse: {', '.join(excess)}", facts, cached)
    detail = f"nmse: mean KLD {first.mean:.2g}, in floats {last.mean:.2g}"
    return CheckResult(CHECK, Verdict.PASS, detail, facts, cached)


def record(room: Room, corpus: Corpus, binaries: StepBinaries) -> tuple[Recording, bool]:
    """The logits of one build, kept once per content, and whether they were found in the cache.

    Raises InvalidMeasurement when the program writes none.
    """
    inputs = list_inputs(room, corpus, binaries)
    found, cached = room.cache.obtain(inputs, lambda: _produce_logits(room, corpus, binaries))
    recording = Recording(**found)
    if not logits_path(room, recording).exists():
        room.cache.path(inputs).unlink(missing_ok=True)
        found, cached = room.cache.obtain(inputs, lambda: _produce_logits(room, corpus, binaries))
    return Recording(**found), cached


def logits_path(room: Room, recording: Recording) -> Path:
    """Where logits with this content are: steps that change none of them share one file."""
    return room.cache.path({"logits": recording.sha256}, ".data")


def measure(room: Room, corpus: Corpus, step: StepBinaries, parent: StepBinaries) -> Measured:
    """The step and three runs of its parent on the parent's logits."""
    reference, known = record(room, corpus, parent)
    runs = [
        _diverge(room, corpus, parent, reference, f"floor {number}") for number in range(FLOOR_RUNS)
    ]
    try:
        found, cached = _diverge(room, corpus, step, reference, "step")
    except InvalidMeasurement as error:
        raise _StepFailedError(f"only the parent runs: {error.what}") from error
    bound = FLOAT if is_float(room.model) else QUANTISED
    floor = _worst([each for each, _ in runs])
    return Measured(found, floor, bound, known and cached and all(hit for _, hit in runs))


def _check_bytes(
    room: Room, corpus: Corpus, step: StepBinaries, parent: StepBinaries
) -> CheckResult:
    before, known = record(room, corpus, parent)
    try:
        after, cached = record(room, corpus, step)
    except InvalidMeasurement as error:
        raise _StepFailedError(f"only the parent runs: {error.what}") from error
    facts = {"step": asdict(after), "parent": asdict(before)}
    if after.sha256 == before.sha256:
        detail = f"bit-exact: same bytes, perplexity {after.perplexity:.3f}"
        return CheckResult(CHECK, Verdict.PASS, detail, facts, cached and known)
    found, _ = _diverge(room, corpus, step, before, "step")
    facts["divergence"] = asdict(found)
    detail = f"bit-exact: other bytes, mean KLD {found.mean:.2g}"
    return CheckResult(CHECK, Verdict.FAIL, detail, facts, cached and known)


def _diverge(
    room: Room, corpus: Corpus, binaries: StepBinaries, reference: Recording, name: str
) -> tuple[Divergence, bool]:
    inputs = list_inputs(room, corpus, binaries) | {"reference": reference.sha256, "run": name}

    def produce() -> dict[str, Any]:
        return asdict(parse_divergence(run_divergence(room, corpus, binaries, reference)))

    found, cached = room.cache.obtain(inputs, produce)
    return Divergence(**found), cached


def run_divergence(room: Room, corpus: Corpus, binaries: StepBinaries, reference: Recording) -> str:
    """What the program prints of the room's model against kept logits.

    Raises InvalidMeasurement when it fails.
    """
    base = ("--kl-divergence-base", str(logits_path(room, reference)), "--kl-divergence")
    arguments = (*_arguments(room, corpus), "-f", str(corpus.path), *base)
    done = room.run_whole(binaries, TARGET, arguments, _has_figures)
    _require_end(done)
    return done.text


def _produce_logits(room: Room, corpus: Corpus, binaries: StepBinaries) -> dict[str, Any]:
    folder = room.cache.folder
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / f".logits-{os.getpid()}"
    base = ("--kl-divergence-base", str(half))
    arguments = (*_arguments(room, corpus), "-f", str(corpus.path), *base)
    try:
        done = room.run_whole(binaries, TARGET, arguments, _has_perplexity)
        _require_end(done)
        if not half.exists():
            raise InvalidMeasurement(f"{TARGET} wrote no logits: {last_line(done.stderr)}")
        require_logits(half, corpus.chunks)
        recording = Recording(hash_file(half), parse_perplexity(done))
        path = logits_path(room, recording)
        path.parent.mkdir(parents=True, exist_ok=True)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    return asdict(recording)


def parse_perplexity(done: Completed) -> float:
    """The perplexity of the text. Raises InvalidMeasurement without one or when not finite."""
    match = _PERPLEXITY.search((done.stdout + done.stderr).decode("utf-8", "replace"))
    value = float(match[1]) if match else math.nan
    if not math.isfinite(value):
        raise InvalidMeasurement(f"{TARGET} prints no perplexity: {last_line(done.stderr)}")
    return value


def _require_end(done: Completed) -> None:
    if done.code != 0:
        said = last_line(done.stdout, done.stderr)
        raise InvalidMeasurement(f"{TARGET} ended with {done.code}: {said}")


def _has_figures(done: Completed) -> bool:
    return "Same top p:" in done.text or b"KL Divergence" not in done.stdout


def _has_perplexity(done: Completed) -> bool:
    said = done.stdout + done.stderr
    return b"Final estimate" in said or not _ANY_CHUNK.search(said)


def _worst(runs: Sequence[Divergence]) -> Divergence:
    """The largest figures; the mean of 16-bit logits may come out below zero."""
    largest = {
        name: max(abs(getattr(run, name)) for run in runs) for name in ("mean", "p999", "maximum")
    }
    return Divergence(**largest, same_top=min(run.same_top for run in runs))


def _arguments(room: Room, corpus: Corpus) -> tuple[str, ...]:
    """Every setting that may change a bit of the result is given, none left to `auto`."""
    size, kind = str(CONTEXT), cache_type(room.model)
    steady = ("-t", str(room.threads), "-tb", str(room.threads), "-fa", "off")
    sizes = ("-c", size, "-b", size, "-ub", size, "-ctk", kind, "-ctv", kind)
    where = ("-ngl", "0", "--device", "none", "-fit", "off")
    return ("-m", room.model.name, *steady, *sizes, *where, "--chunks", str(corpus.chunks))


def list_inputs(room: Room, corpus: Corpus, binaries: StepBinaries) -> dict[str, Any]:
    """All that decides what a run on the room's model prints."""
    return {
        "check": CHECK,
        "binaries": binaries.fingerprint(TARGET),
        "model": room.model.sha256,
        "corpus": corpus.sha256,
        "arguments": _arguments(room, corpus),
    }
