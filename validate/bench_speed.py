"""How often the speed measurement is right on this machine: A/A runs and planted slow-downs.

Every run is a session of its own, with a fresh seed and an empty database of samples.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from series.manifest import load_series
from series.stack import load_stack
from upstream.errors import UsageError
from upstream.git import Git
from upstream.lab import Lab
from validate.artifacts import StepBinaries
from validate.build import Builder, build_stack
from validate.cells import Judged, Speed
from validate.figures import Figure
from validate.models import provide_model
from validate.planted import plant_slow_down
from validate.profiles import QUICK
from validate.recipe import llama_recipe
from validate.room import Room
from validate.sample_store import open_samples
from validate.samplers import make_twin
from validate.speed import Bench, Pairing, measure_speed
from validate.toolchain import find_toolchain

LOGGER = logging.getLogger("lab")
SECONDS = 300.0  # of one run
PERCENTS = (10, 20)
LOUD = {Speed.FASTER, Speed.SLOWER}


def bench_speed(lab: Lab, args: argparse.Namespace) -> list[Figure]:
    """`--runs` A/A runs and `--planted` runs for each planted slow-down."""
    builds = _build(lab, args)
    figures = [_bench_same(lab, builds["base"], args.runs)] if args.runs else []
    for percent in PERCENTS if args.planted else ():
        step = builds[f"slow-{percent}.patch"]
        figures.append(_bench_planted(lab, step, builds["base"], percent, args.planted))
    return figures


def _bench_same(lab: Lab, base: StepBinaries, number: int) -> Figure:
    twin = make_twin(lab, base)
    runs = [_run(lab, seed, twin, base, twin=True) for seed in range(1, number + 1)]
    wrong = sum(any(one.verdict in LOUD for one in run) for run in runs)
    bound = max(1, number // 20)
    name = "A/A runs called FASTER or SLOWER"
    return Figure(name, wrong, f"of {number}", bound, detail=_describe(runs))


def _bench_planted(
    lab: Lab, step: StepBinaries, base: StepBinaries, percent: int, number: int
) -> Figure:
    runs = [_run(lab, 1000 * percent + seed, step, base) for seed in range(1, number + 1)]
    found = sum(any(one.verdict is Speed.SLOWER for one in run) for run in runs)
    name = f"planted slow-downs of {percent} % called SLOWER"
    return Figure(name, found, f"of {number}", 0.9 * number, True, _describe(runs))


def _run(
    lab: Lab, seed: int, step: StepBinaries, base: StepBinaries, *, twin: bool = False
) -> tuple[Judged, ...]:
    with (
        tempfile.TemporaryDirectory(dir=lab.scratch) as folder,
        open_samples(Lab(Path(folder))) as store,
    ):
        room = Room(lab, provide_model(lab))
        bench = Bench(room, QUICK, store, "bench", SECONDS, seed, identical_too=twin)
        cells = measure_speed(bench, Pairing(f"run {seed}", "base", step, base), SECONDS).cells
    LOGGER.info("run %d: %s", seed, ", ".join(f"{c.cell.name} {c.verdict.value}" for c in cells))
    return cells


def _build(lab: Lab, args: argparse.Namespace) -> dict[str, StepBinaries]:
    git, series = Git(lab.repository), load_series(args.series)
    stack = load_stack(git, series)
    if stack is None:
        raise UsageError(f"{args.series} has no stack yet", remedy="run: nox -s rebase")
    steps = tuple(plant_slow_down(git, lab, stack, percent) for percent in PERCENTS)
    builder = Builder(lab, git, llama_recipe(stack.version), find_toolchain(), jobs=2)
    built = build_stack(builder, replace(stack, steps=steps))
    return {build.name: build.binaries for build in built if build.binaries is not None}


def _describe(runs: Sequence[Sequence[Judged]]) -> str:
    counts = Counter(one.verdict.value for run in runs for one in run)
    return "cells: " + ", ".join(
        f"{number} {verdict}" for verdict, number in sorted(counts.items())
    )
