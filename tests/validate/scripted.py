"""A sampler whose numbers depend only on what is asked: a resumed run sees the same ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from validate.cells import Arm, Cell, Judged, Sample
from validate.comparison import Plan, compare

PP = Cell("llama-bench", "pp64", "t/s", 0.02)
TG = Cell("llama-bench", "tg16", "t/s", 0.02)
OP = Cell("test-backend-ops", "ADD", "us", 0.02)

PLAN = Plan()
Call = tuple[Arm, int, int]


@dataclass
class Scripted:
    """`effects` (log speed) of arm B by cell; `jitter` of every number; `calls` made so far."""

    cells: Sequence[Cell] = (PP,)
    effects: Mapping[str, float] = field(default_factory=dict)
    jitter: float = 0.002
    seed: str = "step"
    hook: Callable[[Call], None] = lambda call: None
    calls: list[Call] = field(default_factory=list)

    def sample(self, arm: Arm, quad: int, position: int) -> Mapping[str, Sample]:
        call = (arm, quad, position)
        self.calls.append(call)
        self.hook(call)
        return {cell.name: self.measure(cell, call) for cell in self.cells}

    def measure(self, cell: Cell, call: Call) -> Sample:
        speed = Random(f"{self.seed} {cell.name} {call}").gauss(0, self.jitter)
        speed += self.effects.get(cell.name, 0.0) if call[0] == "B" else 0.0
        value = 100 * math.exp(speed if cell.higher_is_better else -speed)
        return Sample(cell.name, *call, value, 1.0)


def control(**changes: object) -> Scripted:
    """The base against its copy."""
    return Scripted(seed="control", **changes)  # type: ignore[arg-type]


def run(sampler: Scripted, plan: Plan = PLAN, **changes: object) -> list[Judged]:
    """Compare with a control of the same cells."""
    aa = control(cells=sampler.cells)
    return compare(sampler.cells, sampler, aa, plan, Random(1), **changes)  # type: ignore[arg-type]
