"""The sequential comparison: verdicts, looks, control, budget, guards."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import OP, PLAN, PP, TG, Call, Scripted, control, run

from upstream.errors import UsageError
from validate.cells import Cell, Judged, Sample, Speed
from validate.comparison import (
    Plan,
    Track,
    compare,
    correct,
    describe_hidden,
    find_unfit,
    judge,
    measure_floor,
)
from validate.schedule import plan_rounds
from validate.statistics import Estimate, hodges_lehmann

# --- judge: a pure function ---


@pytest.mark.parametrize(
    ("low", "center", "high", "verdict"),
    [
        (-0.09, -0.05, -0.01, Speed.SLOWER),
        (-0.09, -0.02, -0.01, Speed.SLOWER),  # the margin itself counts
        (-0.09, -0.019, -0.01, Speed.INCONCLUSIVE),  # a difference, too small to matter
        (-0.09, -0.05, 0.0, Speed.INCONCLUSIVE),  # 0 is not excluded
        (0.01, 0.05, 0.09, Speed.FASTER),
        (0.01, 0.02, 0.09, Speed.FASTER),
        (0.0, 0.05, 0.09, Speed.INCONCLUSIVE),
        (-0.019, 0.0, 0.019, Speed.SAME),
        (-0.019, -0.01, -0.001, Speed.SAME),  # slower for sure, by less than matters
        (-0.02, 0.0, 0.019, Speed.INCONCLUSIVE),
        (-0.019, 0.0, 0.02, Speed.INCONCLUSIVE),
        (-math.inf, 0.0, math.inf, Speed.INCONCLUSIVE),
    ],
)
def test_judge_at_its_borders(low: float, center: float, high: float, verdict: Speed) -> None:
    assert judge(Estimate(center, low, high, 8), 0.02) is verdict


MIRROR = {Speed.SLOWER: Speed.FASTER, Speed.FASTER: Speed.SLOWER}


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=3), st.floats(1e-4, 1))
def test_judge_mirrors_with_the_arms(numbers: list[float], margin: float) -> None:
    low, center, high = sorted(numbers)
    verdict = judge(Estimate(center, low, high, 8), margin)
    mirrored = judge(Estimate(-center, -high, -low, 8), margin)
    assert mirrored is MIRROR.get(verdict, verdict)


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=3), st.floats(1e-4, 0.5), st.floats(0, 0.5))
def test_a_larger_margin_never_finds_a_change(
    numbers: list[float], margin: float, more: float
) -> None:
    low, center, high = sorted(numbers)
    estimate = Estimate(center, low, high, 8)
    if judge(estimate, margin) is Speed.SAME:
        assert judge(estimate, margin + more) is Speed.SAME
    if judge(estimate, margin + more) in MIRROR:
        assert judge(estimate, margin) is judge(estimate, margin + more)


# --- compare ---


@pytest.mark.parametrize(
    ("effect", "verdict"),
    [(-0.1, Speed.SLOWER), (0.1, Speed.FASTER), (0.0, Speed.SAME), (0.005, Speed.SAME)],
)
@pytest.mark.parametrize("cell", [PP, OP])
def test_a_clear_case_is_decided_at_the_first_look(
    cell: Cell, effect: float, verdict: Speed
) -> None:
    [judged] = run(Scripted((cell,), {cell.name: effect}))
    assert (judged.verdict, judged.quads) == (verdict, 8)
    assert judged.low < effect < judged.high
    assert judged.margin == cell.minimum


def test_a_case_at_the_margin_uses_all_looks() -> None:
    sampler = Scripted((PP,), {"pp64": -0.016}, jitter=0.02)
    [judged] = run(sampler)
    assert (judged.verdict, judged.quads) == (Speed.INCONCLUSIVE, 20)
    assert judged.reason == describe_hidden(judged.low, judged.high)
    assert {quad for _, quad, _ in sampler.calls} == {*range(21)}


def test_what_is_undecided_says_what_it_could_hide() -> None:
    [judged] = run(Scripted((PP,), jitter=0.1))
    assert judged.verdict is Speed.INCONCLUSIVE
    worst = max(-math.expm1(judged.low), math.expm1(judged.high))
    assert judged.reason == f"could hide up to {100 * worst:.1f} %"


def test_the_warm_up_does_not_count() -> None:
    def measure_cold(cell: Cell, call: Call) -> Sample:
        sample = Scripted.measure(sampler, cell, call)
        return replace(sample, value=1e-3) if call == ("B", 0, 1) else sample

    sampler = Scripted()
    [plain] = run(sampler)
    sampler = Scripted()
    sampler.measure = measure_cold  # type: ignore[method-assign]
    seen: list[tuple[Track, int]] = []
    [judged] = run(sampler, on_quad=lambda track, samples: seen.append((track, samples[0].quad)))
    assert judged == plain
    assert sorted(seen) == sorted((t, q) for t in ("step", "control") for q in range(1, 9))


def test_control_runs_among_the_step_and_before_the_first_look() -> None:
    order: list[str] = []
    step = Scripted(hook=lambda call: order.append("step"))
    aa = control(hook=lambda call: order.append("control"))
    compare([PP], step, aa, PLAN, Random(3))
    runs = [len(list(group)) // 4 for _, group in itertools.groupby(order)]
    assert order.count("step") == order.count("control") == 4 * 9
    assert max(runs) <= 3  # a warm-up comes right before its track's first quad
    later = Scripted((PP,), {"pp64": -0.016}, jitter=0.02)
    aa = control()
    compare([PP], later, aa, PLAN, Random(3))
    assert len(later.calls) == 4 * 21
    assert len(aa.calls) == 4 * 9


@given(st.integers(), st.booleans())
def test_schedule_has_every_quad_once_and_control_in_time(seed: int, swapped: bool) -> None:
    rounds = plan_rounds(PLAN, 3, Random(seed), swapped=swapped)
    turns = [turn for turns in rounds for turn in turns]
    for track, count in (("step", 20), ("control", 10)):  # 3 cells need 10 to be refused
        assert sorted(t.quad for t in turns if t.track == track) == [*range(1, count + 1)]
    assert {turn.track for turns in rounds[8:] for turn in turns} == {"step"}
    assert max(map(len, rounds)) <= 3
    assert rounds == plan_rounds(PLAN, 3, Random(seed), swapped=swapped)


def test_step_and_control_take_turns_in_going_first() -> None:
    firsts = [turns[0].track for turns in plan_rounds(PLAN, 1, Random(2))[:8]]
    assert {*firsts} == {"step", "control"}


def test_coins_are_fair() -> None:
    orders = {
        (turn.track, turn.quad, seed): turn.order
        for seed in range(200)
        for turns in plan_rounds(PLAN, 1, Random(seed))
        for turn in turns
    }
    heads = sum(order == "ABBA" for order in orders.values())
    assert abs(heads / len(orders) - 0.5) < 0.03


def test_the_confirming_run_throws_the_opposite_coins() -> None:
    """For the step's quads that holds with fewer cells, so with fewer quads of the control, too."""
    first, second = (
        {t.quad: t.order for turns in rounds for t in turns if t.track == "step"}
        for rounds in (
            plan_rounds(PLAN, 5, Random(4)),
            plan_rounds(PLAN, 1, Random(4), swapped=True),
        )
    )
    assert {*first.values()} == {"ABBA", "BAAB"}
    assert [first[quad] == second[quad] for quad in first] == [False] * 20


def test_a_noisy_control_raises_the_margin() -> None:
    step = Scripted((PP,), {"pp64": -0.1})
    [judged] = compare([PP], step, control(jitter=0.2), PLAN, Random(1))
    assert judged.margin > 0.1
    assert judged.verdict is not Speed.SLOWER
    [calm] = compare([PP], step, control(), PLAN, Random(1))
    assert calm.verdict is Speed.SLOWER


def test_the_floor_is_the_interval_or_the_centre() -> None:
    even = [0.04, -0.04, 0.03, -0.03, 0.02, -0.02, 0.01, -0.01]
    assert measure_floor(even, 0.05) == hodges_lehmann(even, 0.05).half_width > 0.02
    aside = [0.03 + x / 100 for x in even]
    assert measure_floor(aside, 0.05) == pytest.approx(0.03, abs=1e-3)
    assert measure_floor([0.01] * 5, 0.05) == math.inf


def test_a_control_that_differs_makes_every_cell_invalid() -> None:
    cells = (PP, TG)
    aa = control(cells=cells, effects={"tg16": 0.03})
    judged = compare(cells, Scripted(cells, {"pp64": -0.1}), aa, PLAN, Random(1))
    assert [one.verdict for one in judged] == [Speed.INVALID] * 2
    for one in judged:
        assert "own copy differ by +3.0" in one.reason
        assert "tg16" in one.reason


@pytest.mark.parametrize("cells", [1, 4, 20])
def test_any_number_of_cells_can_be_found_unfit(cells: int) -> None:
    many = [Cell("tool", f"cell{i}", "t/s", 0.02) for i in range(cells)]
    aa = control(cells=many, effects={"cell0": 0.5})
    judged = compare(many, Scripted(many), aa, PLAN, Random(1))
    assert {one.verdict for one in judged} == {Speed.INVALID}


def test_one_odd_control_among_many_is_chance() -> None:
    odd = [0.01 * i for i in range(1, 9)]
    even = [(-1) ** i * 0.01 * i for i in range(1, 9)]
    assert find_unfit({"a": odd}, 0.01)
    assert not find_unfit({"a": odd, "b": even, "c": even}, 0.01)


def test_a_decided_cell_keeps_its_verdict_while_the_process_goes_on() -> None:
    cells = (PP, TG, OP)
    effects = {"pp64": 0.0, "tg16": -0.021}

    class Mixed(Scripted):
        def measure(self, cell: Cell, call: Call) -> Sample:
            self.jitter = 0.02 if cell is TG else 0.001
            return super().measure(cell, call)

    aa = control(cells=cells)
    judged = compare(cells, Mixed(cells, effects), aa, PLAN, Random(1))
    assert [one.quads for one in judged] == [8, 20, 8]
    assert [one.cell for one in judged] == [*cells]


def test_differences_that_holm_would_take_back_are_measured_longer() -> None:
    [alone] = run(Scripted((PP,), {"pp64": -0.1}))
    [one_of_ten] = run(Scripted((PP,), {"pp64": -0.1}), Plan(family=10))
    assert (alone.quads, one_of_ten.quads) == (8, 14)
    rest = [replace(alone, cell=replace(PP, name=str(i)), verdict=Speed.SAME) for i in range(9)]
    rest = [replace(one, p=1.0) for one in rest]
    assert correct([one_of_ten, *rest])[0].verdict is Speed.SLOWER
    taken = correct([alone, *rest])[0]
    assert taken.verdict is Speed.INCONCLUSIVE
    assert "SLOWER not upheld, one of 10 cells (Holm: p = 0.23)" in taken.reason


def test_holm_leaves_other_verdicts_and_counts_only_what_was_measured() -> None:
    slower = Judged(PP, Speed.SLOWER, -0.1, -0.2, -0.05, 8, 0.02, p=0.02)
    others = [Judged(TG, verdict) for verdict in (Speed.IDENTICAL, Speed.INVALID)]
    assert correct([slower, *others]) == [slower, *others]
    same = Judged(OP, Speed.SAME, p=1.0)
    assert correct([slower, same], 0.05)[0] == slower
    judged = correct([slower, same, same], 0.05)
    assert [one.verdict for one in judged] == [Speed.INCONCLUSIVE, Speed.SAME, Speed.SAME]


@given(st.floats(-0.1, 0.1), st.floats(0.001, 0.05))
def test_swapped_arms_give_the_mirrored_verdict(effect: float, jitter: float) -> None:
    class Mirror(Scripted):
        def measure(self, cell: Cell, call: Call) -> Sample:
            there = Scripted.measure(self, cell, call)
            return replace(there, value=1e4 / there.value)

    [there] = run(Scripted((PP,), {"pp64": effect}, jitter))
    [back] = run(Mirror((PP,), {"pp64": effect}, jitter))
    assert back.verdict is MIRROR.get(there.verdict, there.verdict)
    assert back.center == pytest.approx(-there.center, abs=1e-9)
    assert (back.p, back.quads) == (there.p, there.quads)


def test_more_cells_than_the_looks_can_tell_apart_are_refused() -> None:
    assert run(Scripted((PP,), {"pp64": -0.1}), Plan(looks=(8,), family=6))[0].verdict is (
        Speed.SLOWER
    )
    with pytest.raises(UsageError, match="7 cells"):
        run(Scripted(), Plan(looks=(8,), family=7))
