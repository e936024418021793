"""Ctrl-C and SIGTERM to a command: its children end, whichever thread waits for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.upstream.test_hold import is_gone
from upstream.errors import ExitCode

# Two threads wait for a child each and would start two more; the main thread waits for them.
PROGRAM = """
import argparse, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from upstream import process
from upstream.edge import run_command

def wait(number):
    script = f"sleep 60 & echo $! > {sys.argv[1]}/child-{number}; wait"
    done = process.run(("sh", "-c", script), ok=range(-64, 256))
    Path(sys.argv[1], f"believed-{number}").write_text(str(done.code))

def command(args):
    if sys.argv[2] == "main":
        wait(0)
    else:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(wait, range(4)))
    return 0

parser = argparse.ArgumentParser()
parser.set_defaults(run=command)
run_command(parser, [])
"""
TELLS = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


def start_in_group(command: list[str]) -> subprocess.Popen[str]:
    # pytest may itself be deaf to SIGINT, as what a shell starts in the background is
    def hear() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hear)


def read_children(folder: Path, number: int) -> list[int]:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        texts = [path.read_text().strip() for path in folder.glob("child-*")]
        if len(texts) >= number and all(texts):
            return [int(text) for text in texts]
        time.sleep(0.02)
    raise AssertionError("the children did not start")


@pytest.mark.parametrize("how", list(TELLS))
@pytest.mark.parametrize(("where", "number"), [("main", 1), ("threads", 2)])
def test_a_signal_ends_all_children_at_once(
    tmp_path: Path, how: signal.Signals, where: str, number: int
) -> None:
    command = [sys.executable, "-c", PROGRAM, os.fspath(tmp_path), where]
    with start_in_group(command) as child:
        children = read_children(tmp_path, number)
        # Python itself misses a signal that comes while its main thread is about to wait for a lock
        time.sleep(0.5)
        child.send_signal(how)
        _, said = child.communicate(timeout=15)
    assert child.returncode == TELLS[how]
    assert "interrupted; what was finished is kept" in said
    assert all(is_gone(pid) for pid in children)
    # a killed child is no answer, and no other was started
    assert not list(tmp_path.glob("believed-*"))
    assert len(list(tmp_path.glob("child-*"))) == number
