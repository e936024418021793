"""The command line of shape models as a process, for tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from validate.shape_models.__main__ import make_parser

ROOT = Path(__file__).parent.parent.parent
COMMAND = (sys.executable, "-m", "validate.shape_models")


def run_shapes(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run to the end with output captured."""
    command = [*COMMAND, *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def call_shapes(*words: str | Path) -> int:
    """The same in this process: quicker, and errors come as they are."""
    args = make_parser().parse_args([str(word) for word in words])
    code: int = args.run(args)
    return code
