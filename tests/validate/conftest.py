"""A lab of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from upstream.lab import Lab, open_lab


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """An empty lab; ccache too starts empty."""
    monkeypatch.setenv("LAB_DIR", str(tmp_path / "lab"))
    monkeypatch.delenv("CCACHE_DIR", raising=False)
    return open_lab()
