"""Runs the project's commands on a lab of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LADDER = ("b10566", "b10809", "b11063", "b11549")


@dataclass(frozen=True)
class Runner:
    """Runs the project's commands as a user would, on a lab of the test's own."""

    lab: Path

    def run(self, *args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        """`python -m ...` with that lab; output captured."""
        env = {**os.environ, "LAB_DIR": str(self.lab), "PYTHONPATH": str(ROOT)}
        command = (sys.executable, "-m", *args)
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)

    def rebase(self, series: Path, *args: str) -> tuple[int, dict[str, object], str]:
        """`nox -s rebase`'s command with --json: exit code, document, stderr."""
        done = self.run("series", "rebase", "--series", str(series), "--upstream", "snapshots",
                        "--json", *args)  # fmt: skip
        document = json.loads(done.stdout) if done.stdout else {}
        return done.returncode, document, done.stderr
