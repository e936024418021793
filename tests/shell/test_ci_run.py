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
echo "require chromium: $LAB_REQUIRE_CHROMIUM"
[ "$2" != "$FAILING" ] || exit 4
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in (".ci", "ci"):
        (tmp_path / name).mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "ci" / "nox").write_text(FAKE_LAUNCHER)
    (tmp_path / "ci" / "nox").chmod(0o755)
    fake(tmp_path, "chromium")
    fake(tmp_path, "debootstrap")
    return tmp_path


def fake(checkout: Path, name: str, text: str = "#!/bin/sh\n") -> Path:
    """A program that is found before the machine's own."""
    path = checkout / "programs" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def run_ci(checkout: Path, failing: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    calls = checkout / "calls"
    env = {"CALLS": os.fspath(calls), "FAILING": failing, "LAB_DIR": os.fspath(checkout / "lab")}
    env["PATH"] = f"{checkout / 'programs'}{os.pathsep}{os.environ['PATH']}"
    done = run("bash", ".ci/run", env=env, cwd=checkout)
    return done, calls.read_text().split("\n")[:-1]


def test_runs_every_stage(checkout: Path) -> None:
    done, calls = run_ci(checkout, "")
    assert done.returncode == 0, done.stderr
    assert calls == ["-s lint", "-s doctor", "-s tests", "-s e2e"]
    assert done.stdout.splitlines()[-1].startswith("== all passed")
    assert done.stdout.count("require chromium: 1") == 4


def test_ends_with_the_code_of_the_first_failing_stage(checkout: Path) -> None:
    done, calls = run_ci(checkout, "tests")
    assert done.returncode == 4
    assert calls[-1] == "-s tests"
    assert "all passed" not in done.stdout


APT = """#!/bin/sh
echo "$@" >> "$APT_CALLS"
"""
PROGRAMS = ("bash", "dirname", "mkdir", "tr", "git", "g++", "python3", "id", "sh")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs")
def test_installs_what_is_missing(checkout: Path) -> None:
    (checkout / "programs" / "chromium").unlink()
    fake(checkout, "apt-get", APT)
    for name in PROGRAMS:
        place = shutil.which(name)
        assert place is not None
        (checkout / "programs" / name).symlink_to(place)
    apt_calls = checkout / "apt"
    env = {
        "PATH": os.fspath(checkout / "programs"),
        "APT_CALLS": os.fspath(apt_calls),
        "CALLS": os.fspath(checkout / "calls"),
        "FAILING": "",
        "LAB_DIR": os.fspath(checkout / "lab"),
    }
    done = run("bash", ".ci/run", env=env, cwd=checkout)
    assert done.returncode == 0, done.stderr
    _, install = apt_calls.read_text().splitlines()
    missing = ["chromium", "fonts-dejavu-core", "g++-aarch64-linux-gnu", "qemu-user"]
    assert install.split()[-4:] == missing
