"""Perplexity and KL divergence of a quantised file against the F16 reference, with intervals.

Of the mean figures llama-perplexity tells a standard error over positions: 1.96 of it to each side.
Of the 99.9 % quantile the interval goes from the 99 % quantile to the largest value (order
statistics; it covers with 1 - 0.999^positions). Two schemes are compared chunk by chunk: the median
shift of the differences and its exact interval (statistics.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from upstream.errors import InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.corpus import Corpus
from validate.divergence import (
    CONTEXT,
    Recording,
    list_inputs,
    parse_divergence,
    run_divergence,
)
from validate.room import Room
from validate.statistics import Estimate, hodges_lehmann

ALPHA = 0.05
NORMAL = 1.96
POSITIONS = CONTEXT - 1 - CONTEXT // 2  # of a chunk: the second half is judged
_NUMBER = r"(-?[\d.]+|-?nan|-?inf)"
_PAIR = rf"{_NUMBER} ± +{_NUMBER}"
_CHUNK = re.compile(rf"^ *(\d+) +{_PAIR} +{_PAIR} +{_PAIR} +{_PAIR} % +{_PAIR} %$", re.MULTILINE)


@dataclass(frozen=True)
class Figure:
    """A value with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Quality:
    """KL divergences in nats, same_top in per cent; `chunks` the mean divergence of each."""

    perplexity: Figure
    reference_perplexity: Figure
    log_ratio: Figure
    mean: Figure
    p999: Figure
    maximum: float
    same_top: Figure
    chunks: tuple[float, ...]

    @property
    def positions(self) -> int:
        """How many predictions were compared."""
        return POSITIONS * len(self.chunks)


def measure_quality(
    room: Room, corpus: Corpus, binaries: StepBinaries, reference: Recording
) -> Quality:
    """What one run says of the room's model; kept by all that decides it.

    Raises InvalidMeasurement when it measured nothing.
    """
    inputs = list_inputs(room, corpus, binaries) | {"reference": reference.sha256, "run": "quality"}

    def produce() -> dict[str, Any]:
        return asdict(read_quality(run_divergence(room, corpus, binaries, reference)))

    found, _ = room.cache.obtain(inputs, produce)
    return load_quality(found)


def load_quality(document: dict[str, Any]) -> Quality:
    """The value that `asdict` made a document of."""
    values = {
        name: Figure(**value) if isinstance(value, dict) else value
        for name, value in document.items()
    }
    return Quality(**values | {"chunks": tuple(document["chunks"])})


def read_quality(said: str) -> Quality:
    """The figures of a --kl-divergence run. Raises InvalidMeasurement when one is missing."""
    found = parse_divergence(said)
    return Quality(
        perplexity=_read(said, r"Mean PPL\(Q\)"),
        reference_perplexity=_read(said, r"Mean PPL\(base\)"),
        log_ratio=_read(said, r"Mean ln\(PPL\(Q\)/PPL\(base\)\)"),
        mean=_read(said, r"Mean +KLD"),
        p999=Figure(found.p999, _read_quantile(said), found.maximum),
        maximum=found.maximum,
        same_top=_read(said, "Same top p"),
        chunks=tuple(read_chunks(said)),
    )


def _read(said: str, name: str) -> Figure:
    match = re.search(rf"^{name} *: +{_PAIR}", said, re.MULTILINE)
    if match is None:
        raise InvalidMeasurement(f"llama-perplexity --kl-divergence prints no '{name}'")
    value, sigma = float(match[1]), float(match[2])
    return Figure(value, value - NORMAL * sigma, value + NORMAL * sigma)


def _read_quantile(said: str) -> float:
    match = re.search(rf"^99\.0% +KLD: +{_NUMBER}", said, re.MULTILINE)
    if match is None:
        raise InvalidMeasurement("llama-perplexity --kl-divergence prints no 99 % quantile")
    return float(match[1])


def read_chunks(said: str) -> list[float]:
    """The mean divergence of every chunk; what is printed is the mean of all up to it."""
    running = [(int(row[0]), float(row[5])) for row in _CHUNK.findall(said)]
    if not running or [number for number, _ in running] != list(range(1, len(running) + 1)):
        raise InvalidMeasurement("llama-perplexity --kl-divergence prints no line for each chunk")
    sums = [0.0, *(number * mean for number, mean in running)]
    return [after - before for before, after in pairwise(sums)]


def compare_chunks(mine: Quality, other: Quality) -> Estimate:
    """How much more divergence a chunk has with `mine` than with `other`, in nats."""
    return compare_values(mine.chunks, other.chunks)


def compare_values(mine: Sequence[float], other: Sequence[float]) -> Estimate:
    """The median shift of paired values and its exact interval."""
    return hodges_lehmann([a - b for a, b in zip(mine, other, strict=True)], ALPHA)
