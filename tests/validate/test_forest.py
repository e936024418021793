"""The forest plot: where things are drawn, what is written beside them, what is cut off."""

from __future__ import annotations

import math
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_report import PP, SAMPLE, TG, identical, judged

from validate.cells import Cell, Judged, Speed
from validate.forest import EDGE, LABEL, Axis, choose_axis, draw_forest, say_effect
from validate.report_model import Comparison

AXIS = Axis(10.0)
LOGS = st.floats(-1.0, 1.0)


def draw(*cells: Judged, axis: Axis = AXIS) -> ET.Element:
    return ET.fromstring(draw_forest(Comparison("step", "base", cells), axis, "plot"))


def find(svg: ET.Element, kind: str) -> list[ET.Element]:
    return [each for each in svg.iter() if each.get("class") == kind]


def at(element: ET.Element, name: str) -> float:
    text = element.attrib[name]
    assert text.endswith("%")
    return float(text[:-1])


@given(LOGS, LOGS, st.floats(0.5, 100))
def test_places_are_monotone_and_inside(one: float, other: float, span: float) -> None:
    axis = Axis(span)
    low, high = sorted((one, other))
    assert EDGE <= axis.place(low) <= axis.place(high) <= 100 - EDGE
    if axis.holds(low) and axis.holds(high) and high - low > 1e-9:
        assert axis.place(low) < axis.place(high)


def test_zero_is_in_the_middle_and_ends_at_the_edges() -> None:
    assert AXIS.place(0.0) == 50
    assert AXIS.place(math.log(1.1)) == pytest.approx(100 - EDGE)
    assert AXIS.place(math.log(0.9)) == pytest.approx(EDGE)


def test_a_row_shows_estimate_interval_margin_and_zero() -> None:
    svg = draw(judged(PP, Speed.SAME, 0.5, 0.8))
    (interval,), (dot,), (margin,) = (
        find(svg, kind) for kind in ("interval", "estimate", "margin")
    )
    (zero,) = find(svg, "zero")
    assert at(interval, "x1") < at(dot, "cx") < at(interval, "x2")
    assert at(margin, "x") < at(interval, "x1")
    assert at(interval, "x2") < at(margin, "x") + at(margin, "width")
    assert at(zero, "x1") == at(zero, "x2") == 50
    assert at(dot, "cx") > 50
    assert len(find(svg, "cap")) == 2
    assert not find(svg, "arrow")


def test_rows_are_below_each_other_and_inside() -> None:
    cells = [judged(Cell("t", f"c{i}", "t/s", 0.02), Speed.SAME, 0.1 * i, 1.0) for i in range(40)]
    svg = draw(*cells)
    heights = [float(dot.attrib["cy"]) for dot in find(svg, "estimate")]
    assert len(heights) == 40
    assert all(b - a >= 30 for a, b in pairwise(heights))
    assert heights[-1] < float(svg.attrib["height"])


def test_what_leaves_the_drawing_ends_in_an_arrow() -> None:
    svg = draw(judged(PP, Speed.INCONCLUSIVE, 2.0, 30.0))
    left, right = find(svg, "arrow")
    assert (at(left, "x"), at(right, "x")) == (EDGE, 100 - EDGE)
    assert not find(svg, "cap")
    assert at(find(svg, "estimate")[0], "cx") > 50


def test_an_interval_without_an_end_has_an_arrow_there() -> None:
    svg = draw(Judged(PP, Speed.INCONCLUSIVE, 0.0, quads=2, margin=0.02))
    assert len(find(svg, "arrow")) == 2
    assert "\u221e" in "".join(svg.itertext())


@pytest.mark.parametrize(("center", "edge"), [(-40.0, EDGE), (40.0, 100 - EDGE)])
def test_an_interval_outside_is_one_arrow_towards_it(center: float, edge: float) -> None:
    svg = draw(judged(PP, Speed.SLOWER, center, 2.0))
    (arrow,) = find(svg, "arrow")
    assert at(arrow, "x") == edge
    assert not find(svg, "estimate")
    assert not find(svg, "interval")


@pytest.mark.parametrize("cell", [identical(PP), Judged(PP, Speed.INVALID, reason="no device")])
def test_what_was_not_measured_has_no_dot(cell: Judged) -> None:
    svg = draw(cell)
    assert not find(svg, "estimate") + find(svg, "interval")
    assert cell.verdict.value in "".join(svg.itertext())


def test_the_drawing_has_a_name_and_a_description_in_words() -> None:
    cells = (judged(PP, Speed.FASTER, 4.0, 1.0), judged(TG, Speed.SLOWER, -3.0, 1.0))
    svg = draw(*cells)
    title, text = svg.attrib["aria-labelledby"].split()
    by_id = {each.get("id"): each.text or "" for each in svg.iter()}
    assert svg.attrib["role"] == "img"
    assert by_id[title] == "Speed of step against base"
    for cell in cells:
        assert f"{cell.cell.name}: {cell.verdict.value}, {say_effect(cell)}" in by_id[text]


def test_a_long_name_is_cut_and_kept_whole_in_its_title() -> None:
    name = "MUL_MAT_ID" + "(type_a=q4_1,type_b=f32)" * 9
    svg = draw(judged(Cell("test-backend-ops", name, "us", 0.03), Speed.SAME, 0.0, 1.0))
    (label,) = find(svg, "name")
    assert label.text is not None
    assert len(label.text) == LABEL
    assert any(name in (title.text or "") for title in svg.iter("title"))


def test_names_are_escaped() -> None:
    cell = judged(Cell("<b>", "<script>&'\"", "t/s", 0.02), Speed.SAME, 0.0, 1.0)
    text = draw_forest(Comparison("</svg>", "<i>", (cell,)), AXIS, "plot")
    assert "<script" not in text
    assert text.count("</svg>") == 1
    assert find(ET.fromstring(text), "name")[0].text == "<script>&'\""


def test_without_cells_there_is_no_drawing() -> None:
    assert draw_forest(Comparison("step", "base", ()), AXIS, "plot") == ""


@pytest.mark.parametrize(
    ("cells", "span"),
    [
        ((), 2.0),
        ((identical(PP),), 2.0),
        ((judged(PP, Speed.SAME, 0.1, 0.5),), 3.0),
        ((judged(PP, Speed.FASTER, 4.0, 0.9),), 5.0),
        ((judged(PP, Speed.SAME, 0.1, 0.5), judged(TG, Speed.SLOWER, -60.0, 5.0)), 10.0),
        ((Judged(PP, Speed.INCONCLUSIVE, margin=0.02),), 3.0),
    ],
)
def test_the_scale_shows_the_intervals_and_one_wild_cell_does_not_flatten_it(
    cells: tuple[Judged, ...], span: float
) -> None:
    assert choose_axis(cells).span == span


def test_the_margin_is_always_inside_of_the_scale() -> None:
    for speed in (step.speed for step in SAMPLE.steps):
        for cell in speed.cells if speed else ():
            assert choose_axis([cell]).holds(cell.margin)
