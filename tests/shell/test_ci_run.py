"""The script that continuous integration runs, over a launcher that only reports."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.shell.support import ROOT, run

FAKE_LAUNCHER = """#!/bin/sh
echo "$@" >> "$CALLS"
[ "$2" != "$FAILING" ] || exit 4
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in (".ci", "ci"):
        (tmp_path / name).mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "ci" / "nox").write_text(FAKE_LAUNCHER)
    (tmp_path / "ci" / "nox").chmod(0o755)
    return tmp_path


def run_ci(checkout: Path, failing: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    calls = checkout / "calls"
    env = {"CALLS": os.fspath(calls), "FAILING": failing, "LAB_DIR": os.fspath(checkout / "lab")}
    done = run("bash", ".ci/run", env=env, cwd=checkout)
    return done, calls.read_text().split("\n")[:-1]


def test_runs_every_stage(checkout: Path) -> None:
    done, calls = run_ci(checkout, "")
    assert done.returncode == 0, done.stderr
    assert calls == ["-s lint", "-s doctor", "-s tests", "-s e2e"]
    assert done.stdout.splitlines()[-1].startswith("== all passed")


def test_ends_with_the_code_of_the_first_failing_stage(checkout: Path) -> None:
    done, calls = run_ci(checkout, "tests")
    assert done.returncode == 4
    assert calls[-1] == "-s tests"
    assert "all passed" not in done.stdout
