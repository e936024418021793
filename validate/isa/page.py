"""The outcome as one HTML page: no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log1p
from pathlib import Path

from validate.html_report import TEMPLATES, make_environment, write_page
from validate.isa.judge import Word, count_spills
from validate.isa.run import IsaRun, Scan
from validate.isa.statistics import Numbers
from validate.isa.tables import describe_banks, document_change, list_cliffs
from validate.isa.variants import Variant

COLUMNS = range(1, 9)
DEEPEST = 600.0  # spilled registers at which a cell has its full colour
TONES = {
    Word.BETTER: "good",
    Word.EQUAL: "same",
    Word.ALLOWED: "warn",
    Word.INVALID: "warn",
    Word.WORSE: "bad",
    Word.SPILLS: "bad",
}


@dataclass(frozen=True)
class Cell:
    """Spilled registers of one type and number of columns; None where it was not compiled."""

    spilled: int | None
    depth: float  # 0 to 1, for the colour
    title: str


@dataclass(frozen=True)
class HeatMap:
    """Types x columns of the float mat-vec of one subgroup, for a tree and a compiler."""

    tree: str
    compiler: str
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    total: int
    compiled: int


def write_run(run: IsaRun, path: Path) -> Path:
    """Write the page, whole or not at all. Raises EnvironmentFault when it cannot."""
    return write_page(render_page(run), path, "--report")


def render_page(run: IsaRun) -> str:
    """The page as text."""
    environment = make_environment(TEMPLATES)
    environment.filters["change"] = document_change
    return environment.get_template("isa.html.j2").render(
        run=run,
        maps=[draw_map(scan) for scan in sorted(run.scans, key=lambda each: each.compiler)],
        columns=COLUMNS,
        tones=TONES,
        cliffs=list_cliffs(run.scans),
        banks=list_banks(run.scans),
    )


def draw_map(scan: Scan) -> HeatMap:
    """The heat map of one tree under one compiler."""
    chosen = {each: found for each, found in scan.numbers.items() if _fits(each)}
    known = {(each.type, each.columns): (each, found) for each, found in chosen.items()}
    types = list(dict.fromkeys(each.type for each in chosen))
    rows = []
    for name in types:
        rows.append((name, tuple(_draw(known.get((name, count))) for count in COLUMNS)))
    total = sum(count_spills(found) for found in chosen.values())
    return HeatMap(scan.tree, scan.compiler, tuple(rows), total, len(chosen))


def list_banks(scans: Sequence[Scan]) -> dict[str, int]:
    """How many coopmat tiles of the tip have which stride, with its conflict factors."""
    found: dict[str, int] = {}
    for scan in scans[-1:]:
        for variant in scan.numbers:
            if text := describe_banks(variant):
                found[text] = found.get(text, 0) + 1
    return found


def _fits(variant: Variant) -> bool:
    return variant.small and variant.input == "f32"


def _draw(found: tuple[Variant, Numbers] | None) -> Cell:
    if found is None:
        return Cell(None, 0.0, "not compiled")
    variant, numbers = found
    spilled = count_spills(numbers)
    cost = numbers.inverse_throughput
    depth = min(1.0, log1p(spilled) / log1p(DEEPEST))
    said = f"{numbers.vgprs} VGPRs, {numbers.waves} waves, inverse throughput {cost}"
    return Cell(spilled, depth, f"{variant.label}: {said}")
