"""The repository's own series as a stack, for the tests that build llama.cpp."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from series.manifest import load_series
from series.model import Stack
from series.stack import load_stack
from upstream.git import Git
from upstream.lab import Lab

ROOT = Path(__file__).parent.parent.parent
SERIES = ROOT / "series"


def provide_stack(lab: Lab) -> Stack:
    """The series on its base, by the command that a user types."""
    base = str(load_series(SERIES).base)
    command = (sys.executable, "-m", "series", "rebase", "--onto", base)
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    found = load_stack(Git(lab.repository), load_series(SERIES))
    assert found is not None
    return found
