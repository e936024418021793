"""The exact statistics against brute force over all sign patterns, and their properties."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, product
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validate.statistics import (
    critical_rank,
    hodges_lehmann,
    holm,
    quad_difference,
    quads_needed,
    signed_rank_counts,
    signed_rank_p,
    walsh_averages,
)

ALPHAS = (0.05, 0.05 / 3, 0.01, 0.2, 2**-7)  # the last one is used up exactly by 8 quads
# Whole numbers: sums, halves and doubles of them are exact, so equality means equality.
whole = st.integers(-10_000, 10_000).map(float)
differences = st.lists(whole, min_size=1, max_size=12)
alphas = st.sampled_from(ALPHAS)


def rank_sums(n: int) -> list[int]:
    """The signed-rank statistic of every sign pattern, by definition."""
    patterns = product((0, 1), repeat=n)
    return [sum(rank for rank, sign in enumerate(signs, 1) if sign) for signs in patterns]


@pytest.mark.parametrize("n", range(13))
def test_counts_are_those_of_all_patterns(n: int) -> None:
    counted = Counter(rank_sums(n))
    assert signed_rank_counts(n) == tuple(counted[value] for value in range(max(counted) + 1))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", range(1, 13))
def test_critical_rank_is_the_largest_that_keeps_alpha(n: int, alpha: float) -> None:
    sums = rank_sums(n)

    def error(k: int) -> float:
        return 2 * sum(value <= k - 1 for value in sums) / 2**n

    k = critical_rank(n, alpha)
    assert error(k) <= alpha < error(k + 1)


def test_critical_ranks_of_the_specification() -> None:
    assert [critical_rank(n, 0.05) for n in (5, 6, 7, 8, 10, 20)] == [0, 1, 3, 4, 9, 53]
    assert (quads_needed(0.05), quads_needed(0.05 / 3)) == (6, 7)
    assert critical_rank(0, 0.05) == 0


@pytest.mark.parametrize("n", [1, 2, 5, 8, 11])
def test_p_is_the_share_of_patterns_at_least_as_extreme(n: int) -> None:
    sizes = [1.0 + 1.7**i for i in range(n)]  # no ties among the Walsh averages
    sums = rank_sums(n)
    for signs in list(product((-1, 1), repeat=n))[:: max(1, 2**n // 64)]:
        data = [sign * size for sign, size in zip(signs, sizes, strict=True)]
        positive = sum(rank for rank, x in enumerate(data, 1) if x > 0)
        extreme = min(positive, n * (n + 1) // 2 - positive)
        expected = min(1.0, 2 * sum(value <= extreme for value in sums) / 2**n)
        assert signed_rank_p(data) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [6, 8, 10])
def test_interval_misses_as_often_as_it_says(n: int, alpha: float) -> None:
    """Coverage over all coins of one set of sizes: exact, not simulated."""
    sizes = [1.0 + 1.7**i for i in range(n)]
    missed = 0
    for signs in product((-1, 1), repeat=n):
        estimate = hodges_lehmann([s * x for s, x in zip(signs, sizes, strict=True)], alpha)
        missed += estimate.low > 0 or estimate.high < 0
    allowed = 2 * sum(signed_rank_counts(n)[: critical_rank(n, alpha)])
    assert missed == allowed
    assert missed <= alpha * 2**n


@given(st.lists(whole, min_size=6, max_size=9), st.sampled_from((0.05, 0.2)))
def test_ties_and_zeros_never_make_the_error_larger(sizes: list[float], alpha: float) -> None:
    sizes = [abs(x) % 3 for x in sizes]
    patterns = list(product((-1, 1), repeat=len(sizes)))
    small = sum(
        signed_rank_p([s * x for s, x in zip(signs, sizes, strict=True)]) <= alpha
        for signs in patterns
    )
    assert small <= alpha * len(patterns)


@given(differences, alphas)
def test_p_and_interval_say_the_same(data: list[float], alpha: float) -> None:
    estimate = hodges_lehmann(data, alpha)
    assert (signed_rank_p(data) <= alpha) is (estimate.low > 0 or estimate.high < 0)


@given(differences)
def test_estimate_is_the_median_of_pairwise_means(data: list[float]) -> None:
    pairs = [(a + b) / 2 for a, b in combinations(data, 2)] + data
    assert hodges_lehmann(data, 0.05).center == median(pairs)
    assert walsh_averages(data) == sorted(pairs)


@given(differences, whole, alphas)
def test_shifted_data_shift_the_estimate(data: list[float], shift: float, alpha: float) -> None:
    before, after = hodges_lehmann(data, alpha), hodges_lehmann([x + shift for x in data], alpha)
    assert (after.low, after.center, after.high) == (
        before.low + shift,
        before.center + shift,
        before.high + shift,
    )


@given(differences, alphas)
def test_swapped_arms_mirror_the_estimate(data: list[float], alpha: float) -> None:
    before, after = hodges_lehmann(data, alpha), hodges_lehmann([-x for x in data], alpha)
    assert (after.low, after.center, after.high) == (-before.high, -before.center, -before.low)
    assert signed_rank_p(data) == signed_rank_p([-x for x in data])


@given(differences, st.sampled_from((0.25, 2.0, 1024.0)), alphas)
def test_scaled_data_scale_the_estimate(data: list[float], scale: float, alpha: float) -> None:
    before, after = hodges_lehmann(data, alpha), hodges_lehmann([scale * x for x in data], alpha)
    assert (after.center, after.half_width) == (scale * before.center, scale * before.half_width)
    assert signed_rank_p(data) == signed_rank_p([scale * x for x in data])


@given(differences.flatmap(lambda data: st.tuples(st.just(data), st.permutations(data))), alphas)
def test_order_of_quads_does_not_matter(
    both: tuple[list[float], list[float]], alpha: float
) -> None:
    data, shuffled = both
    assert hodges_lehmann(data, alpha) == hodges_lehmann(shuffled, alpha)
    assert signed_rank_p(data) == signed_rank_p(shuffled)


@given(differences, st.integers(0, 11), st.integers(0, 10_000), alphas)
def test_a_larger_difference_never_lowers_the_estimate(
    data: list[float], index: int, more: int, alpha: float
) -> None:
    larger = list(data)
    larger[index % len(data)] += more
    before, after = hodges_lehmann(data, alpha), hodges_lehmann(larger, alpha)
    assert after.center >= before.center
    assert after.low >= before.low
    assert after.high >= before.high


@given(st.lists(whole, min_size=8, max_size=12))
def test_interval_holds_its_centre_and_grows_with_certainty(data: list[float]) -> None:
    wide, narrow = hodges_lehmann(data, 0.01), hodges_lehmann(data, 0.2)
    assert wide.low <= narrow.low <= narrow.center <= narrow.high <= wide.high
    assert wide.worst == max(abs(wide.low), abs(wide.high))


def test_too_few_quads_exclude_nothing() -> None:
    for data in ([], [1.0], [1.0] * 5):
        estimate = hodges_lehmann(data, 0.05)
        assert (estimate.low, estimate.high, estimate.quads) == (-math.inf, math.inf, len(data))
        assert estimate.half_width == math.inf
    assert hodges_lehmann([], 0.05).center == 0
    assert signed_rank_p([]) == 1
    assert hodges_lehmann([math.log(1.5)], 0.05).percent == pytest.approx(50)


def test_one_wild_quad_does_not_move_the_estimate() -> None:
    assert abs(hodges_lehmann([0.01, 0.02, 0.03, 0.02, 0.01, 0.03, 0.02, -9.0], 0.05).center) < 0.03


speeds = st.lists(st.floats(1e-3, 1e6), min_size=4, max_size=4)
orders = st.sampled_from(("ABBA", "BAAB"))


@given(orders, speeds, st.floats(-0.5, 0.5), st.floats(-0.1, 0.1))
def test_linear_drift_of_a_quad_cancels(
    order: str, still: list[float], effect: float, drift: float
) -> None:
    drifting = [x * math.exp(drift * i) for i, x in enumerate(still)]
    assert quad_difference(order, drifting) == pytest.approx(
        quad_difference(order, still), abs=1e-9
    )
    faster = [
        x * math.exp(effect if arm == "B" else 0) for arm, x in zip(order, still, strict=True)
    ]
    assert quad_difference(order, faster) == pytest.approx(
        quad_difference(order, still) + effect, abs=1e-9
    )


@given(speeds, st.floats(0.01, 100))
def test_quad_difference_mirrors_with_the_arms_and_ignores_the_unit(
    values: list[float], unit: float
) -> None:
    there, back = (quad_difference(order, values) for order in ("ABBA", "BAAB"))
    assert there == -back
    scaled = quad_difference("ABBA", [unit * x for x in values])
    assert scaled == pytest.approx(there, abs=1e-9)


def test_quad_difference_by_hand() -> None:
    assert quad_difference("ABBA", [1, 2, 8, 4]) == pytest.approx(math.log(2))
    for order in ("AABB", "ABAB", "ABB", "ABBB"):
        with pytest.raises(AssertionError):
            quad_difference(order, [1.0] * len(order))
    with pytest.raises(ValueError):
        quad_difference("ABBA", [1.0] * 5)


p_values = st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0, 1), max_size=8)


@given(p_values, st.sampled_from((0.01, 0.05, 0.3)))
def test_holm_rejects_as_the_step_down_rule_does(family: dict[str, float], alpha: float) -> None:
    rejected: set[str] = set()
    for tested, (name, p) in enumerate(sorted(family.items(), key=lambda item: item[1])):
        if p * (len(family) - tested) > alpha:
            break
        rejected.add(name)
    adjusted = holm(family)
    assert {name for name, p in adjusted.items() if p <= alpha} == rejected
    assert all(family[name] <= adjusted[name] <= 1 for name in family)


def test_holm_by_hand() -> None:
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert holm({}) == {}
