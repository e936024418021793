"""What each leg gave, one after the other, beside the whole way measured directly.

Logarithms of speed ratios add up. Legs are independent sessions, so that the sum's half-width is
the root of the sum of squares of theirs. The whole way has a session of its own: where it lies
further from the sum than both intervals allow, the machine or the builds changed on the way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from validate.cells import Judged, Speed
from validate.prefill.measure import Outcome, Walked
from validate.prefill.points import Leg
from validate.report_model import percent

NONE = (Speed.INVALID,)


@dataclass(frozen=True)
class Bar:
    """A leg of one cell. `start`: where the legs before it end (log); `known`: it has a number."""

    leg: Leg
    judged: Judged
    start: float

    @property
    def known(self) -> bool:
        return self.judged.verdict not in NONE

    @property
    def end(self) -> float:
        return self.start + effect(self.judged)


@dataclass(frozen=True)
class Fall:
    """The bars of one cell and, of each total, the sum of its legs beside it."""

    cell: str
    bars: tuple[Bar, ...]
    totals: tuple[Total, ...]


@dataclass(frozen=True)
class Total:
    """The whole way: directly, and as the sum (log) of its legs with its half-width.

    missing: legs without a number, which the sum does not hold.
    """

    leg: Leg
    judged: Judged
    sum: float
    half_width: float
    missing: int

    @property
    def gap(self) -> float:
        """The direct number less the sum (log)."""
        return effect(self.judged) - self.sum

    @property
    def consistent(self) -> bool | None:
        """Whether sum and direct number agree; None where one is not whole or has no interval."""
        if self.missing or self.judged.verdict in NONE:
            return None
        width = math.hypot(self.half_width, half_width(self.judged))
        return abs(self.gap) <= width if math.isfinite(width) else None

    def describe(self) -> str:
        """In words."""
        if self.judged.verdict in NONE:
            return "no direct number to compare the sum with"
        product = (
            f"product of the legs {ratio(self.sum)}, measured directly {ratio(effect(self.judged))}"
        )
        if self.missing:
            return f"{product}; {self.missing} legs have no number"
        agrees = {True: "consistent", False: "INCONSISTENT", None: "too few quads to say"}
        return f"{product}: {agrees[self.consistent]}"


def stack_cell(outcome: Outcome, cell: str) -> Fall:
    """The waterfall of one cell."""
    bars, start = [], 0.0
    for walked in outcome.walked:
        if walked.leg.kind != "total":
            bar = Bar(walked.leg, find_cell(walked, cell), start)
            bars.append(bar)
            start = bar.end
    totals = [
        _add_up(walked, find_cell(walked, cell), bars)
        for walked in outcome.walked
        if walked.leg.kind == "total"
    ]
    return Fall(cell, tuple(bars), tuple(totals))


def stack_all(outcome: Outcome) -> list[Fall]:
    """One waterfall a cell."""
    names = [judged.cell.name for judged in outcome.walked[0].cells]
    return [stack_cell(outcome, name) for name in names]


def find_cell(walked: Walked, name: str) -> Judged:
    """The judged cell of that name; a leg without it raises KeyError: they share their grid."""
    return {judged.cell.name: judged for judged in walked.cells}[name]


def effect(judged: Judged) -> float:
    """The logarithm of its ratio; 0 for the same bytes and for no number."""
    return judged.center if judged.quads else 0.0


def half_width(judged: Judged) -> float:
    """Of its interval; 0 for the same bytes, infinite for too few quads."""
    if judged.verdict is Speed.IDENTICAL:
        return 0.0
    return max(judged.high - judged.center, judged.center - judged.low)


def ratio(log_ratio: float) -> str:
    """`1.234x`."""
    return f"{1 + percent(log_ratio) / 100:.3f}x"


def _add_up(walked: Walked, judged: Judged, bars: Sequence[Bar]) -> Total:
    places = [index for index, bar in enumerate(bars) if bar.leg.first is walked.leg.first]
    part = bars[places[0] :]
    width = math.sqrt(sum(half_width(bar.judged) ** 2 for bar in part if bar.known))
    total = sum(effect(bar.judged) for bar in part)
    return Total(walked.leg, judged, total, width, sum(not bar.known for bar in part))
