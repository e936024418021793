"""The page of a report as text: whole, escaped, self-contained, readable in both schemes."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sample_report import PP, SAMPLE, judged

from upstream.errors import EnvironmentFault
from validate.cells import Speed
from validate.html_report import MARKS, TEMPLATES, name_anchors, render_report, write_report
from validate.report_model import Comparison, Report, StepReport, TopicReport, document
from validate.verdict import ORDER, CheckResult, Verdict

VOID = {"meta", "br", "hr", "img", "input", "link", "wbr", "col"}
EVIL = '<script>alert("1")</script>\'&.patch'


class Page(HTMLParser):
    """A page that was read strictly: every tag is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        names = [name for name, _ in attrs]
        assert len(names) == len({*names}), (tag, names)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, key, value in self.attributes if key == name]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def with_steps(*steps: StepReport) -> Report:
    return replace(SAMPLE, topics=(TopicReport("topic", "Topic", steps),))


def test_every_step_and_every_check_is_there() -> None:
    page = Page(render_report(SAMPLE))
    for topic in SAMPLE.topics:
        assert topic.title in page.text
        assert all(note in page.text for note in topic.notes)
    for step in SAMPLE.steps:
        assert page.text.count(step.patch) >= 2  # in the heat table and in its own section
        for check in step.checks:
            assert check.check in page.text
            assert check.detail in page.text
        for cell in step.speed.cells if step.speed else ():
            assert cell.cell.name in page.text
            assert cell.reason in page.text
    for line in (*SAMPLE.not_measured, *(each.reason for each in SAMPLE.skipped)):
        assert line in page.text
    for value in (*SAMPLE.header.machine.values(), *SAMPLE.header.toolchain.values()):
        assert value in page.text
    header = SAMPLE.header
    assert header.tip_tree in page.values("title")
    for value in (header.upstream, header.provider, header.date, header.tip_tree[:12]):
        assert value in page.text


def test_the_heat_table_has_a_cell_for_every_step_and_check() -> None:
    text = render_report(SAMPLE)
    heat = text[text.index('<table class="heat">') : text.index("</table>")]
    names = {check.check for step in SAMPLE.steps for check in step.checks} | {"speed"}
    assert heat.count("<td>") == len(names) * len(SAMPLE.steps)
    assert all(f'<th scope="col">{name}</th>' in heat for name in names)


def test_links_inside_lead_somewhere_and_ids_are_unique() -> None:
    page = Page(render_report(SAMPLE))
    ids = Counter(page.values("id"))
    assert not [name for name, number in ids.items() if number > 1]
    inside = {value[1:] for value in page.values("href") if value.startswith("#")}
    inside |= {name for value in page.values("aria-labelledby") for name in value.split()}
    assert inside <= ids.keys()
    assert set(name_anchors(SAMPLE).values()) <= inside


def test_logs_are_links_to_files() -> None:
    links = {value for value in Page(render_report(SAMPLE)).values("href") if value[0] != "#"}
    assert links
    assert all(link.startswith("file:///home/ada/.cache/") for link in links)


def test_nothing_is_loaded_and_nothing_runs() -> None:
    text = render_report(SAMPLE)
    page = Page(text)
    assert not page.tags.keys() & {"script", "link", "img", "iframe", "object", "base"}
    assert not [name for _, name, _ in page.attributes if name in ("src", "srcset", "style")]
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_hostile_names_stay_text() -> None:
    cell = replace(judged(PP, Speed.SLOWER, -9.0, 1.0), reason=EVIL)
    step = StepReport(
        patch=EVIL,
        parent=EVIL,
        verdict=Verdict.FAIL,
        checks=(CheckResult(EVIL, Verdict.FAIL, EVIL, {EVIL: [EVIL]}),),
        speed=Comparison(EVIL, EVIL, (cell,)),
        claims={EVIL: EVIL},
    )
    report = replace(with_steps(step), not_measured=(EVIL,), pr_text=EVIL)
    page = Page(render_report(report))
    assert "script" not in page.tags
    assert page.text.count("alert(") >= 8


def test_no_step_was_compared() -> None:
    steps = tuple(replace(step, speed=None) for step in SAMPLE.steps)
    text = render_report(replace(with_steps(*steps), tip=None))
    assert "svg" not in Page(text).tags
    assert ">speed</th>" not in text
    assert "seen twice" not in text  # nor is a symbol explained that does not occur


def test_nothing_to_find_is_said() -> None:
    check = CheckResult("archs", Verdict.PASS, "130 archs")
    page = Page(
        render_report(
            replace(with_steps(StepReport("p", "base", Verdict.PASS, (check,))), tip=None)
        )
    )
    assert "Nothing: every check of every step holds" in page.text


def test_a_step_that_was_never_judged_is_shown_as_such() -> None:
    page = Page(render_report(with_steps(StepReport("p.patch", "", None))))
    assert "not judged" in page.text


def test_forty_steps_with_very_long_names() -> None:
    steps = [
        replace(SAMPLE.steps[0], patch=f"{number:02}-{'very-long-' * 20}.patch")
        for number in range(40)
    ]
    page = Page(render_report(with_steps(*steps)))
    assert all(page.text.count(step.patch) >= 2 for step in steps)
    assert page.tags["article"] == 40
    assert len({*page.values("id")}) == len(page.values("id"))


def test_all_cells_identical_need_no_plot() -> None:
    (step,) = (step for step in SAMPLE.steps if step.patch == "vulkan-mul-mm-pad.patch")
    page = Page(render_report(replace(with_steps(step), tip=None)))
    assert "svg" not in page.tags
    assert "so there was nothing to run" in page.text


def test_every_verdict_has_a_symbol_of_its_own() -> None:
    assert {each.value for each in (*ORDER, *Speed)} == MARKS.keys()
    symbols = [mark.symbol for mark in MARKS.values()]
    assert len(symbols) == len({*symbols})  # never told by colour alone


def test_made_up_numbers_are_labelled() -> None:
    assert "Sample data" in Page(render_report(SAMPLE)).text
    real = replace(SAMPLE, header=replace(SAMPLE.header, sample=False))
    assert "Sample data" not in Page(render_report(real)).text


def test_the_report_is_json() -> None:
    text = json.dumps(document(SAMPLE), allow_nan=False)
    found = json.loads(text)
    assert [step["patch"] for topic in found["topics"] for step in topic["steps"]] == [
        step.patch for step in SAMPLE.steps
    ]
    invalid = found["topics"][2]["steps"][0]["speed"]["cells"][-1]
    assert (invalid["verdict"], invalid["low"]) == ("INVALID", None)


def test_the_file_is_written_whole(tmp_path: Path) -> None:
    path = write_report(SAMPLE, tmp_path / "new" / "index.html")
    assert path.read_text("utf-8") == render_report(SAMPLE)
    assert [each.name for each in path.parent.iterdir()] == ["index.html"]


def test_the_page_about_shaders_is_linked_where_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    assert "isa.html" not in write_report(SAMPLE, path).read_text("utf-8")
    (tmp_path / "isa.html").write_text("")
    assert '<a href="isa.html">' in write_report(SAMPLE, path).read_text("utf-8")


def test_a_place_that_cannot_be_written_is_an_environment_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="cannot write the report"):
        write_report(SAMPLE, tmp_path / "file" / "index.html")


def read_palettes() -> dict[str, dict[str, str]]:
    """The custom properties of the style sheet for both schemes and paper."""
    css = (TEMPLATES / "report.css").read_text("utf-8")
    blocks = re.findall(r"(@media[^{]*)?(?:\{\s*)?:root \{(.*?)\}", css, re.DOTALL)
    found = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for _, block in blocks]
    assert len(found) == 3
    return dict(zip(("light", "dark", "print"), found, strict=True))


def contrast(one: str, other: str) -> float:
    """https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio"""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_right() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_has_the_contrast_of_wcag_aa(scheme: str) -> None:
    colours = read_palettes()[scheme]
    tones = ("good", "same", "info", "warn", "bad")
    pairs = [(ink, ground) for ink in ("ink", "muted", "link") for ground in ("page", "panel")]
    pairs += [(tone, f"{tone}-bg") for tone in tones]
    pairs += [(tone, ground) for tone in tones for ground in ("page", "panel")]  # in the plots
    low = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert not {pair: ratio for pair, ratio in low.items() if ratio < 4.5}
    # Graphics: the zero line, and intervals on the margin band.
    lines = [("axis", ground) for ground in ("page", "panel")]
    lines += [(tone, "band") for tone in ("good", "warn", "bad")]
    assert not [pair for pair in lines if contrast(colours[pair[0]], colours[pair[1]]) < 3]


def test_both_schemes_and_paper_define_the_same_colours() -> None:
    light, dark, paper = read_palettes().values()
    assert light.keys() == dark.keys() == paper.keys()
    used = set(re.findall(r"var\(--([\w-]+)\)", (TEMPLATES / "report.css").read_text("utf-8")))
    assert used == light.keys()


def test_a_check_for_speed_points_to_its_cells() -> None:
    check = CheckResult("speed", Verdict.SAME, "pp512 SAME, told at length", {"cells": ["a", "b"]})
    step = replace(SAMPLE.steps[1], checks=(check,))
    page = Page(render_report(with_steps(step)))
    assert "4 cells, below" in page.text
    assert "numbers" not in page.text.split("How to read")[0].split("Topic")[1]
    alone = Page(render_report(with_steps(replace(step, speed=None))))
    assert "told at length" in alone.text
