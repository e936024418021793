"""The page in headless Chromium: both widths, both schemes, paper, without scripts.

Without Chromium these tests skip; LAB_REQUIRE_CHROMIUM=1 (set by .ci/run) makes that a failure.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from browser import Page
from sample_report import SAMPLE

from validate.html_report import write_report
from validate.report_model import Report

Scheme = Literal["light", "dark"]
WIDTHS = (390, 1280)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
# Letters that are cut: neither inside of the window nor inside of a box that scrolls.
OUTSIDE = """
[...document.querySelectorAll("body *")]
  .filter(each => !each.closest(".scroll, pre, .hidden, .word, svg"))
  .filter(each => each.getBoundingClientRect().right > innerWidth + 0.5)
  .map(each => each.outerHTML.slice(0, 80))
"""
OVERLAPS = """
[...document.querySelectorAll("svg.forest .row")].filter(row => {
  const box = kind => row.querySelector(kind).getBoundingClientRect();
  return box(".name").right + 4 > box(".said").left;
}).map(row => row.textContent)
"""
LETTERS = """
Math.min(...[...document.querySelectorAll("body *")]
  .filter(each => each.childNodes.length && each.textContent.trim())
  .map(each => parseFloat(getComputedStyle(each).fontSize)))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


def crowded() -> Report:
    """40 steps with names as long as they get, and checks that say much."""
    (topic, *others) = SAMPLE.topics
    assert SAMPLE.tip is not None
    cells = tuple(
        replace(one, cell=replace(one.cell, name="MUL_MAT_ID(type_a=Q4_1," * 9))
        for one in SAMPLE.tip.cells
    )
    speed = replace(SAMPLE.tip, cells=cells)
    steps = [
        replace(step, patch=f"{number:02}-{'name' * 30}.patch", speed=speed)
        for number, step in enumerate(SAMPLE.steps * 8)
    ]
    return replace(SAMPLE, topics=(replace(topic, steps=tuple(steps)), *others[3:]))


def read_pixels(png: bytes) -> tuple[int, int, int]:
    """Width, height and the number of distinct colours among a sample of an 8-bit PNG's pixels."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind) in ((8, 2), (8, 6))
    size = 3 if kind == 2 else 4
    rows = zlib.decompress(b"".join(_data_chunks(png)))
    # Differences to the neighbour (filters) are as varied as the pixels: enough to tell from blank.
    return width, height, len({rows[i : i + size] for i in range(0, len(rows), 97 * size)})


def _data_chunks(png: bytes) -> Iterator[bytes]:
    place = 8
    while place < len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        if kind == b"IDAT":
            yield png[place + 8 : place + 8 + length]
        place += length + 12


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", [lambda: SAMPLE, crowded], ids=["sample", "crowded"])
def test_fits(page: Page, folder: Path, make: Callable[[], Report], width: int) -> None:
    path = write_report(make(), folder / "index.html")
    page.show(path.as_uri(), width, "light")
    assert page.ask("innerWidth") == width
    assert page.ask("document.documentElement.scrollWidth") == width
    assert page.ask(OUTSIDE) == []
    assert page.ask(OVERLAPS) == []
    letters = page.ask(LETTERS)
    assert isinstance(letters, int | float)
    assert letters >= 11


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_screenshots(page: Page, folder: Path, width: int, scheme: Scheme) -> None:
    path = write_report(SAMPLE, folder / "index.html")
    page.show(path.as_uri(), width, scheme)
    shot = page.screenshot()
    (folder / f"{width}-{scheme}.png").write_bytes(shot)
    found_width, height, colours = read_pixels(shot)
    assert found_width == width
    assert height > 2000
    assert colours > 100


def test_the_schemes_differ(page: Page, folder: Path) -> None:
    path = write_report(SAMPLE, folder / "index.html")
    grounds = []
    for scheme in SCHEMES:
        page.show(path.as_uri(), 1280, scheme)
        grounds.append(page.ask(BACKGROUND))
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 26)"]


def test_asks_for_nothing_but_itself(page: Page, folder: Path) -> None:
    path = write_report(SAMPLE, folder / "index.html")
    page.requests.clear()
    page.show(path.as_uri(), 1280, "light")
    assert page.requests == [path.as_uri()]


def test_paper_is_white_in_the_dark_too(page: Page, folder: Path) -> None:
    path = write_report(SAMPLE, folder / "index.html")
    page.show(path.as_uri(), 1280, "dark")
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.call("Emulation.setEmulatedMedia", media="print", features=dark)
    try:
        assert page.ask(BACKGROUND) == "rgb(255, 255, 255)"
        assert page.ask("getComputedStyle(document.querySelector('nav')).display") == "none"
    finally:
        page.call("Emulation.setEmulatedMedia", media="")
