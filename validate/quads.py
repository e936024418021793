"""Four processes in a row, and the one difference they give for each cell."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from upstream.errors import InvalidMeasurement
from validate.cells import Arm, Cell, Sample
from validate.statistics import quad_difference

# "step": the parent (A) and the step (B); "control": the base (A) and its own copy (B).
Track = Literal["step", "control"]
Order = Literal["ABBA", "BAAB"]


@dataclass(frozen=True)
class Quad:
    """`differences`: by cell, log of the speed ratio B/A. `seconds`: what its processes took."""

    differences: Mapping[str, float]
    seconds: float


def check_quad(cells: Sequence[Cell], samples: Sequence[Sample]) -> Quad:
    """The quad of 4 samples a cell. Raises InvalidMeasurement when they are no quad."""
    by_cell: dict[str, list[Sample]] = defaultdict(list)
    for sample in sorted(samples, key=lambda sample: sample.position):
        by_cell[sample.cell].append(check_sample(sample))
    differences = {cell.name: _subtract(cell, by_cell[cell.name]) for cell in cells}
    return Quad(differences, sum(sample.seconds for sample in by_cell[cells[0].name]))


def complete_quads(cells: Sequence[Cell], samples: Sequence[Sample]) -> dict[int, Quad]:
    """The complete quads among stored samples, by number; warm-ups (0) and rests are left out.

    Of a position that was measured twice (a quad that was cut off and repeated) the later one
    counts: only the last try can have come to its end. Samples of other cells are ignored.
    """
    names = {cell.name for cell in cells}
    quads: dict[int, dict[tuple[str, int], Sample]] = defaultdict(dict)
    for sample in samples:
        if sample.quad > 0 and sample.cell in names:
            quads[sample.quad][sample.cell, sample.position] = sample
    wanted = {(name, position) for name in names for position in range(4)}
    return {
        number: check_quad(cells, list(found.values()))
        for number, found in sorted(quads.items())
        if found.keys() == wanted
    }


def find_sample(
    samples: Mapping[str, Sample], cell: Cell, arm: Arm, quad: int, position: int
) -> Sample:
    """The cell's sample of a process. Raises InvalidMeasurement when it is not what was asked."""
    sample = samples.get(cell.name)
    if sample is None:
        raise InvalidMeasurement(f"{cell.tool} gave no number for {cell.name}")
    asked = (cell.name, arm, quad, position)
    given = (sample.cell, sample.arm, sample.quad, sample.position)
    if given != asked:
        raise InvalidMeasurement(f"{cell.tool} answered {given} when asked for {asked}")
    return check_sample(sample)


def check_sample(sample: Sample) -> Sample:
    """The sample itself. Raises InvalidMeasurement for a value that cannot have been measured."""
    if not (0 < sample.value < math.inf and 0 <= sample.seconds < math.inf):
        raise InvalidMeasurement(
            f"{sample.cell}, arm {sample.arm}, quad {sample.quad}: a value of {sample.value} "
            f"in {sample.seconds} s was not measured"
        )
    return sample


def _subtract(cell: Cell, samples: Sequence[Sample]) -> float:
    order = "".join(sample.arm for sample in samples)
    if order not in get_args(Order) or [sample.position for sample in samples] != [0, 1, 2, 3]:
        raise InvalidMeasurement(f"{cell.name}: samples in the order {order!r} are no quad")
    speeds = [s.value if cell.higher_is_better else 1 / s.value for s in samples]
    return quad_difference(order, speeds)
