"""How many rows each expert gets: measured in a forward pass of llama.cpp, or computed.

A matrix multiplication by experts (MUL_MAT_ID) is as fast as its rows per expert allow. Measured:
llama-imatrix counts the tokens of each expert while it evaluates a text (tools/imatrix). Computed:
the router's matrix of the file times random normal hidden states, what random weights come to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from gguf import GGMLQuantizationType
from numpy.typing import NDArray

from upstream import process
from upstream.errors import InvalidMeasurement, UsageError
from upstream.lab import Lab
from validate.corpus import PATH as CORPUS
from validate.shape_models.files import Head, Stored, read_head

ROUTER = re.compile(r"blk\.(\d+)\.ffn_gate_inp\.weight")
COUNTS = re.compile(r"blk\.(\d+)\.ffn_down_exps\.weight\.counts")
EDGES = (1, 4, 8, 16, 32, 64, 128, 256)  # tiles of matrix kernels have such heights
BUSY_SHARE = 0.1
SEED = 1
SECONDS = 3600.0
Rows = Mapping[int, NDArray[np.int64]]  # by layer, one number for each expert


@dataclass(frozen=True)
class Histogram:
    """Rows per expert over all layers.

    `method` is "measured" or "computed"; `buckets` are (from, to, experts in a layer on average),
    `busy` is the share of the rows that the busiest tenth of the experts gets.
    """

    method: str
    tokens: int
    experts: int
    used: int
    smallest: int
    median: float
    largest: int
    busy: float
    buckets: tuple[tuple[int, int, float], ...]


def count_rows(head: Head, tokens: int) -> tuple[Rows, int]:
    """Computed rows of each layer, and the experts that a token uses.

    Raises UsageError for a model without experts.
    """
    routers = {m[1]: t for name, t in head.tensors.items() if (m := ROUTER.fullmatch(name))}
    if not routers:
        raise UsageError(f"{head.path} has no experts", remedy="name a mixture of experts")
    used = head.number(f"{head.text('general.architecture')}.expert_used_count")
    random = np.random.default_rng(SEED)
    rows = {}
    for layer, tensor in routers.items():
        router = read_floats(head.path, tensor)
        hidden = random.standard_normal((tokens, router.shape[1]), dtype=np.float32)
        best = np.argpartition(hidden @ router.T, -used, axis=1)[:, -used:]
        rows[int(layer)] = np.bincount(best.reshape(-1), minlength=router.shape[0])
    return rows, used


def read_floats(path: Path, tensor: Stored) -> NDArray[np.float32]:
    """The values of a tensor of floats, rows first. Raises UsageError for another type."""
    if tensor.kind is not GGMLQuantizationType.F32:
        raise UsageError(f"{path} has a router of {tensor.kind.name}, F32 is read")
    shape = tuple(reversed(tensor.shape))
    return np.memmap(path, "<f4", "r", offset=tensor.begin, shape=shape)


def measure_rows(model: Path, program: Path, tokens: int, text: Path | None, lab: Lab) -> Rows:
    """Rows of each layer while llama-imatrix evaluates one batch of so many tokens of a text.

    Raises InvalidMeasurement when it counts nothing (the text is too short, or no experts).
    """
    path = text or CORPUS
    with TemporaryDirectory(dir=lab.scratch) as folder:
        found = Path(folder) / "imatrix.gguf"
        size = str(tokens)
        sizes = ("-c", size, "-b", size, "-ub", size, "--chunks", "1", "--no-ppl")
        command = (program.absolute(), "-m", model, "-f", path, "-o", found, *sizes)
        process.run(command, timeout=SECONDS, remedy="name a longer text, or fewer --tokens")
        if not found.exists():
            raise InvalidMeasurement(f"{program} wrote nothing", remedy="name fewer --tokens")
        return read_counts(found)


def read_counts(path: Path) -> Rows:
    """What llama-imatrix counted. Raises InvalidMeasurement when that is nothing of experts."""
    rows = {
        int(match[1]): read_floats(path, tensor).reshape(-1).astype(np.int64)
        for name, tensor in read_head(path).tensors.items()
        if (match := COUNTS.fullmatch(name))
    }
    if not rows:
        raise InvalidMeasurement(
            f"{path.name} counts no experts", remedy="name a mixture of experts"
        )
    return rows


def summarise(rows: Rows, used: int, method: str) -> Histogram:
    """All layers in one histogram."""
    table = np.sort(np.stack([rows[layer] for layer in sorted(rows)]), axis=1)
    experts = table.shape[1]
    busiest = table[:, -max(round(BUSY_SHARE * experts), 1) :]
    return Histogram(
        method=method,
        tokens=int(table[0].sum()) // used,
        experts=experts,
        used=used,
        smallest=int(table.min()),
        median=float(np.median(table)),
        largest=int(table.max()),
        busy=float(busiest.sum() / table.sum()),
        buckets=tuple(list_buckets(table)),
    )


def list_buckets(table: NDArray[np.int64]) -> Sequence[tuple[int, int, float]]:
    """Experts of a layer, on average, with so many rows: 0, 1 to 3, 4 to 7 and so on."""
    edges = [0, *EDGES, max(int(table.max()), EDGES[-1]) + 1]
    counts, _ = np.histogram(table, bins=edges)
    pairs = zip(edges, edges[1:], counts, strict=False)
    return [(low, high - 1, float(count) / len(table)) for low, high, count in pairs]


def format_histogram(histogram: Histogram) -> str:
    """For people: one line for each bucket."""
    mean = histogram.tokens * histogram.used / histogram.experts
    lines = [
        f"rows per expert, {histogram.method}: {histogram.tokens} tokens, "
        f"{histogram.used} of {histogram.experts} experts, mean {mean:.1f}",
        f"least {histogram.smallest}, median {histogram.median:g}, most {histogram.largest}; "
        f"the busiest tenth of the experts has {100 * histogram.busy:.0f} % of the rows",
    ]
    filled = [index for index, bucket in enumerate(histogram.buckets) if bucket[2]]
    for low, high, count in histogram.buckets[filled[0] : filled[-1] + 1]:
        bar = "#" * round(50 * count / histogram.experts)
        lines.append(f"{low:>6} to {high:<6} {count:8.1f} experts {bar}".rstrip())
    return "\n".join(lines)
