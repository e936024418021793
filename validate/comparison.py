"""The sequential paired comparison of a step with its parent.

Method: shared/facts/validation.md 1.4; docs/explanation/method.md explains it and says where this
differs. In short: quads of processes in random order (ABBA or BAAB), in turns with quads that
compare the base with its own copy (the control); looks at fixed numbers of quads that share alpha;
a margin that never lies below what the control shows of the machine; three-way verdicts.

    judged = compare(cells, sampler, control, plan, Random(seed))     one process, several cells
    judged = correct(judged of all processes of the step, plan.alpha) Holm over the step's cells
    judged = confirm(judged, sampler, control, plan, Random(seed))    per process again
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Protocol

from upstream.errors import InvalidMeasurement, UsageError
from validate.cells import Arm, Cell, Judged, Sample, Speed
from validate.quads import Quad, Track, check_quad, complete_quads, find_sample
from validate.schedule import Budget, Plan, Turn, plan_rounds
from validate.statistics import Estimate, critical_rank, hodges_lehmann, holm, signed_rank_p

__all__ = [
    "Known",
    "OnQuad",
    "Plan",
    "Sampler",
    "Track",
    "agree",
    "compare",
    "confirm",
    "correct",
    "describe_hidden",
    "judge",
]

Known = Mapping[Track, Sequence[Sample]]
OnQuad = Callable[[Track, Sequence[Sample]], None]


class Sampler(Protocol):
    """Runs one process. Of the control, arm "B" is the base's own copy."""

    def sample(self, arm: Arm, quad: int, position: int) -> Mapping[str, Sample]:
        """The samples by cell name; quad 0 is the warm-up and not used.

        Raises InvalidMeasurement when a guard fails.
        """


def judge(estimate: Estimate, margin: float) -> Speed:
    """The verdict on an interval; `margin` > 0 in logarithms, below it a change does not matter."""
    if estimate.high < 0 and estimate.center <= -margin:
        return Speed.SLOWER
    if estimate.low > 0 and estimate.center >= margin:
        return Speed.FASTER
    if -margin < estimate.low and estimate.high < margin:
        return Speed.SAME
    return Speed.INCONCLUSIVE


def compare(
    cells: Sequence[Cell],
    sampler: Sampler,
    control: Sampler,
    plan: Plan,
    rng: Random,
    clock: Callable[[], float] = time.monotonic,
    known: Known | None = None,
    on_quad: OnQuad | None = None,
) -> list[Judged]:
    """Measure until every cell is decided, the looks are used up or the time is.

    `known` are samples of an interrupted run: complete quads are reused, others measured anew.
    With the same seed a resumed run ends as an uninterrupted one. `on_quad` gets each finished
    quad (4 samples a cell), never a warm-up. A failed guard in any process makes every cell
    INVALID. Raises UsageError for a plan or cells that make no comparison.
    """
    session = _Session(cells, {"step": sampler, "control": control}, plan, clock, on_quad)
    return session.run(plan_rounds(plan, len(cells), rng), known or {})


def correct(judged: Sequence[Judged], alpha: float = 0.05) -> list[Judged]:
    """Holm over all cells of a step: what only chance explains well becomes INCONCLUSIVE."""
    valid = (Speed.INVALID, Speed.IDENTICAL)
    family = {str(i): one.p for i, one in enumerate(judged) if one.verdict not in valid}
    adjusted = holm(family)
    return [
        _weaken(one, f"one of {len(family)} cells (Holm: p = {adjusted[str(i)]:.2g})")
        if one.verdict in (Speed.SLOWER, Speed.FASTER) and adjusted[str(i)] > alpha
        else one
        for i, one in enumerate(judged)
    ]


def confirm(
    judged: Sequence[Judged],
    sampler: Sampler,
    control: Sampler,
    plan: Plan,
    rng: Random,
    clock: Callable[[], float] = time.monotonic,
    known: Known | None = None,
    on_quad: OnQuad | None = None,
) -> list[Judged]:
    """Measure again what was SLOWER; it stays so only if the second run agrees.

    Give the first run's seed: then each quad starts with the other arm, and an effect of the order
    cannot confirm itself. The question stays the same, so does the margin; the second control
    only says whether the machine is fit. A cell whose second run is INVALID is INVALID.
    """
    doubted = {one.cell.name: one for one in judged if one.verdict is Speed.SLOWER}
    if not doubted:
        return list(judged)
    cells = [one.cell for one in doubted.values()]
    plan = replace(plan, family=1)  # the first run passed Holm; this is one question a cell
    rounds = plan_rounds(plan, len(cells), rng, swapped=True)
    session = _Session(cells, {"step": sampler, "control": control}, plan, clock, on_quad)
    session.margins = {name: one.margin for name, one in doubted.items()}
    second = {one.cell.name: one for one in session.run(rounds, known or {})}
    return [
        agree(one, second[one.cell.name]) if doubted.get(one.cell.name) is one else one
        for one in judged
    ]


def agree(first: Judged, second: Judged) -> Judged:
    """What is SLOWER in the first run, after the second: SLOWER, INVALID or INCONCLUSIVE."""
    if second.verdict is Speed.SLOWER:
        return replace(first, reason=f"a second run says {_describe(second)}")
    if second.verdict is Speed.INVALID:
        return replace(first, verdict=Speed.INVALID, reason=f"second run: {second.reason}")
    return _weaken(first, f"a second run says {second.verdict.value}, {_describe(second)}")


def _weaken(judged: Judged, why: str) -> Judged:
    reason = f"{judged.verdict.value} not upheld, {why}; {describe_hidden(judged.low, judged.high)}"
    return replace(judged, verdict=Speed.INCONCLUSIVE, reason=reason)


def _describe(judged: Judged) -> str:
    return f"{100 * math.expm1(judged.center):+.1f} % after {judged.quads} quads"


def describe_hidden(low: float, high: float) -> str:
    """What an interval of logarithms does not exclude."""
    worst = max(abs(math.expm1(low)), math.expm1(high))
    if math.isinf(low) or math.isinf(high):
        return "could hide anything"
    return f"could hide up to {100 * worst:.1f} %"


def find_unfit(controls: Mapping[str, Sequence[float]], alpha: float) -> str:
    """Why the machine is unfit to judge, or "": the base differs from its own copy in some cell."""
    adjusted = holm({name: signed_rank_p(found) for name, found in controls.items()})
    for name, p in adjusted.items():
        if p <= alpha:
            percent = hodges_lehmann(controls[name], alpha).percent
            return (
                f"the machine is unfit: the base and its own copy differ by {percent:+.2f} % "
                f"in {name} (p = {p:.2g})"
            )
    return ""


def measure_floor(control: Sequence[float], alpha: float) -> float:
    """The smallest difference (log) that this machine can tell from none, by its control."""
    estimate = hodges_lehmann(control, alpha)
    return max(abs(estimate.center), estimate.half_width)


class _Session:
    """What was measured so far and what is decided."""

    def __init__(
        self,
        cells: Sequence[Cell],
        samplers: Mapping[Track, Sampler],
        plan: Plan,
        clock: Callable[[], float],
        on_quad: OnQuad | None,
    ) -> None:
        names = [cell.name for cell in cells]
        if not cells or len({*names}) != len(names):
            raise UsageError(f"a comparison needs cells of different names: {names}")
        self.family = plan.family or len(cells)
        if critical_rank(plan.looks[-1], plan.look_alpha / self.family) == 0:
            raise UsageError(
                f"{plan.looks[-1]} quads cannot find a difference in one of {self.family} cells",
                remedy="plan more quads or fewer cells",
            )
        self.cells = cells
        self.samplers = samplers
        self.plan = plan
        self.on_quad = on_quad
        self.quads: dict[Track, dict[int, Quad]] = {"step": {}, "control": {}}
        self.decided: dict[str, Judged] = {}
        self.margins: Mapping[str, float] = {}
        self.warm: set[Track] = set()
        self.budget = Budget(plan.budget_seconds, clock)

    def run(self, rounds: Sequence[Sequence[Turn]], known: Known) -> list[Judged]:
        """Verdicts in the order of the cells; INVALID for all when a guard fails."""
        try:
            self._reuse(known)
            self._go_on(rounds)
        except InvalidMeasurement as error:
            return [Judged(cell, Speed.INVALID, reason=error.what) for cell in self.cells]
        return [self.decided[cell.name] for cell in self.cells]

    def _reuse(self, known: Known) -> None:
        """Take over the complete quads of an earlier run."""
        for track, samples in known.items():
            self.quads[track] = complete_quads(self.cells, samples)
            self.budget.spent += sum(quad.seconds for quad in self.quads[track].values())

    def _go_on(self, rounds: Sequence[Sequence[Turn]]) -> None:
        """Go through the rounds; the last look may come early when the time is over."""
        for number, turns in enumerate(rounds, 1):
            if not all(self._take(turn) for turn in turns):
                # This look replaces the next one, so that there are never more than planned.
                # Which quad is the last does not depend on the coins: the test stays exact.
                return self._look(number, final=True)
            if number in self.plan.looks:
                self._look(number, final=number == self.plan.looks[-1])
            if len(self.decided) == len(self.cells):
                return None
        return None

    def _take(self, turn: Turn) -> bool:
        """Measure a quad unless it is known. False when no time is left for it."""
        if turn.quad in self.quads[turn.track]:
            return True
        if not self.budget.allows_another():
            return False
        if turn.track not in self.warm:
            self.warm.add(turn.track)
            self._measure(replace(turn, quad=0))  # fills the page cache and pipeline caches
        samples = self._measure(turn)
        self.quads[turn.track][turn.quad] = check_quad(self.cells, samples)
        if self.on_quad is not None:
            self.on_quad(turn.track, samples)
        return True

    def _measure(self, turn: Turn) -> list[Sample]:
        samples: list[Sample] = []
        sampler = self.samplers[turn.track]
        for position, letter in enumerate(turn.order):
            arm: Arm = "A" if letter == "A" else "B"
            found = sampler.sample(arm, turn.quad, position)
            samples += [find_sample(found, cell, arm, turn.quad, position) for cell in self.cells]
        self.budget.count_quad()
        return samples

    def _look(self, number: int, *, final: bool) -> None:
        """Decide what can be decided with the quads up to `number`; everything when `final`."""
        controls = {cell.name: self._differences("control", cell, number) for cell in self.cells}
        unfit = find_unfit(controls, self.plan.control_alpha)
        for cell in self.cells:
            if unfit or cell.name not in self.decided:
                judged = self._judge(cell, number, controls[cell.name], unfit)
                if final or unfit or self._settles(judged):
                    self.decided[cell.name] = judged

    def _settles(self, judged: Judged) -> bool:
        if judged.verdict in (Speed.SLOWER, Speed.FASTER):
            return judged.p * self.family <= self.plan.alpha
        return judged.verdict is Speed.SAME

    def _judge(self, cell: Cell, number: int, control: Sequence[float], unfit: str) -> Judged:
        differences = self._differences("step", cell, number)
        estimate = hodges_lehmann(differences, self.plan.look_alpha)
        floor = max(cell.minimum, measure_floor(control, self.plan.alpha))
        margin = self.margins.get(cell.name, floor)
        verdict = Speed.INVALID if unfit else judge(estimate, margin)
        reason = unfit
        if verdict is Speed.INCONCLUSIVE:
            reason = self.budget.explain(estimate.quads, self.plan.looks[-1])
            reason += describe_hidden(estimate.low, estimate.high)
        p = min(1.0, len(self.plan.looks) * signed_rank_p(differences))
        low, high = estimate.low, estimate.high
        return Judged(cell, verdict, estimate.center, low, high, estimate.quads, margin, p, reason)

    def _differences(self, track: Track, cell: Cell, number: int) -> list[float]:
        last = number if track == "step" else math.inf
        quads = sorted(self.quads[track].items())
        return [quad.differences[cell.name] for index, quad in quads if index <= last]
