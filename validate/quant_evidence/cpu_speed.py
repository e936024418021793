"""pp512 and tg128 of quantised files on the CPU: every round runs all, in random order and back.

A round runs every arm twice, mirrored, so that of any two arms the four processes are ABBA or BAAB
and a linear drift cancels (statistics.py). The first arm is the baseline, the second the same file
again: what those two differ by is the machine, and a 99 % interval without 0 makes the whole
measurement invalid. A round is kept as one: a run that was cut off repeats only its last round.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upstream.errors import InvalidMeasurement, UsageError
from validate import speed_tools
from validate.artifacts import StepBinaries
from validate.cells import Cell
from validate.guards import Placement, require_own_binaries
from validate.profiles import FULL
from validate.quant_evidence.quality import ALPHA
from validate.room import Room
from validate.samplers import Job, run_job
from validate.statistics import Estimate, hodges_lehmann, quad_difference, quads_needed

PROMPT, GENERATE = 512, 128
CELLS = (speed_tools.name_test(PROMPT, 0, 0), speed_tools.name_test(0, GENERATE, 0))
REPACKED = "CPU_REPACK model buffer"
FACT = "repack"
CONTROL_ALPHA = 0.01
Values = dict[str, list[float]]


@dataclass(frozen=True)
class Arm:
    """A file with or without ggml's repacking of weights at load time."""

    name: str
    room: Room
    repack: bool = False


@dataclass(frozen=True)
class Speed:
    """Of one arm and cell: median tokens/s, and the logarithm of its speed over the baseline's."""

    median: float
    ratio: Estimate


@dataclass(frozen=True)
class Contest:
    """What all rounds share. seed: of the orders. machine: its fingerprint."""

    binaries: StepBinaries
    placement: Placement
    machine: str
    seed: int = 1


def is_repacked(arm: Arm, contest: Contest) -> bool:
    """Whether repacking changes any tensor of the file on this machine."""
    probe = speed_tools.probe_arguments(arm.room.model.name, contest.placement)
    done = arm.room.run(contest.binaries, speed_tools.BENCH, *probe, "--repack", "1")
    if done.code != 0:
        raise InvalidMeasurement(f"{speed_tools.BENCH} cannot load {arm.room.model.name}")
    return REPACKED in done.stderr.decode("utf-8", "replace")


def make_job(arm: Arm, placement: Placement) -> Job:
    """One process of llama-bench on the arm."""
    cells = tuple(Cell(speed_tools.BENCH, name, "t/s", 0.0) for name in CELLS)
    common = speed_tools.bench_arguments(arm.room.model.name, placement, PROMPT, GENERATE, (0,))
    arguments = (*common, "--repack", str(int(arm.repack)))
    return Job(
        speed_tools.BENCH,
        cells,
        arguments,
        lambda output: speed_tools.read_bench(output, placement),
        FULL.limit,
    )


def run_round(
    contest: Contest, arms: Sequence[Arm], number: int, tick: Callable[[], None]
) -> list[Values]:
    """Tokens/s of every arm by cell, two processes each, in the order of running."""
    inputs = {
        "check": "speed of quantised files",
        "binaries": contest.binaries.fingerprint(speed_tools.BENCH),
        "machine": contest.machine,
        "arms": [(arm.room.model.sha256, arm.repack) for arm in arms],
        "settings": make_job(arms[0], contest.placement).arguments[2:],
        "seed": contest.seed,
        "round": number,
    }

    def produce() -> dict[str, Any]:
        return {"values": _run_mirrored(contest, arms, number, tick)}

    found, _ = arms[0].room.cache.obtain(inputs, produce)
    values: list[Values] = found["values"]
    return values


def plan_order(count: int, seed: int, number: int) -> list[int]:
    """The arms of a round in random order, and back."""
    order = list(range(count))
    random.Random(f"{seed} {number}").shuffle(order)  # noqa: S311 (an experiment, no secret)
    return [*order, *reversed(order)]


def _run_mirrored(
    contest: Contest, arms: Sequence[Arm], number: int, tick: Callable[[], None]
) -> list[Values]:
    values: list[Values] = [{cell: [] for cell in CELLS} for _ in arms]
    for index in plan_order(len(arms), contest.seed, number):
        for cell, value in _sample(contest, arms[index]).items():
            values[index][cell].append(value)
        tick()
    return values


def _sample(contest: Contest, arm: Arm) -> Mapping[str, float]:
    _, table = run_job(arm.room, make_job(arm, contest.placement), contest.binaries)
    for reading in table.cases.values():
        if reading.facts.get(FACT) != str(arm.repack).lower():
            raise InvalidMeasurement(
                f"{speed_tools.BENCH} reports repack = {reading.facts.get(FACT)}, "
                f"asked was {str(arm.repack).lower()}"
            )
    return {cell: table.cases[cell].value for cell in CELLS}


def require_rounds(rounds: int) -> None:
    """Raise UsageError for fewer rounds than give an interval."""
    if rounds < (least := quads_needed(ALPHA)):
        raise UsageError(
            f"{rounds} rounds give no interval", remedy=f"take --rounds {least} or more"
        )


def measure_cpu_speed(
    contest: Contest, arms: Sequence[Arm], rounds: int, tick: Callable[[], None]
) -> list[dict[str, Speed]]:
    """Every arm's speed by cell. Raises InvalidMeasurement when a process or a guard fails."""
    require_rounds(rounds)
    require_own_binaries(contest.binaries, speed_tools.BENCH)
    measured = []
    for number in range(1, rounds + 1):
        measured.append(run_round(contest, arms, number, tick))
    orders = [plan_order(len(arms), contest.seed, number) for number in range(1, rounds + 1)]
    return [
        {
            cell: judge_arm(measured, orders, index, cell, CONTROL_ALPHA if index == 1 else ALPHA)
            for cell in CELLS
        }
        for index in range(len(arms))
    ]


def judge_arm(
    measured: Sequence[Sequence[Values]],
    orders: Sequence[Sequence[int]],
    index: int,
    cell: str,
    alpha: float = ALPHA,
) -> Speed:
    """The median and the paired ratio to the first arm over all rounds."""
    every = sorted(value for each in measured for value in each[index][cell])
    median = (every[(len(every) - 1) // 2] + every[len(every) // 2]) / 2
    differences = [
        _difference(each[0][cell], each[index][cell], order.index(0) < order.index(index))
        for each, order in zip(measured, orders, strict=True)
        if index
    ]
    return Speed(median, hodges_lehmann(differences, alpha))


def _difference(first: Sequence[float], other: Sequence[float], leads: bool) -> float:
    """ln(other / first) of two arms of a mirrored round; `leads`: the first arm runs outside."""
    if leads:
        return quad_difference("ABBA", [first[0], *other, first[1]])
    return quad_difference("BAAB", [other[0], *first, other[1]])


def find_unfit(control: Mapping[str, Speed]) -> list[str]:
    """The cells in which a file differs from itself, in words."""
    return [
        f"{cell} of the same file differs by {speed.ratio.percent:+.1f} %"
        for cell, speed in control.items()
        if speed.ratio.low > 0 or speed.ratio.high < 0
    ]
