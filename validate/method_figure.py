"""The simulation's table and picture for docs/explanation/method.md, written by `nox -s bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from upstream.errors import UsageError
from validate.bench_statistics import Outcome
from validate.cells import Speed

BEGIN = "<!-- simulation: nox -s bench -- --only statistics --write -->"
END = "<!-- end of simulation -->"
HEAD = (
    *("machine", "runs an arm", "quads used", "margin", "false alarms", "misses"),
    *("SAME", "INCONCLUSIVE", "INVALID"),
    *("blocked Mann-Whitney: alarms", "misses", "blocked Welch: alarms", "misses"),
)
WIDTH, LEFT, RIGHT = 480, 150, 420  # of the picture, of the bars
BAR, STEP, GROUP = 11, 14, 52  # heights: a bar, a bar with its gap, the bars of a machine
HEADER, TITLE = 30, 34
# The picture is read on light and dark pages; an image cannot ask the page, but the system.
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 } .value { font-size: 11px }
.ours { fill: #0969da } .mann { fill: #bf8700 } .welch { fill: #d9a94a }
.bound { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 4 3 } .axis { stroke: #8c959f }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .ours { fill: #58a6ff } .bound { stroke: #ff7b72 }
}
"""


@dataclass(frozen=True)
class Arm:
    """A method: its class in the picture, its name, and its two rates."""

    style: str
    name: str
    alarms: Callable[[Outcome], float]
    misses: Callable[[Outcome], float]


METHODS = (
    Arm("ours", "quads, as here", lambda o: o.alarms, lambda o: o.misses),
    Arm(
        "mann",
        "A then B, Mann-Whitney",
        lambda o: o.blocked_alarms["Mann-Whitney"],
        lambda o: o.blocked_misses["Mann-Whitney"],
    ),
    Arm(
        "welch",
        "A then B, Welch",
        lambda o: o.blocked_alarms["Welch"],
        lambda o: o.blocked_misses["Welch"],
    ),
)


def store_simulation(document: Path, outcomes: Sequence[Outcome]) -> None:
    """Replace the table in the document and the picture beside it (same name, .svg).

    Raises UsageError when the document has no place for the table.
    """
    before, begin, rest = document.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UsageError(f"{document} has no lines {BEGIN} and {END}")
    table = tabulate_outcomes(outcomes)
    document.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", "utf-8")
    document.with_suffix(".svg").write_text(draw_outcomes(outcomes), "utf-8")


def tabulate_outcomes(outcomes: Sequence[Outcome]) -> str:
    """A Markdown table, one machine a row, rates in per cent."""
    rows = [HEAD, ("---", *("---:",) * (len(HEAD) - 1)), *map(_list_cells, outcomes)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _list_cells(outcome: Outcome) -> tuple[str, ...]:
    said = (outcome.verdicts.get(v, 0) for v in (Speed.SAME, Speed.INCONCLUSIVE, Speed.INVALID))
    ours, *blocked = METHODS
    rates = [ours.alarms(outcome), ours.misses(outcome), *said]
    rates += [rate(outcome) for arm in blocked for rate in (arm.alarms, arm.misses)]
    noise = outcome.noise
    numbers = (noise.name, str(noise.runs), f"{outcome.quads:.1f}", f"{100 * outcome.margin:.1f} %")
    return numbers + tuple(f"{100 * rate:.1f} %" for rate in rates)


def draw_outcomes(outcomes: Sequence[Outcome]) -> str:
    """Bars of all methods: false alarms above, misses below. A whole SVG document."""
    panels = (
        ("False alarms when nothing changed (bound 5 %)", 5, [arm.alarms for arm in METHODS]),
        ("Misses at twice the margin (bound 10 %)", 10, [arm.misses for arm in METHODS]),
    )
    lines = [*_draw_legend()]
    y = HEADER
    for title, bound, rates in panels:
        lines.append(f'<text class="title" x="8" y="{y + 20}">{title}</text>')
        lines += _draw_bars(y + TITLE, outcomes, rates)
        lines += _draw_lines(y + TITLE, y + TITLE + GROUP * len(outcomes) - 6, bound)
        y += TITLE + GROUP * len(outcomes) + 8
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img" '
        f'aria-label="False alarms and misses of three methods on simulated machines">\n'
        f"<style>{STYLE}</style>\n{body}\n</svg>\n"
    )


def _draw_legend() -> Iterator[str]:
    x = 8
    for arm in METHODS:
        yield f'<rect class="{arm.style}" x="{x}" y="8" width="11" height="11"/>'
        yield f'<text class="value" x="{x + 15}" y="18">{arm.name}</text>'
        x += 32 + 6 * len(arm.name)


def _draw_bars(
    top: int, outcomes: Sequence[Outcome], rates: Sequence[Callable[[Outcome], float]]
) -> Iterator[str]:
    for index, outcome in enumerate(outcomes):
        y = top + index * GROUP
        yield f'<text x="8" y="{y + 25}">{outcome.noise.name}</text>'
        for arm, rate in zip(METHODS, rates, strict=True):
            percent = 100 * rate(outcome)
            width = f'x="{LEFT}" width="{_place(percent) - LEFT:.1f}"'
            yield f'<rect class="{arm.style}" {width} y="{y}" height="{BAR}"/>'
            place = f'class="value" text-anchor="end" x="{WIDTH - 8}" y="{y + 10}"'
            yield f"<text {place}>{percent:.1f} %</text>"
            y += STEP


def _draw_lines(top: int, bottom: int, bound: float) -> Iterator[str]:
    for style, x in (("axis", LEFT), ("bound", _place(bound))):
        yield f'<line class="{style}" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{bottom}"/>'


def _place(percent: float) -> float:
    return LEFT + (RIGHT - LEFT) * min(1.0, percent / 70)
