"""A child process: encode weights with the libggml-base of a step, decode them, and add up errors.

A process of its own, because a fault in the library would end the one that loads it. Standard input
is one JSON document, standard output another:

    {"library": PATH, "encoders": [{"type": NAME, "importance": BOOL}],
     "source": {"kind": "normal", "size": 0.05, "rows": 256, "columns": 1024, "seed": 1}
            or {"kind": "file", "path": PATH, "tensors": [{"offset", "rows", "columns"}]}}
    [{"error": [...], "norm": [...], "seconds": S, "bytes": N} or null where it has no such type]

`error` and `norm` are sums of squares, one a batch of rows or a tensor, null for a tensor whose
rows the type cannot divide. With importance every column counts 1: that is a weighted search.
Values are read in pieces: memory does not grow with the file.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Piece = tuple[int, Floats]  # the batch it belongs to, rows x columns
BATCHES = 16
PIECE = 1 << 20  # values
TYPES = 256  # ids are fewer; ggml_type_name tells which exist


@dataclass(frozen=True)
class Encoder:
    """One type of the library: blocks of `block` values in `size` bytes."""

    library: ctypes.CDLL
    number: int
    name: str
    block: int
    size: int
    importance: bool

    def add_errors(self, pieces: Iterator[Piece], batches: int) -> dict[str, Any]:
        """The sums over all pieces."""
        error: list[float | None] = [0.0] * batches
        norm, seconds, count = [0.0] * batches, 0.0, 0
        for batch, values in pieces:
            norm[batch] += float(np.sum(np.square(values, dtype=np.float64)))
            if values.shape[1] % self.block:
                error[batch] = None
                continue
            decoded, spent = self.carry(values)
            error[batch] = (error[batch] or 0.0) + float(
                np.sum(np.square(values.astype(np.float64) - decoded))
            )
            seconds, count = seconds + spent, count + values.nbytes
        return {"error": error, "norm": norm, "seconds": seconds, "bytes": count}

    def carry(self, values: Floats) -> tuple[Floats, float]:
        """Values encoded and decoded, and the CPU seconds of the encoding."""
        rows, columns = values.shape
        blocks = columns // self.block * self.size
        coded = np.zeros(rows * blocks, np.uint8)
        weights = np.ones(columns, np.float32) if self.importance else None
        started = time.process_time()
        self.library.ggml_quantize_chunk(
            self.number,
            values.ctypes.data,
            coded.ctypes.data,
            0,
            rows,
            columns,
            None if weights is None else weights.ctypes.data,
        )
        spent = time.process_time() - started
        decoded = np.zeros_like(values)
        decode = getattr(self.library, f"dequantize_row_{self.name}")
        decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        decode(coded.ctypes.data, decoded.ctypes.data, values.size)
        return decoded, spent


def open_library(path: str) -> ctypes.CDLL:
    """libggml-base with the signatures that are used."""
    library = ctypes.CDLL(path)
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        *[ctypes.c_int64] * 3,
        ctypes.c_void_p,
    ]
    library.ggml_type_name.restype = ctypes.c_char_p
    library.ggml_blck_size.restype = ctypes.c_int64
    library.ggml_type_size.restype = ctypes.c_size_t
    return library


def find_encoder(library: ctypes.CDLL, name: str, *, importance: bool) -> Encoder | None:
    """The encoder of a type by its ggml name; None when the library has none."""
    for number in range(TYPES):
        if library.ggml_type_name(number) == name.encode():
            block, size = library.ggml_blck_size(number), library.ggml_type_size(number)
            return Encoder(library, number, name, block, size, importance)
    return None


def draw_normal(source: Mapping[str, Any]) -> Iterator[Piece]:
    """Gaussian weights of a standard deviation, the same in every run."""
    rng = np.random.default_rng(source["seed"])
    rows = source["rows"] // BATCHES
    for batch in range(BATCHES):
        drawn = rng.standard_normal((rows, source["columns"]), np.float32)
        yield batch, drawn * np.float32(source["size"])


def read_tensors(source: Mapping[str, Any]) -> Iterator[Piece]:
    """The rows of float32 tensors of a file, at most PIECE values at once."""
    for batch, tensor in enumerate(source["tensors"]):
        rows, columns = tensor["rows"], tensor["columns"]
        step = max(1, PIECE // columns)
        for first in range(0, rows, step):
            count = min(step, rows - first)
            offset = tensor["offset"] + 4 * first * columns
            values = np.fromfile(source["path"], "<f4", count * columns, offset=offset)
            yield batch, values.reshape(count, columns)


def answer(job: Mapping[str, Any]) -> Sequence[dict[str, Any] | None]:
    """One entry for each encoder of the job."""
    library, source = open_library(job["library"]), job["source"]
    batches = BATCHES if source["kind"] == "normal" else len(source["tensors"])
    entries: list[dict[str, Any] | None] = []
    for asked in job["encoders"]:
        encoder = find_encoder(library, asked["type"], importance=asked["importance"])
        pieces = draw_normal(source) if source["kind"] == "normal" else read_tensors(source)
        entries.append(encoder.add_errors(pieces, batches) if encoder else None)
    return entries


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
