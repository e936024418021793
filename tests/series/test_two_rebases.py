"""Two rebases at once, and the lock after a process that was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from series.manifest import load_series
from tests.series.conftest import MakeLab
from tests.series.lab import ROOT, Lab
from tests.series.miniature import OFFSET, STEADY, Miniature, write_series

HOLDER = """
import sys, time
from upstream.lab import hold_lock, open_lab
with hold_lock(open_lab(), sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def lab(upstream: Miniature, tmp_path: Path, make_lab: MakeLab) -> Lab:
    patches = upstream.patches("b100", STEADY, OFFSET)
    return make_lab(write_series(tmp_path / "series", "b100", patches))


@contextmanager
def hold(lab: Lab) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of the series, as a rebase does."""
    name = f"series-{load_series(lab.series).id}"
    command = (sys.executable, "-c", HOLDER, name)
    with subprocess.Popen(
        command, env=lab.environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "held\n"
            yield child
        finally:
            child.kill()


def test_second_rebase_is_told_to_wait_and_kill_frees_the_lock(lab: Lab) -> None:
    with hold(lab) as other:
        second = lab.rebase("--onto", "b200")
        assert second.code == 3
        assert "error: another run holds the lock" in second.err
        assert "next: wait until it ends, then run the same command again" in second.err
        assert lab.refs() == {}
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert lab.rebase("--onto", "b200").code == 0


def test_of_rebases_started_together_each_succeeds_or_is_told(lab: Lab) -> None:
    command = lab.command("rebase", "--onto", "b200")
    children = [
        subprocess.Popen(
            command, env=lab.environment(), cwd=ROOT, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    ends = [(child.communicate(timeout=60)[1].decode(), child.returncode) for child in children]
    assert {code for _, code in ends} <= {0, 3}
    assert 0 in {code for _, code in ends}
    assert all("holds the lock" in said for said, code in ends if code == 3)
    assert len(lab.git.list_refs("refs/series")) == 3


def test_rebase_that_was_killed_is_simply_run_again(lab: Lab) -> None:
    """Whatever moment the kill hits, refs are all there or not at all, and the rerun finishes."""
    with subprocess.Popen(
        lab.command("rebase", "--onto", "b200"), env=lab.environment(), cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        time.sleep(0.3)
        child.kill()
    if lab.git.directory.joinpath("info/attributes").exists():
        assert len(lab.git.list_refs("refs/series")) in (0, 3)
    done = lab.rebase("--onto", "b200")
    assert done.code == 0, done.err
    assert len(lab.git.list_refs("refs/series")) == 3
