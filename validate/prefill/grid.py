"""What is measured: prompts, micro-batches and depths, and the llama-bench processes they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from upstream.errors import InvalidMeasurement, UsageError
from validate import speed_tools
from validate.cells import Cell
from validate.guards import Facts, Placement, require_as_asked
from validate.samplers import Job
from validate.speed_tools import Reading, Table

BATCH = 2048  # llama-bench's own; a micro-batch cannot be larger
# What every version since b10566 reports alike. Their build numbers differ, their cells must not.
FACTS = (
    "cpu_info", "gpu_info", "backends", "model_size", "model_n_params", "n_batch",
    "n_threads", "type_k", "type_v", "n_gpu_layers", "flash_attn", "devices", "load_mode",
)  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Tokens of prompts, micro-batches and contexts before the prompt; every combination is a cell.

    minimum: the smallest relative effect that matters. repetitions: prompts that a process measures
    a cell with. flash: with flash attention. looks, control_quads: see comparison.Plan. seconds:
    for everything. limit: seconds for a process.
    """

    prompts: tuple[int, ...]
    ubatches: tuple[int, ...]
    depths: tuple[int, ...]
    minimum: float = 0.02
    repetitions: int = 1
    flash: bool = True
    looks: tuple[int, ...] = (8, 14, 20)
    control_quads: int = 8
    seconds: float = 3600.0
    limit: float = 600.0


QUICK = Grid((512, 2048), (512, 2048), (0,), seconds=1800.0)
FULL = Grid(
    (128, 512, 2048, 4096), (512, 1024, 2048), (0, 8192, 32768), seconds=12 * 3600.0, limit=3600.0
)
GRIDS = {"quick": QUICK, "full": FULL}


def name_cell(prompt: int, ubatch: int, depth: int) -> str:
    """`pp512 ub2048 @ d8192`."""
    name = f"{speed_tools.name_test(prompt, 0, 0)} ub{ubatch}"
    return f"{name} @ d{depth}" if depth else name


def parse_sizes(text: str, option: str, least: int = 1, most: int = 1 << 20) -> tuple[int, ...]:
    """`512,2048` as rising numbers. Raises UsageError for what are none, or out of bounds."""
    try:
        sizes = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        sizes = ()
    if not sizes or not least <= sizes[0] <= sizes[-1] <= most:
        raise UsageError(
            f"{option} {text!r} are no numbers from {least} to {most}",
            remedy=f"name them like {option} 512,2048",
        )
    return sizes


def choose_grid(
    profile: str, prompts: str | None, ubatches: str | None, depths: str | None
) -> Grid:
    """The grid of a profile, with other sizes where some are named. Raises UsageError."""
    if profile not in GRIDS:
        raise UsageError(
            f"there is no profile {profile!r}", remedy=f"take one of {', '.join(GRIDS)}"
        )
    grid = GRIDS[profile]
    if prompts:
        grid = replace(grid, prompts=parse_sizes(prompts, "--prompts"))
    if ubatches:
        grid = replace(grid, ubatches=parse_sizes(ubatches, "--ubatches", most=BATCH))
    if depths:
        grid = replace(grid, depths=parse_sizes(depths, "--depths", least=0))
    return grid


def list_jobs(grid: Grid, model: str, placement: Placement, path: str) -> list[Job]:
    """One llama-bench a depth: a process fills a context once for all its cells.

    `path` is the code path of the device: a fact of every sample.
    """
    return [
        _make_job(replace(grid, depths=(depth,)), model, placement, path) for depth in grid.depths
    ]


def list_cells(grid: Grid) -> tuple[Cell, ...]:
    """All cells, in llama-bench's order of running."""
    return tuple(
        Cell(speed_tools.BENCH, name_cell(prompt, ubatch, depth), "t/s", grid.minimum)
        for depth in grid.depths
        for ubatch in grid.ubatches
        for prompt in grid.prompts
    )


def prefill_arguments(grid: Grid, model: str, placement: Placement) -> tuple[str, ...]:
    """llama-bench: prompts only; every setting is written out."""
    prompts, depths = (",".join(map(str, sizes)) for sizes in (grid.prompts, grid.depths))
    sizes = ("-p", prompts, "-n", "0", "-d", depths, "-r", str(grid.repetitions))
    settings = speed_tools.bench_settings(placement, grid.ubatches, flash=grid.flash)
    return ("-m", model, *sizes, *settings, "-o", "jsonl")


def read_prefill(output: str, grid: Grid, placement: Placement, path: str = "") -> Table:
    """The rows of llama-bench in tokens/s over all repetitions of a cell.

    Raises InvalidMeasurement for a row of another form or with other settings than asked.
    """
    cases: dict[str, Reading] = {}
    asked = speed_tools.bench_settings_reported(placement) | {"flash_attn": str(int(grid.flash))}
    asked.pop("n_ubatch")
    for row in speed_tools.read_rows(speed_tools.BENCH, output):
        name, reading = speed_tools.convert_row(speed_tools.BENCH, row, _read_row)
        require_as_asked(speed_tools.BENCH, reading.facts, asked)
        if len(row["samples_ns"]) != grid.repetitions:
            raise InvalidMeasurement(
                f"{speed_tools.BENCH} measured {name} {len(row['samples_ns'])} times, "
                f"asked was {grid.repetitions}"
            )
        facts = {**reading.facts, "path": path} if path else reading.facts
        speed_tools.add_case(speed_tools.BENCH, cases, name, replace(reading, facts=facts))
    return Table(cases)


def _make_job(grid: Grid, model: str, placement: Placement, path: str) -> Job:
    def read(output: str) -> Table:
        return read_prefill(output, grid, placement, path)

    arguments = prefill_arguments(grid, model, placement)
    return Job(speed_tools.BENCH, list_cells(grid), arguments, read, grid.limit)


def _read_row(row: Mapping[str, Any]) -> tuple[str, Reading]:
    prompt, generate = int(row["n_prompt"]), int(row["n_gen"])
    if generate:
        raise ValueError("a generation where prompts were asked")
    seconds = sum(float(each) for each in row["samples_ns"]) / 1e9
    facts: Facts = {key: speed_tools.say_fact(row[key]) for key in FACTS}
    if str(row["build_commit"]).endswith("-dirty"):
        raise ValueError("a build of an edited source")
    name = name_cell(prompt, int(row["n_ubatch"]), int(row["n_depth"]))
    return name, Reading(prompt * len(row["samples_ns"]) / seconds, seconds, facts)
