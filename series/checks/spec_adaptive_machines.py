"""Machines and content for the controller of adaptive draft lengths: what a round takes and gives.

Times are in milliseconds, acceptance is a rate for each position. Both are known exactly here, so
that a length's goodput is exact too.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

N_MAX: Final = 7
JAGGED: Final = (84.0, 87.0, 91.0, 102.0, 107.0, 117.0, 126.0, 134.0)

Rates: TypeAlias = tuple[float, ...]


@dataclass(frozen=True)
class Machine:
    """Milliseconds: of a batch by width (its last step goes on), of drafting (flat, per token)."""

    name: str
    verify: tuple[float, ...]
    flat: float
    step: float

    def batch(self, width: int) -> float:
        """Give the time of a batch of this width."""
        last, before = self.verify[-1], self.verify[-2]
        if width <= len(self.verify):
            return self.verify[width - 1]
        return last + (width - len(self.verify)) * (last - before)

    def goodput(self, rates: Sequence[Rates], lengths: Sequence[int]) -> float:
        """Give the expected tokens per second of slots with these rates and draft lengths."""
        longest = max(lengths)
        drafting = self.flat + self.step * longest if longest else 0.0
        time = drafting + self.batch(sum(lengths) + len(lengths))
        return 1000 * sum(map(expected, rates, lengths)) / time

    def best_fixed(self, rates: Sequence[Rates], n_max: int = N_MAX) -> float:
        """Give the goodput of the best length that is the same for all slots."""
        return max(self.goodput(rates, [n] * len(rates)) for n in range(n_max + 1))


def expected(rates: Rates, length: int) -> float:
    """Count the expected tokens of a round; the last rate goes on."""
    reached = itertools.accumulate((*rates, *[rates[-1]] * length)[:length], lambda a, b: a * b)
    return 1 + math.fsum(reached)


# The first is a published table of a 27B model on a Strix Halo (1 to 8 tokens).
MACHINES: Final = (
    Machine("jagged, cheap drafter", JAGGED, 0, 5),
    Machine("jagged, block drafter", JAGGED, 12, 0.2),
    Machine("cliff above 8", (25.2, 25.3, 25.2, 26.2, 28.3, 32.1, 36.0, 40.1, 70.0), 0, 1.2),
    Machine("steps of 4", (30.0, 45.0, 46.0, 47.0, 90.0, 91.0, 92.0, 93.0), 0, 2),
    Machine("drafter as slow as its target", (8.0, 13.0, 18.0, 23.0, 28.0, 33.0, 38.0, 43.0), 0, 9),
    Machine("compute bound", (8.0, 13.0, 18.0, 23.0, 28.0, 33.0, 38.0, 43.0), 0.3, 0.7),
    Machine("memory bound", (20.0, 20.5, 21.0, 21.5, 22.0, 22.5, 23.0, 23.5), 0, 1),
)
# 27B on an H200 with Vulkan: more than 8 tokens take another kernel. It compiles what it runs for
# the first time, for about 30 rounds (docs/evidence/speculation/h200).
COLD: Final = Machine(
    "cold GPU",
    (14.3, 15.7, 21.3, 28.3, 38.7, 37.5, 46.6, 51.6, 94, 140, 170, 165, 162, 180, 200, 222),
    10,
    0,
)
STALL: Final = 30


def recorded(name: str, speeds: Sequence[float], flat: float, step: float) -> Machine:
    """Give the machine on which fixed lengths at acceptance .95 had these speeds (tok/s)."""
    times = [1000 * expected((0.95,), n) / speed for n, speed in enumerate(speeds)]
    drafting = [0.0, *(flat + step * n for n in range(1, len(times)))]
    batches = tuple(a - b for a, b in zip(times, drafting, strict=True))
    return Machine(name, batches, flat, step)


# Contests on two cores (docs/evidence/speculation/cpu); what of a round is drafting is a guess.
TWO_TOPS: Final = (
    recorded("two tops, dflash", (230, 267, 290, 257, 269, 276, 284, 326), 1.2, 0),
    recorded("two tops, mtp", (269, 322, 339, 284, 290, 301, 307, 351), 0.2, 0.25),
)
# Whole rounds of the same servers at the start of a text, and with drafts that pay less.
ROUNDS: Final = (
    Machine("rounds, mtp", (3.3, 5.9, 7.3, 8.7, 11.3, 13.2, 15.2, 17.2), 0.25, 0.22),
    Machine("rounds, dflash", (3.35, 6.4, 7.8, 9.1, 11.8, 13.8, 15.6, 17.6), 0.75, 0.2),
    Machine("slow rounds, mtp", (3.3, 6.2, 7.9, 9.6, 12.4, 14.4, 16.4, 18.4), 0.25, 0.22),
    Machine("slow rounds, dflash", (3.35, 6.7, 8.3, 9.9, 12.6, 14.6, 16.6, 18.6), 0.75, 0.2),
)
# 27B on an H200 with Vulkan and a block drafter; 9, 11, 13 and 14 are guesses.
# A new width stalls once: its pipelines are compiled then.
DENSE: Final = recorded(
    "dense 27B",
    (70, 73, 86, 103, 104, 120, 113, 103, 78, 90, 101, 106, 112, 95, 78, 61),
    10,
    0,
)
FIRST_USE: Final = 1750.0

MTP: Final = (0.75, 0.62, 0.5, 0.42, 0.36, 0.3, 0.26)  # all of the first i accepted
PROFILES: Final[dict[str, Rates]] = {f"p={p}": (p,) for p in (0.0, 0.3, 0.5, 0.7, 0.85, 0.95)} | {
    "mtp": tuple(b / a for a, b in itertools.pairwise((1.0, *MTP))),
    "steep": MTP,
}
