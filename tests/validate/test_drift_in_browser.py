"""The drift map in headless Chromium: both widths, both schemes, cells that open their hunks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from browser import Page
from drift_map import make_planted_map
from test_report_in_browser import OUTSIDE

from validate.drift.html import write_map
from validate.drift.model import Drift

SHOWN = "!!document.querySelector(':target') && document.querySelector(':target').checkVisibility()"


@pytest.fixture(scope="module")
def drift(tmp_path_factory: pytest.TempPathFactory) -> Drift:
    return make_planted_map(tmp_path_factory.mktemp("map"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


def crowd(drift: Drift) -> Drift:
    """13 versions and patch names as long as they get."""
    rows = []
    for row in drift.rows:
        alone = replace(row.carried.alone, patch=f"{'name' * 30}-{row.patch}")
        cells = tuple(replace(cell) for _ in range(5) for cell in row.cells)[:13]
        carried = replace(row.carried, alone=alone)
        rows.append(replace(row, carried=carried, cells=cells, churn=(123456,) * 13))
    return replace(drift, versions=(drift.versions * 5)[:13], rows=tuple(rows))


@pytest.mark.parametrize("width", [390, 1280])
def test_fits(page: Page, folder: Path, drift: Drift, width: int) -> None:
    for each in (drift, crowd(drift)):
        path = write_map(each, folder / "drift.html")
        page.show(path.as_uri(), width, "light")
        assert page.ask("innerWidth") == width
        assert page.ask("document.documentElement.scrollWidth") == width
        assert page.ask(OUTSIDE) == []


def test_both_schemes(page: Page, folder: Path, drift: Drift) -> None:
    path = write_map(drift, folder / "drift.html")
    grounds = []
    for scheme in ("light", "dark"):
        page.show(path.as_uri(), 1280, scheme)  # type: ignore[arg-type]
        grounds.append(page.ask("getComputedStyle(document.body).backgroundColor"))
        (folder / f"{scheme}.png").write_bytes(page.screenshot())
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 26)"]


def test_a_cell_opens_its_hunks_without_script(page: Page, folder: Path, drift: Drift) -> None:
    path = write_map(drift, folder / "drift.html")
    page.requests.clear()
    page.show(path.as_uri(), 1280, "light")
    assert page.requests == [path.as_uri()]
    links = page.ask("[...document.querySelectorAll('a.cell')].map(each => each.hash)")
    assert isinstance(links, list)
    assert len(links) >= 15
    assert page.ask(SHOWN) is False
    page.ask("document.querySelectorAll('a.cell')[3].click() || true")
    assert page.ask(SHOWN) is True
