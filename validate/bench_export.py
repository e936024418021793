"""How long the export of all topics takes without builds, in a lab that borrows the objects."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from series.manifest import load_series
from upstream import process
from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from validate.bench_build import borrow_objects
from validate.figures import Figure

ROOT = Path(__file__).resolve().parents[1]


def bench_export(lab: Lab, args: argparse.Namespace) -> list[Figure]:
    """Seconds of the first export of --series on its base, and of one with nothing to do."""
    series = load_series(args.series)
    topics = sum(bool(topic.patches) for topic in series.topics)
    what = f"{topics} topics on {series.base}, whole process"
    with tempfile.TemporaryDirectory(dir=lab.scratch) as folder:
        borrow_objects(lab, Path(folder) / "lab")
        first = _export(args, Path(folder) / "lab")
        again = _export(args, Path(folder) / "lab")
    if "nothing changed" not in again.text or "nothing changed" in first.text:
        raise InvalidMeasurement("the export did not do what is measured here")
    return [
        Figure("export of all topics without builds", first.seconds, "s", 10.0, detail=what),
        Figure("the same with nothing changed", again.seconds, "s", detail=what),
    ]


def _export(args: argparse.Namespace, folder: Path) -> process.Completed:
    series = load_series(args.series)
    where = ("--series", os.fspath(args.series), "--upstream", "snapshots")
    command = (sys.executable, "-m", "validate.export", "--no-build", "--offline", *where)
    env = {**os.environ, "LAB_DIR": os.fspath(folder)}
    # 1: the policy gate is red, which is no matter of speed
    return process.run((*command, "--onto", str(series.base)), cwd=ROOT, env=env, ok=(0, 1))
