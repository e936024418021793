"""`python -m upstream` as a real child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOWHERE = "file:///nowhere/llama.cpp"


def start(*args: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-m", "upstream", *args),
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*args: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    child = start(*args, env=env)
    out, err = child.communicate(timeout=120)
    return subprocess.CompletedProcess(args, child.returncode, out, err)


def fetch(*args: str, env: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The versions that a successful fetch answers with."""
    done = run("fetch", "--json", "--upstream", "snapshots", *args, env=env)
    assert done.returncode == 0, done.stderr
    versions: list[dict[str, Any]] = json.loads(done.stdout)["versions"]
    return versions
