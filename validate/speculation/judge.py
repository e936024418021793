"""Pairwise comparison of arms, the ranking line and what to choose.

`=`: the interval of the ratio holds no difference beyond the margin; `>>`: more than 25 %, the
whole interval; `>`: faster, the interval excludes 0; `?`: not decided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from upstream.errors import InvalidMeasurement
from validate.cells import Cell, Judged, Speed
from validate.comparison import agree, correct, judge
from validate.speculation.client import total_speed
from validate.speculation.measure import Taken
from validate.statistics import Estimate, hodges_lehmann, quads_needed, signed_rank_p

ALPHA = 0.05
FAR = math.log(1.25)
NONE = "none"
CHOICES = ("good", "usable", "terrible", "undecided")
# Speeds of a conversation, by arm, block and position.
Speeds = Mapping[str, Mapping[tuple[int, int], float]]


@dataclass(frozen=True)
class Pair:
    """`first` against `second`: positive means that `first` is faster."""

    first: str
    second: str
    judged: Judged
    sign: str

    @property
    def verdict(self) -> Speed:
        return self.judged.verdict


@dataclass(frozen=True)
class Ranking:
    """Arms of one conversation, the fastest first, with what stands between neighbours."""

    conversation: str
    arms: tuple[str, ...]
    speeds: Mapping[str, float]
    signs: tuple[str, ...]
    adaptive: tuple[Pair, ...]
    good: tuple[str, ...]
    usable: tuple[str, ...]
    terrible: tuple[str, ...]
    undecided: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """`a = b > c >> d`."""
        rest = zip(self.signs, self.arms[1:], strict=True)
        return " ".join([self.arms[0], *(f"{sign} {arm}" for sign, arm in rest)])


def gather_speeds(
    taken: Sequence[Taken], conversation: str
) -> dict[str, dict[tuple[int, int], float]]:
    """Tok/s of a whole conversation, summed over slots: tokens over the server's own time."""
    found: dict[str, dict[tuple[int, int], float]] = {}
    for each in taken:
        speed = sum(total_speed([talk]) for talk in each.turns[conversation])
        found.setdefault(each.arm, {})[each.key] = speed
    return found


def compare_pair(speeds: Speeds, first: str, second: str, margin: float) -> Pair:
    """The two arms over all blocks; `margin` is relative (0.02: 2 %)."""
    differences = list(map(math.log, _ratios(speeds[first], speeds[second])))
    estimate = hodges_lehmann(differences, ALPHA)
    limit = math.log1p(margin)
    judged = Judged(
        Cell("llama-server", f"{first} against {second}", "t/s", margin),
        judge(estimate, limit),
        estimate.center,
        estimate.low,
        estimate.high,
        estimate.quads,
        limit,
        signed_rank_p(differences),
    )
    return Pair(first, second, judged, choose_sign(estimate, limit))


def _ratios(
    first: Mapping[tuple[int, int], float], second: Mapping[tuple[int, int], float]
) -> list[float]:
    blocks = sorted({block for block, _ in first})
    if first.keys() != second.keys() or first.keys() != {(b, p) for b in blocks for p in (0, 1)}:
        raise InvalidMeasurement("the blocks of two arms are not complete")
    # The geometric mean of a mirrored pair of positions: a linear drift cancels.
    return [math.sqrt(first[b, 0] * first[b, 1] / (second[b, 0] * second[b, 1])) for b in blocks]


def choose_sign(estimate: Estimate, margin: float) -> str:
    """What stands between a faster and a slower arm."""
    if -margin < estimate.low and estimate.high < margin:
        return "="
    if estimate.low > FAR:
        return ">>"
    return ">" if estimate.low > 0 else "?"


def rank(taken: Sequence[Taken], conversation: str, margin: float) -> Ranking:
    """Order the arms by their median speed and compare neighbours, and adaptive with each."""
    speeds = gather_speeds(taken, conversation)
    middle = {arm: median(found.values()) for arm, found in speeds.items()}
    arms = sorted(middle, key=lambda arm: -middle[arm])
    signs = tuple(compare_pair(speeds, a, b, margin).sign for a, b in pairwise(arms))
    adaptive = [compare_pair(speeds, *pair, margin) for pair in list_pairs(arms)]
    choices = sort_choices(speeds, arms, margin)
    kinds = {kind: tuple(arm for arm in arms if choices[arm] == kind) for kind in CHOICES}
    return Ranking(conversation, tuple(arms), middle, signs, tuple(adaptive), **kinds)


def list_pairs(arms: Sequence[str]) -> list[tuple[str, str]]:
    """What is judged: adaptive with each fixed length of its drafter and with no speculation."""
    return [
        (mine, other)
        for mine in arms
        if is_adaptive(mine)
        for other in arms
        if other == NONE or (other != mine and drafter_of(other) == drafter_of(mine))
    ]


def blocks_needed(arms: Sequence[str], conversations: int) -> int:
    """The fewest blocks after which Holm's correction can uphold a difference."""
    return quads_needed(ALPHA / max(1, conversations * len(list_pairs(arms))))


def correct_rankings(rankings: Sequence[Ranking]) -> list[Ranking]:
    """Holm over what adaptive is compared with, in all conversations of a run."""
    corrected = iter(correct([pair.judged for one in rankings for pair in one.adaptive], ALPHA))
    return [_with_judged(one, [next(corrected) for _ in one.adaptive]) for one in rankings]


def list_doubted(rankings: Sequence[Ranking]) -> set[str]:
    """The arms of every comparison in which adaptive is SLOWER: a second run has to agree."""
    pairs = [pair for one in rankings for pair in one.adaptive if pair.verdict is Speed.SLOWER]
    return {arm for pair in pairs for arm in (pair.first, pair.second)}


def confirm_ranking(ranking: Ranking, again: Sequence[Taken], margin: float) -> Ranking:
    """What was SLOWER stays so only if the second run agrees."""
    speeds = gather_speeds(again, ranking.conversation)
    judged = [
        agree(pair.judged, compare_pair(speeds, pair.first, pair.second, margin).judged)
        if pair.verdict is Speed.SLOWER
        else pair.judged
        for pair in ranking.adaptive
    ]
    return _with_judged(ranking, judged)


def _with_judged(ranking: Ranking, judged: Sequence[Judged]) -> Ranking:
    pairs = zip(ranking.adaptive, judged, strict=True)
    return replace(ranking, adaptive=tuple(replace(pair, judged=one) for pair, one in pairs))


def sort_choices(speeds: Speeds, arms: Sequence[str], margin: float) -> dict[str, str]:
    """What to do with each arm, the fastest first: one of CHOICES.

    Good: the fastest and its equals. Terrible: more than 25 % behind it, or slower than no
    speculation. Undecided: nothing is shown against the fastest.
    """
    found = {arms[0]: "good"}
    for arm in arms[1:]:
        behind = compare_pair(speeds, arms[0], arm, margin)
        lost = NONE in speeds and compare_pair(speeds, arm, NONE, margin).verdict is Speed.SLOWER
        kind = {"=": "good", ">>": "terrible", ">": "usable"}.get(behind.sign, "undecided")
        found[arm] = "terrible" if lost and kind != "good" else kind
    return found


def is_adaptive(arm: str) -> bool:
    return arm.endswith(" adaptive")


def drafter_of(arm: str) -> str:
    """The drafter in the name of an arm."""
    return arm.rpartition(" ")[0]
