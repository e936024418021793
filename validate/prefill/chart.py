"""The waterfall as inline SVG: each leg from where the one before it ended, then the direct total.

Drawn like forest.py: horizontal places in per cent of the width, type in pixels, colours from the
page's style sheet. The axis is logarithmic, so that equal ratios are equally long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from validate.cells import Judged, Speed
from validate.forest import EDGE, ROW, TOP, draw_line, draw_text, say_effect, say_percent
from validate.prefill.waterfall import Bar, Fall, Total, effect, half_width, ratio
from validate.step_line import cut_middle

LABEL = 34  # characters of a leg's name
BOTTOM = 26  # px
TICKS = 5
LEAST = math.log(1.02)  # the shortest axis: noise shall not look like a mountain


@dataclass(frozen=True)
class Scale:
    """Logarithms of ratios from low to high over the width."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """In per cent of the width; what lies outside is put on the edge."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return EDGE + share * (100 - 2 * EDGE)


def choose_scale(fall: Fall) -> Scale:
    """Room for every bar and every interval that is no longer than the bars together."""
    spots = [0.0, *(bar.end for bar in fall.bars), *(effect(one.judged) for one in fall.totals)]
    low, high = min(spots), max(spots)
    reach = max(high - low, LEAST)
    widths = [half_width(bar.judged) for bar in fall.bars]
    margin = max((width for width in widths if width <= reach), default=0.0)
    return Scale(low - margin - 0.05 * reach, high + margin + 0.05 * reach)


def draw_fall(fall: Fall, mark: str, title: str) -> str:
    """The chart of one cell; `mark` makes its ids unique on the page."""
    scale = choose_scale(fall)
    height = TOP + ROW * (len(fall.bars) + 2 * len(fall.totals)) + BOTTOM
    names = f"{mark}-title {mark}-text"
    svg = ET.Element(
        "svg",
        {"class": "forest fall", "width": "100%", "height": str(height), "role": "img"}
        | {"aria-labelledby": names},
    )
    _describe(svg, fall, mark, title)
    _draw_axis(svg, scale, height - BOTTOM)
    top = TOP
    for bar in fall.bars:
        _draw_bar(svg, scale, bar, top)
        top += ROW
    for total in fall.totals:
        _draw_total(svg, scale, fall, total, top)
        top += 2 * ROW
    return ET.tostring(svg, encoding="unicode")


def _describe(svg: ET.Element, fall: Fall, mark: str, title: str) -> None:
    ET.SubElement(svg, "title", {"id": f"{mark}-title"}).text = title
    text = ET.SubElement(svg, "desc", {"id": f"{mark}-text"})
    legs = [f"{bar.leg.name}: {say_effect(bar.judged)}" for bar in fall.bars]
    text.text = "; ".join([*legs, *(f"{t.leg.name}: {t.describe()}" for t in fall.totals)])


def _draw_axis(svg: ET.Element, scale: Scale, floor: int) -> None:
    for index in range(TICKS):
        value = scale.low + (scale.high - scale.low) * index / (TICKS - 1)
        x = say_percent(scale.place(value))
        draw_line(svg, (x, x), (TOP, floor + 4), "grid")
        anchor = {0: "start", TICKS - 1: "end"}.get(index, "middle")
        draw_text(svg, x, floor + 18, ratio(value), "axis", anchor=anchor)
    zero = say_percent(scale.place(0.0))
    draw_line(svg, (zero, zero), (TOP, floor), "zero")


def _draw_bar(svg: ET.Element, scale: Scale, bar: Bar, top: int) -> None:
    row = _open_row(svg, bar.judged, bar.leg.name, top)
    _draw_box(row, scale, (bar.start, bar.end), top, _tone(bar.judged))
    if bar.known:
        _draw_whisker(row, scale, bar.end, half_width(bar.judged), top)


def _draw_total(svg: ET.Element, scale: Scale, fall: Fall, total: Total, top: int) -> None:
    start = next(bar.start for bar in fall.bars if bar.leg.first is total.leg.first)
    row = _open_row(svg, total.judged, f"measured directly: {total.leg.name}", top)
    direct = effect(total.judged)
    _draw_box(row, scale, (start, start + direct), top, "direct")
    if total.judged.verdict is not Speed.INVALID:
        _draw_whisker(row, scale, start + direct, half_width(total.judged), top)
    row = ET.SubElement(svg, "g", {"class": "row sum"})
    ET.SubElement(row, "title").text = total.describe()
    draw_text(row, "0%", top + ROW + 15, "product of the legs", "name")
    agrees = {True: "consistent", False: "INCONSISTENT", None: "not comparable"}[total.consistent]
    draw_text(row, "100%", top + ROW + 15, f"{ratio(total.sum)}, {agrees}", "said", anchor="end")
    _draw_box(row, scale, (start, start + total.sum), top + ROW, "sum")
    _draw_whisker(row, scale, start + total.sum, total.half_width, top + ROW)


def _open_row(svg: ET.Element, judged: Judged, name: str, top: int) -> ET.Element:
    row = ET.SubElement(svg, "g", {"class": f"row {judged.verdict.value.lower()}"})
    ET.SubElement(row, "title").text = f"{name}: {judged.verdict.value}, {say_effect(judged)}"
    draw_text(row, "0%", top + 15, cut_middle(name, LABEL), "name")
    said = judged.verdict.value
    said += f" {ratio(judged.center)}" if judged.quads else ""
    draw_text(row, "100%", top + 15, said, "said", anchor="end")
    return row


def _draw_box(
    row: ET.Element, scale: Scale, ends: tuple[float, float], top: int, kind: str
) -> None:
    left, right = sorted(map(scale.place, ends))
    box = {"x": say_percent(left), "width": say_percent(max(right - left, 0.3))}
    ET.SubElement(row, "rect", {"class": f"bar {kind}", "y": str(top + 20), "height": "12"} | box)


def _draw_whisker(row: ET.Element, scale: Scale, end: float, width: float, top: int) -> None:
    if width > 0:
        low, high = (say_percent(scale.place(end + side)) for side in (-width, width))
        draw_line(row, (low, high), (top + 26, top + 26), "interval")


def _tone(judged: Judged) -> str:
    if not judged.quads:
        return "none"
    if judged.verdict not in (Speed.FASTER, Speed.SLOWER):
        return "unsure"
    return "up" if judged.center > 0 else "down"
