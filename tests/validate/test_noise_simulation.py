"""Small seeded simulations of the method. Large: `nox -s bench -- --only statistics`."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice, pairwise
from random import Random
from statistics import fmean, pstdev

import pytest

from validate.bench_statistics import (
    Outcome,
    bench_statistics,
    covers,
    list_figures,
    plan_for,
    run_session,
    simulate,
)
from validate.cells import Cell, Speed
from validate.noise import (
    MODELS,
    Noise,
    SimulatedSampler,
    mann_whitney_p,
    run_blocked,
    run_machine,
    student_p,
    welch_p,
)

TRIALS = 120
QUIET, SHARED, LONG, NOISY = MODELS


@pytest.fixture(scope="module", params=MODELS, ids=lambda noise: noise.name)
def outcome(request: pytest.FixtureRequest) -> Outcome:
    return simulate(request.param, TRIALS)


def test_false_alarms_and_misses_keep_their_bounds(outcome: Outcome) -> None:
    assert outcome.alarms <= 0.05
    assert outcome.misses <= 0.10
    assert outcome.verdicts.get(Speed.SAME, 0) > 0.5  # it does say something
    assert outcome.verdicts.get(Speed.INVALID, 0) <= 0.04
    assert 8 <= outcome.quads <= 20


def test_blocked_runs_give_many_more_false_alarms(outcome: Outcome) -> None:
    for rate in outcome.blocked_alarms.values():
        assert rate > 0.15
        assert rate > 5 * outcome.alarms


@pytest.mark.parametrize("noise", MODELS, ids=lambda noise: noise.name)
def test_interval_covers_on_machines_that_drift(noise: Noise) -> None:
    trials = 800
    covered = sum(covers(noise, f"test {i}") for i in range(trials)) / trials
    # Exact: 0.961 for 8 quads, 0.952 for 20; three standard errors for the number of trials.
    assert covered == pytest.approx(0.956, abs=0.005 + 3 * math.sqrt(0.05 * 0.95 / trials))


def test_an_interval_for_blocked_runs_would_be_seen_to_fail() -> None:
    """The same check with the coin taken out and the arms apart: it can fail."""
    hits = sum(
        abs(fmean(b) - fmean(a)) < 2 * math.sqrt((pstdev(a) ** 2 + pstdev(b) ** 2) / len(a))
        for a, b in (run_blocked(run_machine(LONG, Random(i)), LONG.runs) for i in range(TRIALS))
    )
    assert hits / TRIALS < 0.8


@pytest.mark.parametrize("effect", [-0.3, 0.3])
def test_large_effects_are_found_on_shared_machines(effect: float) -> None:
    wanted = Speed.SLOWER if effect < 0 else Speed.FASTER
    found = [run_session(SHARED, f"large {i}", effect).verdict for i in range(20)]
    assert found.count(wanted) >= 18


def test_a_trial_repeats_itself() -> None:
    assert run_session(NOISY, "x") == run_session(NOISY, "x") != run_session(NOISY, "y")
    assert covers(QUIET, "x") is covers(QUIET, "x")


def test_methods_get_the_same_number_of_runs() -> None:
    assert [plan_for(noise).looks for noise in MODELS] == [(8,), (8,), (8, 14, 20), (8, 14, 20)]


def test_figures_have_the_bounds_of_the_issue() -> None:
    figures = {figure.name: figure for figure in bench_statistics(trials=4)}
    for noise in MODELS:
        assert figures[f"false alarms, {noise.name}"].limit == 5
        assert figures[f"misses at twice the margin, {noise.name}"].limit == 10
        assert figures[f"blocked Welch: false alarms, {noise.name}"].limit is None
    bad = simulate(QUIET, 4)
    bad = replace(bad, verdicts={Speed.FASTER: 0.04, Speed.SLOWER: 0.02}, found={}, covered=0.9)
    assert [(f.value, f.met) for f in list_figures([bad])[:2]] == [(6.0, False), (100.0, False)]
    assert not list_figures([bad])[-1].met


# --- the machine ---


@pytest.mark.parametrize("noise", MODELS, ids=lambda noise: noise.name)
def test_a_machine_has_the_spread_and_the_memory_that_it_says(noise: Noise) -> None:
    calm = replace(noise, spike_rate=0.0)
    series = list(islice(run_machine(calm, Random(1)), 40_000))
    spread = math.hypot(noise.jitter, noise.drift)
    assert pstdev(series) == pytest.approx(spread, rel=0.06)
    pairs = fmean(a * b for a, b in pairwise(series))
    assert pairs == pytest.approx(noise.memory * noise.drift**2, rel=0.15)


def test_spikes_are_rare_and_only_slow() -> None:
    noise = Noise("", jitter=0, drift=0, runs=1, minimum=0, spike_rate=0.1, spike=0.2)
    series = list(islice(run_machine(noise, Random(2)), 20_000))
    spikes = [x for x in series if x != 0]
    assert max(series) == 0
    assert len(spikes) / len(series) == pytest.approx(0.1, rel=0.1)
    assert fmean(spikes) == pytest.approx(-0.2, rel=0.1)


@pytest.mark.parametrize("unit", ["t/s", "us"])
def test_a_simulated_effect_is_one_of_speed(unit: str) -> None:
    cell = Cell("simulation", "cell", unit, 0.02)  # type: ignore[arg-type]
    sampler = SimulatedSampler([cell], iter([0.0, 0.0]), {"cell": math.log(2)})
    a, b = (sampler.sample(arm, 1, i)["cell"] for i, arm in enumerate("AB"))  # type: ignore[arg-type]
    assert b.value / a.value == pytest.approx(2 if unit == "t/s" else 0.5)


# --- the blocked tests; expected values from printed tables ---


@pytest.mark.parametrize(
    ("t", "freedom", "p"),
    [(12.706, 1, 0.05), (2.228, 10, 0.05), (2.845, 20, 0.01), (1.96, 1e6, 0.05), (0.0, 5, 1.0)],
)
def test_student(t: float, freedom: float, p: float) -> None:
    assert student_p(t, freedom) == pytest.approx(p, abs=2e-4)
    assert student_p(-t, freedom) == student_p(t, freedom)


def test_welch_by_hand() -> None:
    a, b = [1.0, 2.0, 3.0, 4.0, 5.0], [3.0, 4.0, 5.0, 6.0, 7.0]
    assert welch_p(a, b) == pytest.approx(0.0805, abs=1e-3)  # t = 2, 8 degrees of freedom
    assert welch_p(a, b) == pytest.approx(welch_p(b, a))


def test_mann_whitney_by_hand() -> None:
    a, b = [float(i) for i in range(8)], [float(i) for i in range(100, 108)]
    # U = 0 of 64: z = (32 - 0.5) / sqrt(64 * 17 / 12) = 3.308
    assert mann_whitney_p(a, b) == pytest.approx(0.00094, abs=2e-5)
    assert mann_whitney_p(b, a) == mann_whitney_p(a, b)
    mixed = [float(i) for i in range(0, 16, 2)], [float(i) for i in range(1, 17, 2)]
    assert mann_whitney_p(*mixed) > 0.6


@pytest.mark.parametrize("test", [mann_whitney_p, welch_p])
def test_blocked_tests_are_sound_without_drift(test) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    still = replace(SHARED, drift=0.0, spike_rate=0.0)
    alarms = sum(test(*run_blocked(run_machine(still, Random(i)), 16)) <= 0.05 for i in range(800))
    assert 0.03 < alarms / 800 < 0.07
