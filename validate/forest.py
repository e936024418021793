"""A forest plot as inline SVG: for every cell its estimate, interval and margin, around zero.

All horizontal positions are per cent of the drawing's width and all type is in pixels, so that one
drawing serves a phone and a desk without scaling its letters. Colours come from the page's style
sheet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from xml.etree import ElementTree as ET

from validate.cells import Judged, Speed
from validate.report_model import Comparison, percent
from validate.step_line import cut_middle

NOT_RUN = (Speed.IDENTICAL, Speed.INVALID)
LABEL = 24  # characters of a cell's name beside its verdict, at 332 px
ROW, TOP, BOTTOM = 40, 22, 26  # px
EDGE = 2.0  # per cent kept free at both sides, for dots and arrows
NICE = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0)


@dataclass(frozen=True)
class Axis:
    """A scale from -span to +span per cent of change, zero in the middle."""

    span: float

    def place(self, log_ratio: float) -> float:
        """Where a value lies, in per cent of the width; never outside of the drawing."""
        share = max(-1.0, min(1.0, percent(log_ratio) / self.span))
        return 50 + share * (50 - EDGE)

    def holds(self, log_ratio: float) -> bool:
        """Whether a value is inside, ends included."""
        return abs(percent(log_ratio)) <= self.span


def choose_axis(cells: Sequence[Judged]) -> Axis:
    """One scale for plots that are read side by side.

    It shows every interval, up to five margins: one wild cell must not flatten the others.
    """
    measured = [cell for cell in cells if cell.verdict not in NOT_RUN]
    margin = max((percent(cell.margin) for cell in measured), default=0.0) or 1.0
    ends = (end for cell in measured for end in (cell.low, cell.high) if math.isfinite(end))
    widest = max((abs(percent(end)) for end in ends), default=0.0)
    wanted = max(1.5 * margin, min(widest, 5 * margin))
    return Axis(next((nice for nice in NICE if nice >= 0.98 * wanted), NICE[-1]))


def draw_forest(comparison: Comparison, axis: Axis, mark: str) -> str:
    """The plot of one comparison; `mark` makes its ids unique on the page. Empty without cells."""
    if not comparison.cells:
        return ""
    height = TOP + ROW * len(comparison.cells) + BOTTOM
    names = f"{mark}-title {mark}-text"
    svg = ET.Element(
        "svg",
        {"class": "forest", "width": "100%", "height": str(height), "role": "img"}
        | {"aria-labelledby": names},
    )
    _describe(svg, comparison, mark)
    floor = height - BOTTOM
    _draw_axis(svg, axis, floor)
    for index, cell in zip(count(), comparison.cells):
        _draw_row(svg, axis, cell, TOP + ROW * index)
    return ET.tostring(svg, encoding="unicode")


def say_effect(cell: Judged) -> str:
    """The change in words: `+0.1 % (-0.7 to +0.9)`."""
    if cell.verdict is Speed.IDENTICAL:
        return "same bytes, not run"
    if cell.verdict is Speed.INVALID:
        return "no number"
    return f"{say_signed(cell.center)} % ({say_signed(cell.low)} to {say_signed(cell.high)})"


def say_signed(log_ratio: float) -> str:
    """A change in per cent with its sign and one digit."""
    value = percent(log_ratio)
    if not math.isfinite(log_ratio):
        return "\u2212\u221e" if log_ratio < 0 else "+\u221e"
    return f"{value:+.1f}".replace("-", "\u2212")


def _describe(svg: ET.Element, comparison: Comparison, mark: str) -> None:
    title = ET.SubElement(svg, "title", {"id": f"{mark}-title"})
    title.text = f"Speed of {comparison.step} against {comparison.parent}"
    text = ET.SubElement(svg, "desc", {"id": f"{mark}-text"})
    text.text = "Change of speed with its interval, positive is faster. " + "; ".join(
        f"{cell.cell.name}: {cell.verdict.value}, {say_effect(cell)}" for cell in comparison.cells
    )


def _draw_axis(svg: ET.Element, axis: Axis, floor: int) -> None:
    draw_text(svg, "0%", 12, "\u2190 slower", "axis")
    draw_text(svg, "100%", 12, "faster \u2192", "axis", anchor="end")
    for share, anchor in (
        (-1.0, "start"),
        (-0.5, "middle"),
        (0.0, "middle"),
        (0.5, "middle"),
        (1.0, "end"),
    ):
        x = say_percent(50 + share * (50 - EDGE))
        kind = "zero" if share == 0 else "grid"
        draw_line(svg, (x, x), (TOP, floor + 4), kind)
        label = f"{share * axis.span:+g} %".replace("-", "\u2212") if share else "0"
        where = {"start": "0%", "end": "100%"}.get(anchor, x)
        draw_text(svg, where, floor + 18, label, "axis", anchor=anchor)


def _draw_row(svg: ET.Element, axis: Axis, cell: Judged, top: int) -> None:
    row = ET.SubElement(svg, "g", {"class": f"row {cell.verdict.value.lower()}"})
    tip = ET.SubElement(row, "title")
    tip.text = f"{cell.cell.tool} {cell.cell.name}: {cell.verdict.value}, {say_effect(cell)}"
    middle = top + 27
    if cell.margin > 0:
        _draw_margin(row, axis, cell.margin, middle)
    draw_text(row, "0%", top + 15, cut_middle(cell.cell.name, LABEL), "name")
    said = cell.verdict.value
    if cell.verdict not in NOT_RUN:
        said += f" {say_signed(cell.center)} %"
        _draw_interval(row, axis, cell, middle)
    draw_text(row, "100%", top + 15, said, "said", anchor="end")


def _draw_margin(row: ET.Element, axis: Axis, margin: float, middle: int) -> None:
    left, right = axis.place(-margin), axis.place(margin)
    box = {"x": say_percent(left), "width": say_percent(right - left)}
    ET.SubElement(row, "rect", {"class": "margin", "y": str(middle - 6), "height": "12"} | box)


def _draw_interval(row: ET.Element, axis: Axis, cell: Judged, middle: int) -> None:
    low, high = axis.place(cell.low), axis.place(cell.high)
    if low < high:
        draw_line(row, (say_percent(low), say_percent(high)), (middle, middle), "interval")
    # An end beyond the other side of the drawing is not drawn: the arrow there points to it all.
    if percent(cell.low) <= axis.span:
        _draw_end(row, low, middle, "M7,-5 L0,0 L7,5 Z", clipped=not axis.holds(cell.low))
    if percent(cell.high) >= -axis.span:
        _draw_end(row, high, middle, "M-7,-5 L0,0 L-7,5 Z", clipped=not axis.holds(cell.high))
    if axis.holds(cell.center):
        at = {"cx": say_percent(axis.place(cell.center)), "cy": str(middle), "r": "4.5"}
        ET.SubElement(row, "circle", {"class": "estimate"} | at)


def _draw_end(row: ET.Element, x: float, middle: int, arrow: str, *, clipped: bool) -> None:
    """A cap where the interval ends, an arrow where it goes on outside of the drawing."""
    if not clipped:
        draw_line(row, (say_percent(x), say_percent(x)), (middle - 4, middle + 4), "cap")
        return
    place = {"x": say_percent(x), "y": str(middle), "overflow": "visible", "class": "arrow"}
    ET.SubElement(ET.SubElement(row, "svg", place), "path", {"d": arrow})


def draw_line(parent: ET.Element, x: tuple[str, str], y: tuple[int, int], kind: str) -> None:
    """A line; x in per cent of the width, y in pixels, `kind` is its class."""
    ends = {"x1": x[0], "x2": x[1], "y1": str(y[0]), "y2": str(y[1])}
    ET.SubElement(parent, "line", {"class": kind} | ends)


def draw_text(
    parent: ET.Element, x: str, y: int, text: str, kind: str, *, anchor: str = "start"
) -> None:
    """Text at a place; x in per cent of the width, y in pixels, `kind` is its class."""
    place = {"x": x, "y": str(y), "class": kind, "text-anchor": anchor}
    ET.SubElement(parent, "text", place).text = text


def say_percent(value: float) -> str:
    """A place or a length in per cent of the width."""
    return f"{value:.2f}%"
