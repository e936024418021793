"""Occupancy cliffs: one more column of a mat-vec leaves fewer waves and costs more than usual.

A column's cost is what it adds to the inverse throughput of a row. The compiler's model counts
waves in it: where too few are left to hide the latency, the added column costs more than the
others of the same shader. Fewer rows a workgroup need fewer registers: the lever. Only mat-vecs
of one subgroup are looked at: ggml-vulkan runs those of four on Intel and NVIDIA only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from validate.isa.statistics import Numbers
from validate.isa.variants import ROLE_WG, Variant

STEEP = 2.0  # times the median column of the same shader
Found = tuple[Variant, Numbers]


@dataclass(frozen=True)
class Cliff:
    """Between two neighbouring column counts of a shader.

    steepness: the cost of the added column over the median one's. halved: the cost of a row with
    half the rows over that with the host's, at the greater count; None where it was not compiled.
    """

    before: Variant
    after: Variant
    waves: tuple[int, int]
    costs: tuple[float, float]
    steepness: float
    halved: float | None

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.after.pipeline} wg {self.after.spec[ROLE_WG]}"

    @property
    def columns(self) -> str:
        """From how many columns to how many."""
        return f"{self.before.columns} -> {self.after.columns}"


def find_cliffs(
    numbers: Mapping[Variant, Numbers], halved: Mapping[Variant, Numbers]
) -> tuple[Cliff, ...]:
    """All cliffs among a tree's pipelines under one compiler. `halved` is by the host's variant.

    Where the host changes the rows, the two are not compared.
    """
    small = {each: found for each, found in numbers.items() if each.small}
    return tuple(cliff for shader in _group(small) for cliff in _find(shader, halved))


def list_waves(numbers: Mapping[Variant, Numbers]) -> dict[str, list[int | None]]:
    """Waves a SIMD at 1, 2, ... columns, by shader and workgroup; None where not compiled."""
    found = {}
    for shader in _group(numbers):
        variant = shader[0][0]
        waves = {each.columns: answer.waves for each, answer in shader}
        name = f"{variant.pipeline} wg {variant.spec[ROLE_WG]}"
        found[name] = [waves.get(count) for count in range(1, max(waves) + 1)]
    return found


def count_halvings(numbers: Mapping[Variant, Numbers]) -> int:
    """How often one more column leaves half the waves or fewer, whatever it costs."""
    steps = (step for shader in _group(numbers) for step in _steps(shader))
    return sum(2 * after[1].waves <= before[1].waves for before, after in steps)


def _group(numbers: Mapping[Variant, Numbers]) -> list[list[Found]]:
    """The mat-vecs of each shader and workgroup, by columns."""
    shaders: defaultdict[tuple[str, int], list[Found]] = defaultdict(list)
    for variant, found in numbers.items():
        if variant.columns and not found.error:
            shaders[variant.pipeline, variant.spec[ROLE_WG]].append((variant, found))
    return [sorted(each, key=lambda found: found[0].columns) for each in shaders.values()]


def _steps(shader: list[Found]) -> Iterator[tuple[Found, Found]]:
    for before, after in pairwise(shader):
        if after[0].columns == before[0].columns + 1:
            yield before, after


def _find(shader: list[Found], halved: Mapping[Variant, Numbers]) -> Iterator[Cliff]:
    steps: defaultdict[int, list[tuple[Found, Found]]] = defaultdict(list)
    for before, after in _steps(shader):
        if before[0].rows == after[0].rows:
            steps[after[0].rows].append((before, after))
    for alike in steps.values():
        usual = median(map(_added, alike))
        yield from (_make(step, usual, halved) for step in alike if _is_cliff(step, usual))


def _is_cliff(step: tuple[Found, Found], usual: float) -> bool:
    before, after = step
    return after[1].waves < before[1].waves and _added(step) > STEEP * usual > 0


def _make(step: tuple[Found, Found], usual: float, halved: Mapping[Variant, Numbers]) -> Cliff:
    before, after = step
    return Cliff(
        before[0],
        after[0],
        (before[1].waves, after[1].waves),
        (_cost(*before), _cost(*after)),
        _added(step) / usual,
        _lever(after, halved.get(after[0])),
    )


def _added(step: tuple[Found, Found]) -> float:
    before, after = step
    return _cost(*after) - _cost(*before)


def _cost(variant: Variant, numbers: Numbers) -> float:
    """Inverse throughput a row."""
    return numbers.inverse_throughput / variant.rows


def _lever(found: Found, half: Numbers | None) -> float | None:
    variant, numbers = found
    if half is None or half.error:
        return None
    return half.inverse_throughput / (variant.rows // 2) / _cost(variant, numbers)
