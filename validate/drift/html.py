"""The drift map as one HTML file: no script, nothing loaded from elsewhere.

A cell links to its hunks, which stand in a <details>: the browser opens it on the way there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from series.landing.hunks import Hunk
from series.landing.model import State
from validate.drift.model import Cell, Drift, Row
from validate.html_report import TEMPLATES, make_environment, write_page

OWN = Path(__file__).parent


@dataclass(frozen=True)
class Mark:
    """How a state looks: a symbol that tells without colour, a tone, and what it means."""

    symbol: str
    tone: str
    meaning: str


MARKS: Mapping[State, Mark] = {
    State.CLEAN: Mark("=", "good", "applies as it is"),
    State.OFFSET: Mark("~", "good", "applies at other lines"),
    State.MOVED: Mark("\u2192", "good", "applies, upstream renamed a file"),
    State.LANDED: Mark("\u2713", "same", "upstream has it"),
    State.MODIFIED: Mark("\u2248", "same", "upstream has it in other words"),
    State.PARTLY: Mark("\u00bd", "warn", "upstream has some of its hunks"),
    State.SUPERSEDED: Mark("S", "warn", "conflicts, and its drop-check passes on upstream"),
    State.LOSS: Mark("!", "bad", "merges, but lines vanish"),
    State.CONFLICT: Mark("\u2717", "bad", "conflict"),
}
STATIC = Mark("#", "bad", "merges, but a constant, an id or a signature moved")


def write_map(drift: Drift, path: Path) -> Path:
    """Write the page, whole or not at all. Raises EnvironmentFault when it cannot."""
    return write_page(render_map(drift), path, "--html")


def render_map(drift: Drift) -> str:
    """The page as text."""
    environment = make_environment(OWN, TEMPLATES)
    environment.filters |= {"mark": mark_cell, "identity": id, "text": show_hunk}
    seen = {mark_cell(cell) for row in drift.rows for cell in row.cells}
    return environment.get_template("drift.html.j2").render(
        drift=drift,
        anchors={id(cell): f"cell-{r}-{c}" for r, row in enumerate(drift.rows, 1)
                 for c, cell in enumerate(row.cells, 1)},
        marks=[mark for mark in (*MARKS.values(), STATIC) if mark in seen],
        told=has_more,
        rows=[(f"patch-{number}", row) for number, row in enumerate(drift.rows, 1)],
    )  # fmt: skip


def mark_cell(cell: Cell) -> Mark:
    """The mark of a cell; red below a clean merge counts more than the merge."""
    return STATIC if cell.static else MARKS[cell.standing.state]


def show_hunk(hunk: Hunk) -> str:
    """The changed lines of a hunk; `...` stands for the context between them."""
    groups = (
        "\n".join([*(f"-{line}" for line in group.removed), *(f"+{line}" for line in group.added)])
        for group in hunk.groups
    )
    return "\n...\n".join(groups)


def has_more(row: Row, cell: Cell) -> bool:
    """Whether a cell has something to open: where the text is untouched there is nothing."""
    standing = cell.standing
    plain = standing.state is State.CLEAN and not standing.detail and not standing.warnings
    return bool(cell.static) or not plain
