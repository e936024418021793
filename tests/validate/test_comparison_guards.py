"""What a comparison refuses, and what it does when the time is over."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import PLAN, PP, TG, Call, Scripted, control, run

from upstream.errors import InvalidMeasurement, UsageError
from validate.cells import Arm, Cell, Judged, Sample, Speed
from validate.comparison import Plan, compare
from validate.quads import check_quad


def test_samples_in_wrong_places_are_no_quad() -> None:
    def sample(arm: Arm, position: int) -> Sample:
        return Sample("pp64", arm, 1, position, 100.0, 1.0)

    good = [sample("A", 0), sample("B", 1), sample("B", 2), sample("A", 3)]
    assert check_quad([PP], good).differences == {"pp64": 0.0}
    for bad in (
        good[:3],
        [*good, sample("A", 4)],
        [*good[:3], sample("A", 4)],
        [sample("A", 0), sample("B", 0), sample("B", 1), sample("A", 2)],
        [sample("A", 0), sample("B", 1), sample("A", 2), sample("B", 3)],
    ):
        with pytest.raises(InvalidMeasurement):
            check_quad([PP], bad)


@given(st.integers(0, 71), st.sampled_from(("step", "control")))
def test_a_failed_guard_anywhere_is_invalid(at: int, track: str) -> None:
    def fail(call: Call) -> None:
        if len(sampler.calls) > at % 36:
            raise InvalidMeasurement("the device is another")

    cells = (PP, TG)
    step, aa = Scripted(cells), control(cells=cells)
    sampler = step if track == "step" else aa
    sampler.hook = fail
    judged = compare(cells, step, aa, PLAN, Random(1))
    assert [(one.verdict, one.reason) for one in judged] == [
        (Speed.INVALID, "the device is another")
    ] * 2


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_speed_that_was_not_measured_is_invalid(value: float) -> None:
    assert tamper(lambda sample: replace(sample, value=value)).verdict is Speed.INVALID


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_a_duration_that_cannot_be_is_invalid(seconds: float) -> None:
    assert tamper(lambda sample: replace(sample, seconds=seconds)).verdict is Speed.INVALID


def test_a_coarse_clock_may_say_0_seconds() -> None:
    assert tamper(lambda sample: replace(sample, seconds=0.0)).verdict is Speed.SAME


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"arm": "A"}, "when asked for"),
        ({"quad": 7}, "when asked for"),
        ({"position": 9}, "when asked for"),
        ({"cell": "other"}, "when asked for"),
    ],
)
def test_an_answer_to_another_question_is_invalid(change: dict[str, object], reason: str) -> None:
    judged = tamper(lambda sample: replace(sample, **change))  # type: ignore[arg-type]
    assert judged.verdict is Speed.INVALID
    assert reason in judged.reason


def tamper(change: Callable[[Sample], Sample]) -> Judged:
    """The verdict when one sample of arm B is not what it should be."""

    class Tampered(Scripted):
        def measure(self, cell: Cell, call: Call) -> Sample:
            found = super().measure(cell, call)
            return change(found) if call[:2] == ("B", 5) else found

    return run(Tampered())[0]


def test_a_missing_cell_is_invalid() -> None:
    judged = compare([PP, TG], Scripted((PP,)), control(cells=(PP, TG)), PLAN, Random(1))
    assert {one.reason for one in judged} == {"llama-bench gave no number for tg16"}


def test_more_cells_than_asked_do_no_harm() -> None:
    both = (PP, TG)
    [judged] = compare([TG], Scripted(both), control(cells=both), PLAN, Random(1))
    assert judged == run(Scripted((TG,)))[0]


# --- time ---


class Clock:
    """Moves on by `step` with every process."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def tick(self, call: Call) -> None:
        self.now += 1.0


def run_for(seconds: float, effect: float, jitter: float = 0.002) -> tuple[Judged, float]:
    clock = Clock()
    step = Scripted((PP,), {"pp64": effect}, jitter, hook=clock.tick)
    aa = control(hook=clock.tick)
    plan = Plan(budget_seconds=seconds)
    [judged] = compare([PP], step, aa, plan, Random(1), clock)
    return judged, clock.now - 1000


@pytest.mark.parametrize("seconds", [0, 3, 20, 60, 71, 80, 100, 119])
def test_the_budget_wins_over_the_looks(seconds: float) -> None:
    judged, spent = run_for(seconds, -0.019, jitter=0.02)
    assert spent <= max(seconds, 12)  # a first quad and its warm-up are not foreseen
    assert judged.verdict is Speed.INCONCLUSIVE
    assert judged.quads < 20
    assert f"{judged.quads} of 20 quads in the {seconds} s that were allowed; could hide" in (
        judged.reason
    )


def test_no_time_means_no_process() -> None:
    judged, spent = run_for(0, -0.5)
    assert (judged.quads, spent) == (0, 0)
    assert judged.reason.endswith("could hide anything")


def test_the_last_look_at_the_end_of_the_time_may_decide() -> None:
    judged, spent = run_for(66, -0.3)
    assert spent <= 66
    assert judged.quads == 7
    assert judged.verdict is Speed.SLOWER


def test_enough_time_changes_nothing() -> None:
    assert run_for(1e6, -0.1)[0] == run(Scripted((PP,), {"pp64": -0.1}))[0]


def test_a_clock_that_goes_back_is_refused() -> None:
    times: Iterator[float] = iter([100.0, 101.0, 102.0, 50.0])
    [judged] = run(Scripted(), clock=lambda: next(times))
    assert judged.verdict is Speed.INVALID
    assert judged.reason == "the clock went backwards by 52 s"


# --- bad plans ---


@pytest.mark.parametrize(
    "changes",
    [
        {"looks": ()},
        {"looks": (8, 8)},
        {"looks": (14, 8)},
        {"looks": (0, 8)},
        {"looks": (6, 8, 14)},  # 6 quads decide nothing at 0.05 / 3
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"control_alpha": 0.0},
        {"control_quads": 5},
    ],
)
def test_a_plan_that_cannot_decide_is_refused(changes: Mapping[str, object]) -> None:
    with pytest.raises(UsageError):
        Plan(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("cells", [(), (PP, PP)])
def test_cells_without_a_name_of_their_own_are_refused(cells: tuple[Cell, ...]) -> None:
    with pytest.raises(UsageError):
        compare(cells, Scripted(), control(), PLAN, Random(1))
