"""Planted slow-downs on a machine with many cores: one run a lane, each lane on a core of its own.

    python docs/evidence/planted/lanes.py LAB BASE SLOW10 SLOW20 LANES OUT

LAB holds models/, and a lab of its own for every lane is made below it; LANES is at most the number
of cores. BASE, SLOW10 and SLOW20 are folders with llama-bench and its libraries, built
from the base and from the trees that validate/planted.py makes of it. Each run is one of
`nox -s bench -- --only speed --runs 0 --planted 10`: the same seeds, profile and method. OUT gets
one JSON line a run, as it ends.
"""

import hashlib
import json
import logging
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, os.fspath(Path(__file__).parents[3]))

from upstream.lab import Lab
from validate import bench_speed
from validate.artifacts import Binary, StepBinaries


def describe(folder: Path) -> StepBinaries:
    contents = {p.name: p.read_bytes() for p in folder.iterdir()}
    files = {
        name: Binary(hashlib.sha256(data).hexdigest(), len(data)) for name, data in contents.items()
    }
    return StepBinaries(folder.name, folder, files, {"llama-bench": tuple(sorted(files))}, ())


def run(lab: Path, percent: int, seed: int, step: Path, base: Path, out: Path) -> None:
    started = time.monotonic()
    cells = bench_speed._run(Lab(lab), 1000 * percent + seed, describe(step), describe(base))
    line = {
        "planted": percent,
        "seed": seed,
        "seconds": round(time.monotonic() - started),
        "cells": {c.cell.name: {"verdict": c.verdict.value, "why": str(c)} for c in cells},
    }
    with out.open("a") as file:
        file.write(json.dumps(line) + "\n")


def work(task: tuple[int, list[tuple[int, int, Path]], Path, Path, Path]) -> None:
    lane, runs, base, lab, out = task
    logging.basicConfig(level=logging.INFO)
    os.sched_setaffinity(0, {lane})
    own = lab / f"lane-{lane}"  # runs of one lab take turns with its twins
    (own / "scratch").mkdir(parents=True)
    (own / "models").symlink_to(lab / "models")
    for percent, seed, step in runs:
        run(own, percent, seed, step, base, out)


def main() -> None:
    lab, base, slow10, slow20, lanes, out = sys.argv[1:]
    steps = {10: Path(slow10), 20: Path(slow20)}
    todo = [(p, seed, steps[p]) for seed in range(1, 11) for p in (10, 20)]
    cores = sorted(os.sched_getaffinity(0))[: int(lanes)]
    n = len(cores)
    tasks = [(core, todo[i::n], Path(base), Path(lab), Path(out)) for i, core in enumerate(cores)]
    with ProcessPoolExecutor(n) as pool:
        list(pool.map(work, tasks))


if __name__ == "__main__":
    main()
