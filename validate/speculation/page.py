"""The outcome as one HTML page: no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from validate.html_report import TEMPLATES, make_environment, write_page
from validate.speculation.contest import Outcome
from validate.speculation.judge import NONE, drafter_of, is_adaptive
from validate.speculation.matrix import format_outcome
from validate.speculation.plots import draw_acceptance, draw_contest, draw_goodput, draw_lengths
from validate.speculation.tables import Run, format_pair, load_published, make_rows

SPECULATION_PAGE = "speculation.html"


def write_runs(runs: Sequence[Run], path: Path) -> Path:
    """Write the page, whole or not at all. Raises EnvironmentFault when it cannot."""
    return write_page(render_page(runs), path, "--report")


def write_contests(outcomes: Sequence[Outcome], path: Path) -> Path:
    """Write the page of contests, whole or not at all. Raises EnvironmentFault when it cannot."""
    return write_page(render_page([], outcomes), path, "--report")


def render_page(runs: Sequence[Run], outcomes: Sequence[Outcome] = ()) -> str:
    """The page as text."""
    environment = make_environment(TEMPLATES)
    environment.filters["pair"] = format_pair
    return environment.get_template("speculation.html.j2").render(
        runs=runs,
        rows=make_rows,
        plots=draw_plots,
        outcomes=[(one, format_outcome(one)) for one in outcomes],
        curves=[Markup(draw_contest(one)) for one in outcomes],  # noqa: S704 - as in draw_plots
        published=load_published(),
    )


def draw_plots(run: Run) -> list[Markup]:
    """All plots of a run: goodput, acceptance by position, length over time."""
    arms = [arm for arm in run.arms if arm != NONE]
    drafters = list(dict.fromkeys(map(drafter_of, arms)))
    fixed = {drafter_of(arm) for arm in arms if not is_adaptive(arm)}
    longest = [_longest(arms, drafter) for drafter in drafters if drafter in fixed]
    names = [ranking.conversation for ranking in run.rankings]
    drawn = [draw_goodput(run, name, each) for name in names for each in drafters if each in fixed]
    drawn += [draw_acceptance(run, arm) for arm in longest]
    drawn += [draw_lengths(run, arm, n) for arm in arms if is_adaptive(arm) for n in names]
    return [Markup(each) for each in drawn]  # noqa: S704 - ElementTree escaped it


def _longest(arms: Sequence[str], drafter: str) -> str:
    mine = [arm for arm in arms if drafter_of(arm) == drafter and not is_adaptive(arm)]
    return max(mine, key=lambda arm: int(arm.rpartition(" ")[2]))
