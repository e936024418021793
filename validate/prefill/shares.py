"""Which operations the device's time goes to: ggml-vulkan's own timestamps (GGML_VK_PERF_LOGGER).

Never in a timed run: the logger puts a barrier after every operation. Format: vk_perf_logger in
ggml/src/ggml-vulkan/ggml-vulkan.cpp (b11549; the same in b10566). ggml-cpu has no such logger, so
there are no shares on the CPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from upstream.errors import InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.prefill.grid import BATCH, Grid, list_cells, prefill_arguments, read_prefill
from validate.prefill.lanes import Lane
from validate.prefill.measure import Arena
from validate.room import Room
from validate.samplers import explain_failure
from validate.speed_tools import BENCH

LOGGER_VARIABLES = {"GGML_VK_PERF_LOGGER": "1"}
HEADER = "Vulkan Timings:"
SLACK = 0.005  # numbers are printed with six digits, each rounded
_ROW = re.compile(r"^(.+?): (\d+) x [\d.e+-]+ us = ([\d.e+-]+) us(?: \(.+ GFLOPS/s\))?$")
_TOTAL = re.compile(r"^Total time: ([\d.e+-]+) us\.$")
# A name ends where sizes begin: `MUL_MAT_ID q4_K m=768 n=4096`, `FLASH_ATTN_EXT dst(128,..`.
_SIZES = re.compile(r"\s+(?:[mM]|K)=|\s*\(|\s+dst\(")


@dataclass(frozen=True)
class Operation:
    """What one kind of operation took in a prompt, in microseconds; `name` with its sizes."""

    name: str
    runs: int
    microseconds: float


@dataclass(frozen=True)
class Shares:
    """The operations of one cell of a build, the longest first; summed up by `kinds`."""

    point: str
    cell: str
    operations: tuple[Operation, ...]

    @property
    def total(self) -> float:
        """Microseconds of all."""
        return sum(each.microseconds for each in self.operations)

    @property
    def kinds(self) -> list[tuple[str, float]]:
        """Kinds of operations with their share, the largest first."""
        found: dict[str, float] = {}
        for each in self.operations:
            kind = name_kind(each.name)
            found[kind] = found.get(kind, 0.0) + each.microseconds
        return sorted(((k, v / self.total) for k, v in found.items()), key=lambda pair: -pair[1])


def name_kind(name: str) -> str:
    """An operation without its sizes: `MUL_MAT_ID q4_K`."""
    return _SIZES.split(name, maxsplit=1)[0]


def measure_shares(arena: Arena) -> list[Shares]:
    """The shares of every cell for every build; equal builds are run once.

    Raises InvalidMeasurement when the program fails or its logger prints something else.
    """
    if not arena.lane.vulkan:
        return []
    found = []
    for point in arena.points:
        if point.binaries is not None and BENCH in point.binaries.uses:
            for cell in list_single(arena.grid):
                found.append(_measure(arena, point.name, point.binaries, cell))
    return found


def list_single(grid: Grid) -> list[Grid]:
    """The cells of a grid, each a grid of its own with one repetition."""
    return [
        replace(grid, prompts=(prompt,), ubatches=(ubatch,), depths=(depth,), repetitions=1)
        for depth in grid.depths
        for ubatch in grid.ubatches
        for prompt in grid.prompts
    ]


def _measure(arena: Arena, point: str, binaries: StepBinaries, cell: Grid) -> Shares:
    room, lane = arena.bench.room, arena.lane
    arguments = (*prefill_arguments(cell, room.model.name, lane.placement), "--no-warmup")
    inputs = {
        "check": "shares of operations",
        "binaries": binaries.fingerprint(BENCH),
        "machine": arena.bench.machine,
        "model": room.model.sha256,
        "arguments": arguments,
    }

    def produce() -> dict[str, object]:
        blocks = read_blocks(_run(room, lane, binaries, arguments, cell))
        return {"operations": [_document(each) for each in take_prompt(blocks, cell)]}

    kept, _ = room.cache.obtain(inputs, produce)
    operations = tuple(Operation(*each) for each in kept["operations"])
    return Shares(point, list_cells(cell)[0].name, operations)


def _run(
    room: Room, lane: Lane, binaries: StepBinaries, arguments: Sequence[str], cell: Grid
) -> str:
    variables = {**room.launch.variables, **LOGGER_VARIABLES}
    logged = replace(room, launch=replace(room.launch, variables=variables))
    done = logged.run(binaries, BENCH, *arguments, seconds=cell.limit)
    if done.code != 0:
        raise InvalidMeasurement(f"{BENCH} with the logger: {explain_failure(done)}")
    read_prefill(done.text, cell, lane.placement)
    return done.stderr.decode("utf-8", "replace")


def read_blocks(said: str) -> list[list[Operation]]:
    """What the logger said, graph by graph.

    Raises InvalidMeasurement for no graph, and for one whose operations miss its total.
    """
    blocks = [_read_block(text) for text in said.split(HEADER)[1:]]
    if not blocks:
        raise InvalidMeasurement(
            "the Vulkan logger printed nothing: was the graph computed elsewhere?",
            remedy="look at the device, and at --shares' own run with -v",
        )
    return blocks


def _read_block(text: str) -> list[Operation]:
    rows: list[Operation] = []
    for line in text.splitlines():
        if (total := _TOTAL.match(line)) is not None:
            seen = sum(each.microseconds for each in rows)
            if not math.isclose(seen, float(total[1]), rel_tol=SLACK, abs_tol=1.0):
                raise InvalidMeasurement(
                    f"the Vulkan logger names {seen:.0f} us of {float(total[1]):.0f} us: "
                    "its format is another"
                )
            return rows
        if (row := _ROW.match(line)) is not None:
            rows.append(Operation(row[1], int(row[2]), float(row[3])))
    raise InvalidMeasurement("the Vulkan logger's last graph has no total: it was cut off")


def take_prompt(blocks: Sequence[Sequence[Operation]], cell: Grid) -> list[Operation]:
    """The operations of the prompt, summed by name; graphs that filled the context are left out.

    Raises InvalidMeasurement when the graphs do not divide into those of micro-batches.
    """
    prompt, filling = (count_graphs(n, cell.ubatches[0]) for n in (cell.prompts[0], cell.depths[0]))
    each, rest = divmod(len(blocks), prompt + filling)
    if rest or not each:
        raise InvalidMeasurement(
            f"the Vulkan logger saw {len(blocks)} graphs of {prompt + filling} micro-batches"
        )
    found: dict[str, Operation] = {}
    for operation in (one for block in blocks[filling * each :] for one in block):
        before = found.get(operation.name, Operation(operation.name, 0, 0.0))
        found[operation.name] = Operation(
            operation.name,
            before.runs + operation.runs,
            before.microseconds + operation.microseconds,
        )
    return sorted(found.values(), key=lambda one: -one.microseconds)


def count_graphs(tokens: int, ubatch: int) -> int:
    """Micro-batches of a prompt: llama-bench hands it over in batches of BATCH."""
    whole, rest = divmod(tokens, BATCH)
    return whole * -(-BATCH // ubatch) + -(-rest // ubatch)


def _document(operation: Operation) -> list[object]:
    return [operation.name, operation.runs, operation.microseconds]
