"""Simulated machines: what the method is tested on, and the usual blocked comparison beside it.

The noise of shared/facts/validation.md 1.3: a slow drift that neighbours share (AR(1)), jitter from
run to run, rare slow spikes. A model, not a measurement of any machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import NormalDist, fmean, variance

from validate.cells import Arm, Cell, Sample

SECONDS = 1.0  # what a simulated process takes


@dataclass(frozen=True)
class Noise:
    """A machine: standard deviations as parts of 1, in logarithms of speed.

    drift: of the slow part, which keeps `memory` of itself from one process to the next.
    jitter: of each process. A process in `spike_rate` of all is slower by an exponentially
    distributed part with the mean `spike`.
    runs: processes an arm that its row of validation.md spends; minimum: the smallest effect that
    matters on such a machine.
    """

    name: str
    jitter: float
    drift: float
    runs: int
    minimum: float
    spike_rate: float
    spike: float
    memory: float = 0.95


# What validation.md does not give (memory, spikes) was chosen so that the rows of its first table
# come out again, see docs/explanation/method.md.
MODELS = (
    Noise("quiet GPU", 0.004, 0.004, 16, 0.02, spike_rate=0.05, spike=0.01),
    Noise("shared CPU, 16 runs", 0.015, 0.03, 16, 0.05, spike_rate=0.08, spike=0.08),
    Noise("shared CPU, 40 runs", 0.015, 0.03, 40, 0.05, spike_rate=0.08, spike=0.08),
    Noise("very noisy", 0.03, 0.08, 40, 0.05, spike_rate=0.1, spike=0.25),
)


def run_machine(noise: Noise, rng: Random) -> Iterator[float]:
    """The logarithms of speed of one process after another, for ever, around 0."""
    drift = rng.gauss(0, noise.drift)
    step = noise.drift * math.sqrt(1 - noise.memory * noise.memory)
    while True:
        spike = rng.expovariate(1 / noise.spike) if rng.random() < noise.spike_rate else 0.0
        yield drift + rng.gauss(0, noise.jitter) - spike
        drift = noise.memory * drift + rng.gauss(0, step)


@dataclass(frozen=True)
class SimulatedSampler:
    """Cells on a simulated machine; `effects` (log) make arm B faster (> 0) or slower.

    The samplers of a step and of its control share a `machine`, as they do in life.
    """

    cells: Sequence[Cell]
    machine: Iterator[float]
    effects: Mapping[str, float] = field(default_factory=dict)

    def sample(self, arm: Arm, quad: int, position: int) -> Mapping[str, Sample]:
        """One process: each cell has the next noise of the machine."""
        return {
            cell.name: Sample(cell.name, arm, quad, position, self._measure(cell, arm), SECONDS)
            for cell in self.cells
        }

    def _measure(self, cell: Cell, arm: Arm) -> float:
        effect = self.effects.get(cell.name, 0.0) if arm == "B" else 0.0
        speed = next(self.machine) + effect
        return 100 * math.exp(speed if cell.higher_is_better else -speed)


def run_blocked(machine: Iterator[float], runs: int) -> tuple[list[float], list[float]]:
    """All of A, then all of B: what compare-commits.sh, benchstat and hyperfine make people do."""
    return [next(machine) for _ in range(runs)], [next(machine) for _ in range(runs)]


def mann_whitney_p(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p-value of Mann and Whitney by the normal approximation; continuous data, >= 8."""
    ranked = sorted([(x, 0) for x in a] + [(x, 1) for x in b])
    ranks = sum(rank for rank, (_, arm) in enumerate(ranked, 1) if arm == 1)
    n, m = len(a), len(b)
    u = ranks - m * (m + 1) / 2
    deviation = max(0.0, abs(u - n * m / 2) - 0.5)
    z = deviation / math.sqrt(n * m * (n + m + 1) / 12)
    return 2 * NormalDist().cdf(-z)


def welch_p(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p-value of Welch's t-test with Satterthwaite's degrees of freedom."""
    va, vb = variance(a) / len(a), variance(b) / len(b)
    t = (fmean(b) - fmean(a)) / math.sqrt(va + vb)
    freedom = (va + vb) ** 2 / (va * va / (len(a) - 1) + vb * vb / (len(b) - 1))
    return student_p(t, freedom)


def student_p(t: float, freedom: float) -> float:
    """Two-sided p-value of Student's t, by Simpson's rule over the angle atan(t / sqrt(freedom)).

    With x = sqrt(f) tan(u) the density becomes cos(u)**(f - 1): smooth on a finite range.
    """
    constant = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    end = math.atan(abs(t) / math.sqrt(freedom))
    steps = 200
    width = end / steps
    heights = [math.pow(math.cos(i * width), freedom - 1) for i in range(steps + 1)]
    area = heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
    return max(0.0, 1 - 2 * constant / math.sqrt(math.pi) * area * width / 3)
