"""A lab of its own for every test, one browser for those that need it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Page, find_chromium, open_page

from upstream.git import Git
from upstream.lab import Lab, open_lab
from validate.isa.workshop import Workshop, open_workshop


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """An empty lab; ccache too starts empty."""
    monkeypatch.setenv("LAB_DIR", str(tmp_path / "lab"))
    monkeypatch.delenv("CCACHE_DIR", raising=False)
    return open_lab()


@pytest.fixture
def shop(lab: Lab) -> Iterator[Workshop]:
    """The workshop of `nox -s isa` and `nox -s hip` in an empty lab."""
    git = Git(lab.repository)
    git.create()
    with open_workshop(lab, git) as shop:
        yield shop


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A tab of headless Chromium."""
    program = find_chromium()
    if program is None and os.environ.get("LAB_REQUIRE_CHROMIUM"):
        pytest.fail("LAB_REQUIRE_CHROMIUM is set and there is no chromium")
    if program is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with open_page(program, tmp_path_factory.mktemp("profile")) as found:
        yield found
