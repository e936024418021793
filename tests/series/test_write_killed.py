"""kill -9 during `rebase --write`: the next run finishes it, at whatever moment it came.

The child kills itself (a real SIGKILL) when Python is about to do the Nth rename or removal of a
file: an audit hook counts them, the program itself is not changed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from series.manifest import load_series
from tests.series.conftest import MakeLab
from tests.series.lab import ROOT, Lab
from tests.series.miniature import CLASH, OFFSET, STEADY, Miniature, write_series

DROP = ("--onto", "b200", "--drop", "clash.patch", "--reason", "given up", "--write")
KILLER = """
import os, runpy, signal, sys
left = int(sys.argv.pop(1))
def hook(event, args):
    global left
    if event not in ("os.rename", "os.remove") or not {folders!r}.search(str(args[0])):
        return
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
sys.argv[0] = "series"
runpy.run_module("series", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def lab(upstream: Miniature, tmp_path: Path, make_lab: MakeLab) -> Lab:
    patches = upstream.patches("b100", STEADY, OFFSET, CLASH)
    return make_lab(write_series(tmp_path / "series", "b100", patches))


def killer(folders: str) -> str:
    return KILLER.replace("{folders!r}", f"__import__('re').compile({folders!r})")


def run_killed(lab: Lab, count: int) -> int:
    """`rebase --write` that dies at the count-th step of the write; its exit code."""
    name = load_series(lab.series).id
    folders = f"({lab.series}|state/{name}/\\.?(staged|journal|decisions))"
    command = lab.command("rebase", *DROP)
    child = (sys.executable, "-c", killer(folders), str(count), *command[3:])
    done = subprocess.run(child, env=lab.environment(), cwd=ROOT, capture_output=True, check=False)
    return done.returncode


def check_finished(lab: Lab) -> None:
    """The rerun leaves one whole new series: nothing twice, nothing half, nothing pending."""
    done = lab.rebase("--onto", "b200", "--write")
    if done.code == 5:  # killed before the decision was stored: nothing had happened
        assert load_series(lab.series).base.build == 100
        done = lab.rebase(*DROP)
    assert done.code == 0, done.err
    series = load_series(lab.series)
    assert series.base.build == 200
    assert [patch for _, patch in series.order()] == ["steady.patch", "offset.patch"]
    assert [record.patch for record in series.dropped] == ["clash.patch"]
    files = set(lab.files())
    assert files == {"series.toml", "patches/steady.patch", "patches/offset.patch"}
    left = {path.name for path in lab.state.iterdir()} - {"parked"}
    assert left == set()


# decisions.json; staged: 2 patches, series.toml; the journal; installed: 2 patches, series.toml,
# 1 removed; decisions forgotten; the journal removed.
STEPS = 11


@pytest.mark.parametrize("count", [1, 5, 7, 9, STEPS])
def test_write_killed_at_any_step_is_finished_by_the_next_run(lab: Lab, count: int) -> None:
    assert run_killed(lab, count) == -9
    check_finished(lab)


def test_the_steps_above_are_all_there_are(lab: Lab) -> None:
    assert run_killed(lab, 999) == 0
    assert [patch for _, patch in load_series(lab.series).order()] == [
        "steady.patch",
        "offset.patch",
    ]


def test_write_killed_at_some_time_is_finished_by_the_next_run(lab: Lab) -> None:
    with subprocess.Popen(
        lab.command("rebase", *DROP), env=lab.environment(), cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        time.sleep(0.35)
        child.kill()
    check_finished(lab)
