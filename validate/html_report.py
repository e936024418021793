"""The report of a run as one HTML file: no script, nothing loaded from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from upstream.errors import EnvironmentFault
from validate.cells import Judged, Speed
from validate.checks import BUILD
from validate.forest import choose_axis, draw_forest, say_effect
from validate.report_model import SPEED, Comparison, Report, StepReport, percent
from validate.verdict import ORDER, CheckResult, Verdict

TEMPLATES = Path(__file__).parent / "templates"
DRIFT_MAP = "drift.html"  # written by `nox -s drift`
ISA_PAGE = "isa.html"  # written by `nox -s isa`
BESIDE = {DRIFT_MAP: "Drift map", ISA_PAGE: "Shaders compiled for AMD"}
LISTED = 6  # names of a long list that are shown
TONES = ("bad", "warn")  # of what needs attention, the worst first


@dataclass(frozen=True)
class Mark:
    """How a verdict looks: a symbol that tells without colour, a tone, and what it means."""

    symbol: str
    tone: str
    meaning: str


# By the word that both kinds of verdicts print.
MARKS: Mapping[str, Mark] = {
    "PASS": Mark("\u2713", "good", "the check ran and holds"),
    "IDENTICAL": Mark("=", "same", "the same bytes as the parent's, not run"),
    "shown": Mark("i", "info", "information, never judged"),
    "not run": Mark("\u2013", "warn", "the environment is missing"),
    "INVALID": Mark("?", "warn", "it measured nothing, or the wrong thing"),
    "FAIL": Mark("\u2717", "bad", "the check says no"),
    "SAME": Mark("\u2248", "good", "speed: the interval lies within the margin"),
    "FASTER": Mark("\u25b2", "good", "speed: faster by more than the margin"),
    "INCONCLUSIVE": Mark("~", "warn", "speed: could hide more than the margin"),
    "SLOWER": Mark("\u25bc", "bad", "speed: slower by more than the margin, seen twice"),
}


@dataclass(frozen=True)
class Finding:
    """Something that a person should look at first."""

    anchor: str
    step: str
    what: str
    verdict: Enum
    detail: str


@dataclass(frozen=True)
class HeatRow:
    """One step of the heat table; a cell is None where the step has no such check."""

    anchor: str
    step: StepReport
    cells: tuple[tuple[str, Enum | None, str], ...]


def write_report(report: Report, path: Path) -> Path:
    """Write the page, with links to the pages of other commands that lie beside it."""
    beside = {name: words for name, words in BESIDE.items() if (path.parent / name).exists()}
    return write_page(render_report(report, beside), path, "--report")


def write_page(text: str, path: Path, option: str) -> Path:
    """Write a page, whole or not at all. Raises EnvironmentFault that names the option."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f".{path.name}.{os.getpid()}")
        half.write_text(text, "utf-8", "backslashreplace")
        return half.replace(path)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write the report {path}: {error.strerror}",
            remedy=f"name a place that you can write with {option}",
        ) from error


def make_environment(*folders: Path) -> Environment:
    """The templates of some folders, everything that they print escaped."""
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_report(report: Report, beside: Mapping[str, str] | None = None) -> str:
    """The page as text; `beside` are other pages, their words by file name."""
    environment = make_environment(TEMPLATES)
    environment.filters |= {
        "mark": lambda verdict: MARKS[verdict.value],
        "checks": list_checks,
        "facts": list_facts,
        "uri": lambda path: Path(path).absolute().as_uri(),
        "effect": say_effect,
        "measured": keep_measured,
        "percent": percent,
        "shorten": shorten_list,
    }
    axis = choose_axis([cell for speed in list_speeds(report) for cell in speed.cells])
    return environment.get_template("report.html.j2").render(
        report=report,
        anchors=name_anchors(report),
        columns=list_columns(report),
        heat={topic.name: list_heat(report, topic.steps) for topic in report.topics},
        findings=list_findings(report),
        tally=tally_steps(report),
        overall=report.verdict,
        beside=beside or {},
        marks=MARKS,
        forest=lambda speed, mark: Markup(draw_forest(speed, axis, mark)),  # noqa: S704
        axis=axis,
    )


def name_anchors(report: Report) -> dict[str, str]:
    """Ids by number: a patch may be called anything."""
    return {step.patch: f"step-{number}" for number, step in enumerate(report.steps, 1)}


def list_speeds(report: Report) -> list[Comparison]:
    """All comparisons of speed on the page."""
    found = [step.speed for step in report.steps]
    return [speed for speed in (*found, report.tip) if speed]


def list_columns(report: Report) -> list[str]:
    """The checks of all steps in the order in which they run: a build that fails comes first."""
    names = dict.fromkeys(check.check for step in report.steps for check in step.checks)
    speeds = any(step.speed for step in report.steps)
    first = [name for name in names if name == BUILD]
    middle = [name for name in names if name not in (BUILD, SPEED)]
    return first + middle + ([SPEED] if speeds or SPEED in names else [])


def list_heat(report: Report, steps: Sequence[StepReport]) -> list[HeatRow]:
    """The rows of the heat table for some steps."""
    columns, anchors = list_columns(report), name_anchors(report)
    return [
        HeatRow(anchors[step.patch], step, tuple((name, *_find(step, name)) for name in columns))
        for step in steps
    ]


def list_findings(report: Report) -> dict[str, list[Finding]]:
    """What is not good, by step, the worst steps first."""
    anchors = name_anchors(report)
    groups = {step.patch: list(_list_bad(step, anchors)) for step in report.steps}
    if report.tip:
        groups["tip against base"] = list(_list_bad_cells(report.tip, "tip"))
    for found in groups.values():
        found.sort(key=_rank)
    bad = [item for item in groups.items() if item[1]]
    return dict(sorted(bad, key=lambda item: _rank(item[1][0])))


def keep_measured(speed: Comparison) -> Comparison:
    """Without the cells that were byte-identical: a plot of nothing says nothing."""
    cells = tuple(cell for cell in speed.cells if cell.verdict is not Speed.IDENTICAL)
    return replace(speed, cells=cells)


def tally_steps(report: Report) -> list[tuple[Verdict, int]]:
    """How many steps ended with which verdict, the bad ones first."""
    verdicts = [step.verdict for step in report.steps if step.verdict]
    return [(each, verdicts.count(each)) for each in reversed(ORDER) if each in verdicts]


def list_checks(step: StepReport) -> list[CheckResult]:
    """The checks as the table shows them: the cells of speed have a plot and a table below it."""
    cells = len(step.speed.cells) if step.speed else 0
    return [
        replace(check, detail=f"{cells} cells, below", facts={})
        if check.check == SPEED and cells
        else check
        for check in step.checks
    ]


def list_facts(check: CheckResult) -> list[tuple[str, str]]:
    """The numbers of a check as short text; a log has a link of its own."""
    return [(str(key), _say(value)) for key, value in check.facts.items() if key != "log"]


def shorten_list(names: Sequence[str]) -> str:
    """The first names and how many more there are."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _find(step: StepReport, name: str) -> tuple[Enum | None, str]:
    """The verdict and the detail of one check of a step."""
    for check in step.checks:
        if check.check == name:
            return check.verdict, check.detail
    if name == SPEED and step.speed and step.speed.verdict:
        return step.speed.verdict, f"{len(step.speed.cells)} cells"
    return None, ""


def _is_bad(verdict: Enum) -> bool:
    return MARKS[verdict.value].tone in TONES


def _rank(finding: Finding) -> int:
    return TONES.index(MARKS[finding.verdict.value].tone)


def _list_bad(step: StepReport, anchors: Mapping[str, str]) -> Iterator[Finding]:
    anchor = anchors[step.patch]
    for check in step.checks:
        if _is_bad(check.verdict) and not (check.check == SPEED and step.speed):
            yield Finding(anchor, step.patch, check.check, check.verdict, check.detail)
    if step.speed:
        yield from _list_bad_cells(step.speed, anchor)


def _list_bad_cells(speed: Comparison, anchor: str) -> Iterator[Finding]:
    for cell in speed.cells:
        if _is_bad(cell.verdict):
            yield Finding(anchor, speed.step, cell.cell.name, cell.verdict, _explain(cell))


def _explain(cell: Judged) -> str:
    if cell.verdict is Speed.INVALID:
        return cell.reason
    return f"{say_effect(cell)}{': ' if cell.reason else ''}{cell.reason}"


def _say(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_say(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        named = shorten_list([_say(each) for each in value])
        return f"{len(value)}: {named}" if value else "none"
    return str(value)
