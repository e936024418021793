"""The simulation's table and picture in docs/explanation/method.md."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from upstream.errors import UsageError
from validate.bench_statistics import Outcome
from validate.cells import Speed
from validate.method_figure import (
    BEGIN,
    END,
    HEAD,
    draw_outcomes,
    store_simulation,
    tabulate_outcomes,
)
from validate.noise import MODELS

METHOD = Path(__file__).parents[2] / "docs" / "explanation" / "method.md"
OUTCOMES = [
    Outcome(
        noise,
        trials=100,
        verdicts={Speed.FASTER: 0.013, Speed.SAME: 0.987},
        found={Speed.SLOWER: 0.917},
        typical={},
        margin=0.05,
        quads=9.5,
        covered=0.95,
        blocked_alarms={"Mann-Whitney": 0.35, "Welch": 0.28},
        blocked_misses={"Mann-Whitney": 0.7, "Welch": 1.0},
    )
    for noise in MODELS
]


def test_document_keeps_its_words_and_gets_the_numbers(tmp_path: Path) -> None:
    document = tmp_path / "method.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        store_simulation(document, OUTCOMES)
        text = document.read_text()
        assert text == f"before\n{BEGIN}\n{tabulate_outcomes(OUTCOMES)}\n{END}\nafter\n"
    assert (tmp_path / "method.svg").read_text() == draw_outcomes(OUTCOMES)
    row = next(line for line in text.splitlines() if line.startswith("| very noisy"))
    assert row == (
        "| very noisy | 40 | 9.5 | 5.0 % | 1.3 % | 8.3 % | 98.7 % | 0.0 % | 0.0 % "
        "| 35.0 % | 70.0 % | 28.0 % | 100.0 % |"
    )


def test_a_document_without_a_place_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "method.md"
    document.write_text(f"{BEGIN}\nno end\n")
    with pytest.raises(UsageError):
        store_simulation(document, OUTCOMES)
    assert document.read_text() == f"{BEGIN}\nno end\n"


def test_picture_has_every_rate_as_text_and_as_length() -> None:
    root = ElementTree.fromstring(draw_outcomes(OUTCOMES))
    space = {"svg": "http://www.w3.org/2000/svg"}
    texts = [text.text for text in root.findall("svg:text", space)]
    for shown in ("1.3 %", "35.0 %", "28.0 %", "8.3 %", "70.0 %", "100.0 %"):
        assert texts.count(shown) == len(MODELS)
    bars = root.findall("svg:rect", space)[3:]  # after the legend
    assert len(bars) == 2 * 3 * len(MODELS)
    widths = {bar.get("width") for bar in bars if bar.get("class") == "mann"}
    assert widths == {"135.0", "270.0"}  # 35 % and 70 % of 70 %
    edge = float(root.get("viewBox", "").split()[2])
    assert all(float(bar.get("x", 0)) + float(bar.get("width", 0)) < edge for bar in bars)


def test_the_shipped_document_is_of_this_form() -> None:
    text = METHOD.read_text("utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert f"| {' | '.join(HEAD)} |" in text
    for noise in MODELS:
        assert f"| {noise.name} | {noise.runs} |" in text
    assert "](method.svg)" in text
    picture = METHOD.with_suffix(".svg").read_text("utf-8")
    assert all(noise.name in picture for noise in MODELS)
