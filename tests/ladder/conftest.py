"""Real upstream snapshots for tests: imported once into the user's cache, then shared by link."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ladder.runner import LADDER, ROOT, Runner
from upstream.lab import Lab, open_lab
from validate.bench_build import borrow_objects


@pytest.fixture(scope="session")
def imported() -> Path:
    """The user's lab with the ladder's versions in it (downloads them when they are missing)."""
    done = subprocess.run(
        (sys.executable, "-m", "upstream", "fetch", "--upstream", "snapshots", *LADDER),
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return open_lab().root


@pytest.fixture
def runner(imported: Path, tmp_path: Path) -> Runner:
    """A lab of the test's own that borrows the imported objects."""
    borrow_objects(Lab(imported), tmp_path / "lab")
    return Runner(tmp_path / "lab")
