"""`python -m validate run` and the speed: options, exit codes, interruption. Stand-ins (fakes)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stand_ins import change_core
from test_validate_command import ROOT, record, run
from tiny_project import Change

from upstream.lab import Lab, hold_lock
from validate.models import SMOLLM2

SPEED = "return 1e6;"
SLOWER = change_core("0001-slower.patch", SPEED, "return 0.8e6;")
# Each process takes a moment, so that there is time to kill the run.
SLEEPY = change_core("0001-sleepy.patch", SPEED, 'return std::system("sleep 0.02") + 1.3e6;')
NOTE = Change("0001-note.patch", {"README.md": "changed\n"})


@pytest.fixture
def directory(lab: Lab, tmp_path: Path) -> Path:
    """An empty series directory; the model is a placeholder, the stand-ins never read it."""
    (lab.root / "models").mkdir()
    with (lab.root / "models" / SMOLLM2.name).open("wb") as file:
        file.truncate(SMOLLM2.size)
    (tmp_path / "series" / "patches").mkdir(parents=True)
    return tmp_path / "series"


def judge(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run("run", "--series", str(directory), *options)


def speed_of(done: subprocess.CompletedProcess[str]) -> str | None:
    """The verdict of the one step's speed; the other checks have tests of their own."""
    (step,) = json.loads(done.stdout)["steps"]
    found = [check["verdict"] for check in step["checks"] if check["check"] == "speed"]
    return found[0] if found else None


def read_samples(lab: Lab) -> list[tuple[int, int, int]]:
    """Session, quad and position of every stored sample, in order."""
    path = lab.root / "results" / "samples.sqlite"
    if not path.exists():
        return []
    base = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    try:
        query = "SELECT session, quad, position FROM samples ORDER BY id"
        return list(base.execute(query))
    except sqlite3.OperationalError:  # its tables are just being made
        return []
    finally:
        base.close()


def test_a_slower_step_ends_with_1_and_its_samples_can_be_had(lab: Lab, directory: Path) -> None:
    record(lab, directory, [SLOWER])
    done = judge(directory, "--json")
    assert done.returncode == 1, done.stderr
    assert speed_of(done) == "SLOWER"
    assert "speed of 0001-slower.patch against base: llama-bench (pp64, tg32)" in done.stderr
    assert "again to confirm" in done.stderr
    rows = run("samples").stdout.splitlines()
    assert len(rows) == len(read_samples(lab))
    assert json.loads(rows[0])["key"]["model"] == SMOLLM2.sha256
    page = (lab.root / "report" / "index.html").read_text()
    assert "0001-slower against base:" in page  # the table for a pull request


def test_without_a_profile_no_speed_is_measured(lab: Lab, directory: Path) -> None:
    record(lab, directory, [SLOWER])
    assert speed_of(judge(directory, "--profile", "none", "--json")) is None
    assert read_samples(lab) == []


def test_without_time_a_speed_is_inconclusive(lab: Lab, directory: Path) -> None:
    record(lab, directory, [SLOWER])
    assert speed_of(judge(directory, "--json", "--budget", "0.001")) == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--profile", "quik"), 2, "take one of quick, full, none"),
        (("--model", "/nowhere/model.gguf"), 2, "cannot be read"),
        (("--model", "{readme}"), 2, "is no GGUF file"),
        (("--model", "{broken}"), 4, "unknown model architecture"),
        (("--device", "Vulkna0"), 4, "there is no device Vulkna0: the program lists no device"),
        (("--budget", "-3"), 2, "invalid"),
        (("--budget", "nan"), 2, "invalid"),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(
    lab: Lab, directory: Path, tmp_path: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    record(lab, directory, [SLOWER])
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing more")
    names = {"{readme}": str(ROOT / "README.md"), "{broken}": str(broken)}
    done = judge(directory, *(names.get(option, option) for option in options))
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert read_samples(lab) == []


def test_a_database_in_use_ends_with_3(lab: Lab, directory: Path) -> None:
    record(lab, directory, [NOTE])
    with hold_lock(lab, "samples"):
        done = judge(directory)
    assert done.returncode == 3
    assert "another run holds the lock" in done.stderr


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_goes_on_where_it_was(
    lab: Lab, directory: Path, signal_number: signal.Signals
) -> None:
    record(lab, directory, [SLEEPY])
    command = [sys.executable, "-m", "validate", "run", "--series", str(directory)]
    started = subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=os.environ
    )
    deadline = time.monotonic() + 120
    while len(read_samples(lab)) < 30 and time.monotonic() < deadline:
        time.sleep(0.02)
    started.send_signal(signal_number)
    started.communicate(timeout=60)
    assert started.returncode in (-9, 130)
    kept = read_samples(lab)
    assert len(kept) >= 30
    assert speed_of(judge(directory, "--json")) == "FASTER"
    rows = read_samples(lab)
    assert rows[: len(kept)] == kept
    assert {session for session, _, _ in rows} == {1}  # the same session went on
