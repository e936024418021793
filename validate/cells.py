"""What speed is measured in: cells, arms, samples, verdicts. Values only.

A cell is one number that a step may change (llama-bench pp64 at depth 0 on the CPU, one operator of
test-backend-ops perf). It is compared between two arms, A (the parent) and B (the step).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

Arm = Literal["A", "B"]


class Speed(Enum):
    """The verdict on one cell."""

    IDENTICAL = "IDENTICAL"  # the same bytes: not run
    FASTER = "FASTER"
    SAME = "SAME"  # equivalence shown: the interval lies within the margin
    INCONCLUSIVE = "INCONCLUSIVE"  # could hide up to the interval's far end
    SLOWER = "SLOWER"  # and a second run agreed
    INVALID = "INVALID"  # a guard failed


@dataclass(frozen=True)
class Cell:
    """One thing to measure. `minimum` is the smallest relative effect that matters (0.02: 2 %)."""

    tool: str
    name: str
    unit: Literal["t/s", "us"]
    minimum: float

    @property
    def higher_is_better(self) -> bool:
        return self.unit == "t/s"


@dataclass(frozen=True)
class Sample:
    """One process' number for one cell: in the cell's unit, with what was seen around it.

    `position` is 0..3 within the quad; `facts` hold the fingerprint that guards compare.
    """

    cell: str
    arm: Arm
    quad: int
    position: int
    value: float
    seconds: float
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """A cell's verdict with what it rests on: logs of the speed ratio B/A (positive: B faster).

    `margin` is max(minimum, floor); `p` the exact signed-rank p-value; `reason` says what a guard
    found, or what an inconclusive cell could hide.
    """

    cell: Cell
    verdict: Speed
    center: float = 0.0
    low: float = float("-inf")
    high: float = float("inf")
    quads: int = 0
    margin: float = 0.0
    p: float = 1.0
    reason: str = ""
