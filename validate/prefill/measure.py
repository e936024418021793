"""Hold every comparison: one model on one lane, leg by leg, with the project's own method.

A leg whose llama-bench is byte-identical is IDENTICAL and not run. Every sample is in the store
before it is used (speed.py, sample_store.py); a run that was cut off goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from validate.cells import Cell, Judged, Speed
from validate.guards import Placement
from validate.machine import machine_fingerprint
from validate.prefill.grid import Grid, list_cells, list_jobs
from validate.prefill.lanes import Lane
from validate.prefill.points import Leg, Point
from validate.profiles import Profile
from validate.room import Room
from validate.sample_store import SampleStore
from validate.samplers import Job
from validate.speed import Bench, Measured, Pairing, measure_jobs
from validate.speed_tools import BENCH

LOGGER = logging.getLogger("lab")


@dataclass(frozen=True)
class Arena:
    """A model on a lane, with all that its legs share."""

    lane: Lane
    grid: Grid
    bench: Bench
    points: tuple[Point, ...]
    legs: tuple[Leg, ...]

    @property
    def model(self) -> str:
        return self.bench.room.model.name.removesuffix(".gguf")

    def jobs(self) -> list[Job]:
        """The processes of a leg."""
        return list_jobs(self.grid, self.bench.room.model.name, self.lane.placement, self.lane.path)

    def has_work(self, leg: Leg) -> bool:
        """Whether a leg's programs differ."""
        return not is_identical(leg.pairing)


@dataclass(frozen=True)
class Walked:
    """A leg with its judged cells; `speeds`: medians before and after in the cells' unit.

    note: what could not be measured, and why.
    """

    leg: Leg
    cells: tuple[Judged, ...]
    speeds: Mapping[str, tuple[float, float]]
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """All legs of an arena."""

    arena: Arena
    walked: tuple[Walked, ...]


def open_arena(
    lane: Lane, grid: Grid, room: Room, store: SampleStore, points: Sequence[Point],
    legs: Sequence[Leg], toolchain: str, seed: int,
) -> Arena:  # fmt: skip
    """The arena of a lane; the device's driver and code path are part of its samples' key."""
    bench = Bench(
        room=replace(room, launch=lane.launch, threads=lane.threads),
        profile=make_profile(grid, lane.placement),
        store=store,
        toolchain=toolchain,
        budget=grid.seconds,
        seed=seed,
        placement=lane.placement,
        machine=f"{machine_fingerprint()} {lane.describe()}",
        fit=lane.require_path,
        explain=False,
    )
    return Arena(lane, grid, bench, tuple(points), tuple(legs))


def make_profile(grid: Grid, placement: Placement) -> Profile:
    """The method's part of a grid."""
    return Profile(
        name="prefill",
        prompt=max(grid.prompts),
        generate=0,
        depths=grid.depths,
        parallel=(),
        threads=placement.threads,
        minimum=(grid.minimum,) * 3,
        looks=grid.looks,
        control_quads=grid.control_quads,
        seconds=grid.seconds,
        limit=grid.limit,
    )


def is_identical(pairing: Pairing) -> bool:
    """Whether both run the same bytes."""
    return all(BENCH in each.uses for each in (pairing.step, pairing.parent)) and (
        pairing.is_identical(BENCH)
    )


def measure_all(arenas: Sequence[Arena], budget: float) -> list[Outcome]:
    """All legs of all arenas; the time that is left is shared equally by those that need some."""
    started = time.monotonic()
    left = sum(arena.has_work(leg) for arena in arenas for leg in arena.legs)
    total = sum(len(arena.legs) for arena in arenas)
    LOGGER.info("prefill: %d of %d comparisons to measure, at most %.0f s", left, total, budget)
    outcomes = []
    for arena in arenas:
        walked = []
        for leg in arena.legs:
            remaining = max(0.0, budget - (time.monotonic() - started))
            walked.append(walk(arena, leg, remaining / max(left, 1)))
            left -= arena.has_work(leg)
        outcomes.append(Outcome(arena, tuple(walked)))
    return outcomes


def walk(arena: Arena, leg: Leg, seconds: float) -> Walked:
    """One leg."""
    cells = list_cells(arena.grid)
    pairing = leg.pairing
    lacking = [
        point.name
        for point in (leg.first, leg.second)
        if point.binaries and BENCH not in point.binaries.uses
    ]
    if lacking:
        return Walked(leg, _settle(cells, Speed.INVALID, f"{lacking[0]} has no {BENCH}"), {})
    if is_identical(pairing):
        return Walked(leg, _settle(cells, Speed.IDENTICAL), {})
    LOGGER.info("%s on %s: %s", arena.model, arena.lane.name, leg.name)
    measured = measure_jobs(arena.bench, pairing, arena.jobs(), seconds)
    return Walked(leg, measured.cells, find_speeds(measured))


def find_speeds(measured: Measured) -> dict[str, tuple[float, float]]:
    """Median tokens/s of both arms by cell, warm-ups left out."""
    values: dict[tuple[str, str], list[float]] = {}
    for sample in measured.samples:
        if sample.quad > 0:
            values.setdefault((sample.cell, sample.arm), []).append(sample.value)
    names = [name for name, arm in values if arm == "A" and (name, "B") in values]
    return {name: (median(values[name, "A"]), median(values[name, "B"])) for name in names}


def _settle(cells: Sequence[Cell], verdict: Speed, reason: str = "") -> tuple[Judged, ...]:
    return tuple(Judged(cell, verdict, reason=reason) for cell in cells)
