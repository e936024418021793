"""The outcome as one HTML page, a waterfall a cell: no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from validate.cells import Speed
from validate.forest import say_effect
from validate.html_report import MARKS, TEMPLATES, Mark, make_environment, write_page
from validate.prefill.chart import draw_fall
from validate.prefill.measure import Outcome
from validate.prefill.tables import Report, say_speeds
from validate.prefill.waterfall import Total, stack_all

PREFILL_PAGE = "prefill.html"


@dataclass(frozen=True)
class Figure:
    """One waterfall: its cell, the drawing and what its totals say."""

    cell: str
    drawing: Markup
    totals: tuple[Total, ...]


def write_prefill(report: Report, path: Path) -> Path:
    """Write the page, whole or not at all. Raises EnvironmentFault when it cannot."""
    return write_page(render_page(report), path, "--report")


def render_page(report: Report) -> str:
    """The page as text."""
    environment = make_environment(TEMPLATES)
    environment.filters |= {
        "effect": say_effect,
        "mark": find_mark,
    }
    figures = [list(_draw(outcome, number)) for number, outcome in enumerate(report.outcomes)]
    return environment.get_template("prefill.html.j2").render(
        report=report,
        figures=figures,
        speeds=say_speeds,
        shares=lambda index: report.shares[index] if index < len(report.shares) else (),
        ops=lambda index: report.ops[index] if index < len(report.ops) else (),
    )


def find_mark(verdict: Speed) -> Mark:
    """How a verdict looks."""
    return MARKS[verdict.value]


def _draw(outcome: Outcome, number: int) -> Iterator[Figure]:
    for index, fall in enumerate(stack_all(outcome)):
        title = f"{outcome.arena.model} on {outcome.arena.lane.name}, {fall.cell}: what gave what"
        drawn = draw_fall(fall, f"fall-{number}-{index}", title)
        yield Figure(fall.cell, Markup(drawn), fall.totals)  # noqa: S704 - ElementTree escaped it
