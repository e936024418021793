"""A lab of its own and a local package index for every test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.upstream.local_index import LocalIndex, serve_index
from tests.upstream.packages import make_sdist, tree_files
from upstream.git import Git
from upstream.lab import Lab, open_lab


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """An empty cache in a folder with spaces."""
    monkeypatch.setenv("LAB_DIR", str(tmp_path / "lab with spaces"))
    return open_lab()


@pytest.fixture
def git(lab: Lab) -> Git:
    made = Git(lab.repository)
    made.create()
    return made


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalIndex]:
    """A local index that serves b100, b200 and b300, and packages without a build number."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serve_index() as served:
        monkeypatch.setenv("PIP_INDEX_URL", served.url)
        served.add("xllamacpp-0.2.14.tar.gz", b"no upstream tree in here")
        for month, build in ((1, 100), (2, 200), (3, 300)):
            version = f"2026.{month}.{build}"
            content = make_sdist(version, tree_files(build))
            served.add(f"xllamacpp-{version}.tar.gz", content, f"2026-0{month}-01T00:00:00Z")
        yield served


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What the library logs, also after a command of this process took its logger over."""
    logger = logging.getLogger("lab")
    logger.propagate = True
    caplog.set_level(logging.INFO, logger="lab")
    return caplog
