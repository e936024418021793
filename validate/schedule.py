"""What a comparison measures, in which order, and how long it may take."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from upstream.errors import InvalidMeasurement, UsageError
from validate.quads import Order, Track
from validate.statistics import critical_rank, quads_needed

_SWAPPED: dict[Order, Order] = {"ABBA": "BAAB", "BAAB": "ABBA"}


@dataclass(frozen=True)
class Plan:
    """How much is measured and how sure a verdict must be.

    looks: numbers of quads after which a verdict may fall; they share `alpha` equally.
    control_quads: quads of base against its copy, spread over the time until the first look.
    control_alpha: how often a fit machine is refused by chance.
    budget_seconds: an upper bound for one comparison; it wins over the looks.
    family: how many cells the whole step has (0: those of this comparison). A difference that Holm
        would take back is no reason to stop.
    """

    looks: tuple[int, ...] = (8, 14, 20)
    alpha: float = 0.05
    control_quads: int = 8
    budget_seconds: float | None = None
    control_alpha: float = 0.01
    family: int = 0

    def __post_init__(self) -> None:
        if not self.looks or list(self.looks) != sorted(set(self.looks)):
            raise UsageError(f"looks must be numbers of quads that rise: {self.looks}")
        if not (0 < self.alpha < 1 and 0 < self.control_alpha < 1):
            raise UsageError(f"alpha must lie between 0 and 1: {self.alpha}, {self.control_alpha}")
        if critical_rank(self.looks[0], self.look_alpha) == 0:
            raise UsageError(
                f"{self.looks[0]} quads cannot decide anything at alpha {self.look_alpha:.4f}",
                remedy=f"take {quads_needed(self.look_alpha)} quads or more for the first look",
            )
        if critical_rank(self.control_quads, self.alpha) == 0:
            raise UsageError(
                f"{self.control_quads} quads of the control give no interval",
                remedy=f"take {quads_needed(self.alpha)} or more",
            )

    @property
    def look_alpha(self) -> float:
        """The error that one look may make."""
        return self.alpha / len(self.looks)


@dataclass(frozen=True)
class Turn:
    """One quad to measure."""

    track: Track
    quad: int
    order: Order


def plan_rounds(
    plan: Plan, cells: int, rng: Random, *, swapped: bool = False
) -> list[tuple[Turn, ...]]:
    """All quads in order of running: one of the step a round, the control's spread among them.

    A coin decides every order. That makes the signed-rank test exact whatever the noise is: when
    the arms are equal, the coin alone gives a quad's difference its sign. All coins are thrown
    before anything is measured, so that a resumed run has the same ones.
    """
    # Below this number of quads no control could ever be found unfit.
    controls = max(plan.control_quads, quads_needed(plan.control_alpha / cells))
    mine = [_throw("step", quad, rng, swapped) for quad in range(1, plan.looks[-1] + 1)]
    theirs = [_throw("control", quad, rng, swapped) for quad in range(1, controls + 1)]
    rounds: list[tuple[Turn, ...]] = []
    for index, turn in enumerate(mine):
        due = [math.ceil(controls * min(1.0, n / plan.looks[0])) for n in (index, index + 1)]
        turns = [turn, *theirs[slice(*due)]]
        rng.shuffle(turns)
        rounds.append(tuple(turns))
    return rounds


def throw_order(rng: Random) -> Order:
    """The order of a quad by a fair coin."""
    return "ABBA" if rng.random() < 0.5 else "BAAB"


def _throw(track: Track, quad: int, rng: Random, swapped: bool) -> Turn:
    order = throw_order(rng)
    return Turn(track, quad, _SWAPPED[order] if swapped else order)


class Budget:
    """The seconds of one comparison, those of an interrupted run (`spent`) included."""

    def __init__(self, limit: float | None, clock: Callable[[], float]) -> None:
        self.limit = limit
        self.spent = 0.0
        self._clock = clock
        self._started = self._last = clock()
        self._quads = 0

    def count_quad(self) -> None:
        """Note that a quad ended. Raises InvalidMeasurement when the clock went backwards."""
        now = self._clock()
        if now < self._last:
            raise InvalidMeasurement(
                f"the clock went backwards by {self._last - now:.3g} s",
                remedy="measure on a machine whose monotonic clock is one",
            )
        self._last = now
        self._quads += 1

    def allows_another(self) -> bool:
        """Whether the time left is enough for one more quad of average length."""
        if self.limit is None:
            return True
        elapsed = self._last - self._started
        average = elapsed / self._quads if self._quads else 0.0
        return self.spent + elapsed + average < self.limit

    def explain(self, quads: int, planned: int) -> str:
        """Why there are fewer quads than planned, or ""."""
        if quads == planned or self.limit is None:
            return ""
        return f"{quads} of {planned} quads in the {self.limit:g} s that were allowed; "
