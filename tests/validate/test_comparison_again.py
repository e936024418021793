"""Going on after an interruption, and the second run that has to agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import PP, TG, Call, Scripted

from validate.cells import Arm, Cell, Judged, Sample, Speed
from validate.comparison import Plan, Track, compare, confirm
from validate.quads import complete_quads

PLAN = Plan()
CELLS = (PP, TG)
# One cell is decided early, the other is not, so that all looks are used.
EFFECTS = {"pp64": -0.1, "tg16": -0.025}


class Recorder:
    """Keeps every sample as it comes, as the database does; dies at process number `limit`."""

    def __init__(self, limit: int = 10**9) -> None:
        self.limit = limit
        self.kept: dict[Track, list[Sample]] = {"step": [], "control": []}
        self.processes = 0

    def go(self, plan: Plan = PLAN) -> list[Judged]:
        known = {track: list(samples) for track, samples in self.kept.items()}
        step = Recorded(CELLS, EFFECTS, jitter=0.015, recorder=self, track="step")
        control = Recorded(CELLS, jitter=0.015, seed="control", recorder=self, track="control")
        return compare(CELLS, step, control, plan, Random(7), known=known)


@dataclass
class Recorded(Scripted):
    """A sampler that dies before, never within, what is kept."""

    recorder: Recorder = field(default_factory=Recorder)
    track: Track = "step"

    def sample(self, arm: Arm, quad: int, position: int) -> Mapping[str, Sample]:
        if self.recorder.processes >= self.recorder.limit:
            raise KeyboardInterrupt
        self.recorder.processes += 1
        found = super().sample(arm, quad, position)
        self.recorder.kept[self.track] += found.values()
        return found


WHOLE = Recorder()
EXPECTED = WHOLE.go()


def test_the_example_uses_all_looks() -> None:
    assert [one.quads for one in EXPECTED] == [8, 20]
    assert WHOLE.processes == 4 * (21 + 10)  # 2 cells: 9 quads of the control


@settings(max_examples=60)
@given(st.lists(st.integers(0, WHOLE.processes), min_size=1, max_size=4))
def test_interrupted_anywhere_and_often_the_verdict_is_the_same(limits: list[int]) -> None:
    recorder = Recorder()
    for limit in limits:
        recorder.limit = recorder.processes + limit
        try:
            assert recorder.go() == EXPECTED
        except KeyboardInterrupt:
            continue
    recorder.limit = 10**9
    assert recorder.go() == EXPECTED


def test_complete_quads_are_not_measured_again() -> None:
    recorder = Recorder(limit=50)
    with pytest.raises(KeyboardInterrupt):
        recorder.go()
    kept = {track: complete_quads(CELLS, found) for track, found in recorder.kept.items()}
    before = recorder.processes
    recorder.limit = 10**9
    recorder.go()
    done = sum(map(len, kept.values()))
    assert done >= 9
    assert recorder.processes - before == 4 * (20 + 9 - done + 2)  # 2: it has to warm up again
    assert recorder.go() == EXPECTED
    assert recorder.processes - before == 4 * (20 + 9 - done + 2)  # nothing was left to measure


def test_a_cut_off_quad_counts_only_when_it_was_repeated() -> None:
    def sample(position: int, value: float) -> Sample:
        return Sample("pp64", "ABBA"[position], 3, position, value, 2.0)  # type: ignore[arg-type]

    first = [sample(i, 1.0) for i in range(3)]
    again = [sample(i, 2.0 if i in (1, 2) else 1.0) for i in range(4)]
    assert complete_quads([PP], first) == {}
    assert complete_quads([PP], [*first, *again[:3]]) == {}
    [quad] = complete_quads([PP], [*first, *again]).values()
    assert quad.differences["pp64"] == pytest.approx(0.6931471805599453)
    assert quad.seconds == 8
    assert complete_quads([PP, TG], again) == {}
    warm_up = [replace(one, quad=0) for one in again]
    assert complete_quads([PP], warm_up) == {}


def test_time_that_was_spent_before_counts() -> None:
    recorder = Recorder(limit=60)
    with pytest.raises(KeyboardInterrupt):
        recorder.go()
    recorder.limit = 60
    judged = recorder.go(Plan(budget_seconds=30))  # each sample says that it took 1 s
    assert {one.verdict for one in judged} == {Speed.INCONCLUSIVE}


@pytest.mark.parametrize("change", [{"value": -1.0}, {"seconds": -1.0}, {"arm": "A"}])
def test_stored_nonsense_is_invalid(change: dict[str, object]) -> None:
    stored = [replace(s, **change) if s.quad == 2 else s for s in WHOLE.kept["step"]]  # type: ignore[arg-type]
    step, control = Scripted(CELLS), Scripted(CELLS, seed="control")
    judged = compare(CELLS, step, control, PLAN, Random(7), known={"step": stored})
    assert {one.verdict for one in judged} == {Speed.INVALID}
    assert step.calls == control.calls == []


# --- confirm ---


def first_run(effect: float = -0.1) -> list[Judged]:
    step = Scripted(CELLS, {"pp64": effect})
    return compare(CELLS, step, Scripted(CELLS, seed="control"), PLAN, Random(1))


def second_run(
    judged: list[Judged], effect: float, control_effect: float = 0.0
) -> tuple[list[Judged], Scripted]:
    step = Scripted(CELLS, {"pp64": effect}, seed="second")
    control = Scripted(CELLS, {"pp64": control_effect}, seed="second control")
    return confirm(judged, step, control, PLAN, Random(1)), step


def test_a_second_run_that_agrees_keeps_slower() -> None:
    [pp, tg], _ = second_run(first := first_run(), -0.1)
    assert pp.verdict is Speed.SLOWER
    assert pp.reason.startswith("a second run says -9.")
    assert tg == first[1]


def test_a_second_run_that_does_not_agree_leaves_it_open() -> None:
    [pp, tg], _ = second_run(first_run(), 0.0)
    assert pp.verdict is Speed.INCONCLUSIVE
    assert pp.reason.startswith("SLOWER not upheld, a second run says SAME")
    assert "could hide up to" in pp.reason
    assert tg.verdict is Speed.SAME


def test_a_second_run_in_the_other_direction_leaves_it_open() -> None:
    [pp, _], _ = second_run(first_run(), 0.1)
    assert pp.verdict is Speed.INCONCLUSIVE
    assert "says FASTER" in pp.reason


def test_an_unfit_second_run_is_invalid() -> None:
    [pp, tg], _ = second_run(first_run(), -0.1, control_effect=0.1)
    assert pp.verdict is Speed.INVALID
    assert pp.reason.startswith("second run: the machine is unfit")
    assert tg.verdict is Speed.SAME


@pytest.mark.parametrize("effect", [0.0, 0.1])
def test_only_slower_is_measured_again(effect: float) -> None:
    judged, step = second_run(first := first_run(effect), -0.1)
    assert judged == first
    assert step.calls == []


def test_the_second_run_asks_with_the_margin_of_the_first() -> None:
    [first] = compare([PP], Scripted((PP,), {"pp64": -0.1}), Scripted(), PLAN, Random(1))
    noisy = Scripted((PP,), jitter=0.3, seed="control")  # its own floor would hide everything
    [judged] = confirm([first], Scripted((PP,), {"pp64": -0.1}), noisy, PLAN, Random(1))
    assert judged.verdict is Speed.SLOWER


def test_the_second_run_need_not_pass_holm_again() -> None:
    plan = Plan(family=10)
    [first] = compare([PP], Scripted((PP,), {"pp64": -0.1}), Scripted(), plan, Random(1))
    step = Scripted((PP,), {"pp64": -0.1}, seed="second")
    [judged] = confirm([first], step, Scripted(seed="control"), plan, Random(1))
    assert (first.quads, judged.verdict) == (14, Speed.SLOWER)
    assert len(step.calls) == 4 * 9


class Heads(Random):
    """A coin that always falls the same way."""

    def random(self) -> float:
        return 0.1


def test_an_effect_of_the_order_does_not_confirm_itself() -> None:
    class FirstIsFast(Scripted):
        def measure(self, cell: Cell, call: Call) -> Sample:
            found = super().measure(cell, call)
            return replace(found, value=found.value * (1.1 if call[2] in (0, 3) else 1))

    first = compare([PP], FirstIsFast(), Scripted(seed="control"), PLAN, Heads())
    assert first[0].verdict is Speed.SLOWER
    [judged] = confirm(first, FirstIsFast(), Scripted(seed="control"), PLAN, Heads())
    assert judged.verdict is Speed.INCONCLUSIVE
