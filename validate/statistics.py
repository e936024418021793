"""The statistics of a paired comparison: exact, deterministic, without a library.

A sample is one process. Samples come in quads (ABBA or BAAB), so that a linear drift of the
logarithms cancels exactly; a quad gives one difference of logarithms. The estimate is the
Hodges-Lehmann median of the Walsh averages, its interval the inversion of the exact Wilcoxon
signed-rank test (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3rd ed., 3.1-3.3).
Unlike a bootstrap it gives the same answer for the same data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median


@dataclass(frozen=True)
class Estimate:
    """A relative effect in natural logarithms: centre, interval, number of quads.

    Positive means that B is faster. The interval is infinite where there are too few quads.
    """

    center: float
    low: float
    high: float
    quads: int

    @property
    def percent(self) -> float:
        """The centre as a change in per cent."""
        return 100 * math.expm1(self.center)

    @property
    def worst(self) -> float:
        """The largest change, in either direction, that the interval does not exclude (log)."""
        return max(abs(self.low), abs(self.high))

    @property
    def half_width(self) -> float:
        """Half the interval (log)."""
        return (self.high - self.low) / 2


def quad_difference(order: str, samples: Sequence[float]) -> float:
    """One quad's difference B - A of logarithms.

    `order` is "ABBA" or "BAAB", `samples` are the four positive speeds in order of running.
    """
    assert sorted(order) == ["A", "A", "B", "B"], order
    assert order == order[::-1], "only a symmetric order cancels a linear drift"
    signs = (1 if arm == "B" else -1 for arm in order)
    return sum(s * math.log(x) for s, x in zip(signs, samples, strict=True)) / 2


@cache
def signed_rank_counts(n: int) -> tuple[int, ...]:
    """How many of the 2**n sign patterns give each value of the signed-rank statistic."""
    counts = [1]
    for rank in range(1, n + 1):
        longer = [0] * (len(counts) + rank)
        for value, count in enumerate(counts):
            longer[value] += count
            longer[value + rank] += count
        counts = longer
    return tuple(counts)


@cache
def critical_rank(n: int, alpha: float) -> int:
    """The largest k with P(W <= k - 1) <= alpha / 2; 0 where n is too small for alpha."""
    total = 0
    for k, count in enumerate(signed_rank_counts(n)):
        total += count
        if 2 * total > alpha * 2**n:
            return k
    return 0


@cache
def quads_needed(alpha: float) -> int:
    """The smallest number of differences whose interval at `alpha` is finite."""
    return next(n for n in range(1, 1000) if critical_rank(n, alpha))


def walsh_averages(differences: Sequence[float]) -> list[float]:
    """The sorted means of all pairs, each difference with itself included: n (n + 1) / 2."""
    return sorted((a + b) / 2 for i, a in enumerate(differences) for b in differences[i:])


def hodges_lehmann(differences: Sequence[float], alpha: float) -> Estimate:
    """The median shift of paired differences and its exact (1 - alpha) interval.

    Without differences: 0 and the infinite interval.
    """
    walsh = walsh_averages(differences)
    center = median(walsh) if walsh else 0.0
    k = critical_rank(len(differences), alpha)
    low, high = (walsh[k - 1], walsh[-k]) if k else (-math.inf, math.inf)
    return Estimate(center, low, high, len(differences))


def signed_rank_p(differences: Sequence[float]) -> float:
    """The exact two-sided p-value of "no shift": at most alpha just if the interval excludes 0.

    The statistic is the number of Walsh averages on the smaller side of 0, which is the signed-rank
    sum (Tukey). Zeros and ties of opposite sign count on both sides: exact without them,
    conservative with them.
    """
    walsh = walsh_averages(differences)
    lower = min(sum(w <= 0 for w in walsh), sum(w >= 0 for w in walsh))
    n = len(differences)
    return min(1.0, 2 * sum(signed_rank_counts(n)[: lower + 1]) / (1 << n))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's adjusted p-values of one family of cells (Scand. J. Statist. 6, 1979, 65-70)."""
    ordered = sorted(p_values.items(), key=lambda item: item[1])
    adjusted: dict[str, float] = {}
    highest = 0.0
    for index, (name, p) in enumerate(ordered):
        highest = max(highest, min(1.0, p * (len(ordered) - index)))
        adjusted[name] = highest
    return adjusted
