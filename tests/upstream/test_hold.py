"""A child that runs beside us ends with its block, whatever it and the block do."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from upstream import process
from upstream.errors import CommandError

PARENT = "sleep 60 & echo child $!; wait"
DEAF = "trap '' TERM; sleep 60 & echo child $!; while :; do wait; done"


def wait_for_child(log: Path) -> int:
    end = time.monotonic() + 10
    while "child" not in log.read_text() and time.monotonic() < end:
        time.sleep(0.02)
    return int(log.read_text().split()[-1])


def is_gone(pid: int) -> bool:
    """Whether the process ended (a zombie that nobody reaped counts)."""
    for _ in range(500):  # a killed process still has to get its turn on a loaded machine
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("script", [PARENT, DEAF])
def test_the_whole_group_ends(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE", 0.2)
    log = tmp_path / "log"
    with process.hold(["sh", "-c", script], log) as held:
        child = wait_for_child(log)
        assert held.code is None
    assert held.code is not None
    assert is_gone(child)


def interrupt(log: Path) -> None:
    with process.hold(["sh", "-c", PARENT], log):
        wait_for_child(log)
        raise KeyboardInterrupt


def test_an_exception_in_the_block_ends_it_too(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path / "log")
    assert is_gone(wait_for_child(tmp_path / "log"))


def test_last_words_stay(tmp_path: Path) -> None:
    with process.hold(["sh", "-c", "seq 20; exit 7"], tmp_path / "log") as held:
        while held.code is None:
            time.sleep(0.01)
        assert held.code == 7
        assert held.last_words(2) == "19\n20"


def test_no_such_program(tmp_path: Path) -> None:
    with (
        pytest.raises(CommandError, match="127"),
        process.hold(["/no/such/program"], tmp_path / "log"),
    ):
        pass
