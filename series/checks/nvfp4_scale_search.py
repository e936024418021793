"""Does quantize_nvfp4 pick scales with a smaller error than quantize_row_nvfp4_ref does?

    python nvfp4_scale_search.py --bin STEPBIN --source TREE --work DIR

Calls the step's own libggml-base. Weights of four sizes and two shapes, with and without an
importance matrix: the (weighted) error must fall by LEAST, and no sub-block may get worse. What is
written must stay valid NVFP4: scales up to 0x7E, rows that do not depend on each other, zeros for
zeros, the reference's scales where nothing has importance, no crash on NaN and infinity.
test-quantize-fns of the step must pass too.
Exit status: 0 it does, 1 it does not, 3 a library or program is missing, 4 no NVFP4 in this source.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import random
import subprocess
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

CHECK = "nvfp4_scale_search"
HOLDS, DOES_NOT, NO_ENVIRONMENT, NOT_MEASURED = 0, 1, 3, 4
NVFP4 = 40
COLUMNS, ROWS, SUB, BLOCK_BYTES = 256, 16, 16, 36
SCALE_MAX = 0x7E
LEAST = 0.15  # measured: 0.26 and more for Gaussian weights, 0.19 and more for Laplace
ROUNDING = 1e-5
SIZES = (0.002, 0.02, 0.2, 20.0)
Floats: TypeAlias = "array[float]"


@dataclass(frozen=True)
class Encoder:
    """NVFP4 of one libggml-base."""

    library: ctypes.CDLL

    def search(self, x: Floats, weights: Floats | None = None) -> bytes:
        """The blocks that ggml_quantize_chunk writes for rows of COLUMNS values."""
        target = ctypes.create_string_buffer(len(x) // 64 * BLOCK_BYTES)
        self.library.ggml_quantize_chunk(
            NVFP4, at(x), target, 0, len(x) // COLUMNS, COLUMNS, at(weights) if weights else None
        )
        return target.raw

    def reference(self, x: Floats) -> bytes:
        """The blocks of quantize_row_nvfp4_ref."""
        target = ctypes.create_string_buffer(len(x) // 64 * BLOCK_BYTES)
        self.library.quantize_row_nvfp4_ref(at(x), ctypes.addressof(target), len(x))
        return target.raw

    def decode(self, blocks: bytes) -> Floats:
        """The values that blocks stand for."""
        out = array("f", bytes(4 * (len(blocks) // BLOCK_BYTES) * 64))
        source = ctypes.create_string_buffer(blocks, len(blocks))
        self.library.dequantize_row_nvfp4(ctypes.addressof(source), at(out), len(out))
        return out


def open_encoder(folder: Path) -> Encoder | None:
    """The encoder of a step; None when its source has no NVFP4. Raises OSError without library."""
    library = ctypes.CDLL(str(folder / "libggml-base.so"))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        *[ctypes.c_int64] * 3,
        ctypes.c_void_p,
    ]
    library.ggml_type_name.restype = ctypes.c_char_p
    if library.ggml_type_name(NVFP4) != b"nvfp4":
        return None
    for function in (library.quantize_row_nvfp4_ref, library.dequantize_row_nvfp4):
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        function.restype = None
    return Encoder(library)


def at(values: Floats) -> int:
    """The address of an array's content."""
    return values.buffer_info()[0]


def seed(text: str) -> random.Random:
    """Random numbers that are the same in every run."""
    return random.Random(text)  # noqa: S311 (weights, no secret)


def draw(shape: str, size: float, rng: random.Random) -> Floats:
    """ROWS rows of weights with that standard deviation."""
    count = ROWS * COLUMNS
    if shape == "normal":
        return array("f", (rng.gauss(0.0, size) for _ in range(count)))
    laplace = (rng.choice((-1, 1)) * rng.expovariate(math.sqrt(2)) for _ in range(count))
    return array("f", (size * value for value in laplace))


def weigh(x: Floats, importance: Floats | None) -> list[float]:
    """What counts of each squared difference, as quantize_q4_0 weighs it."""
    if importance is None:
        return [1.0] * len(x)
    weights = []
    for start in range(0, len(x), COLUMNS):
        row = x[start : start + COLUMNS]
        sigma2 = sum(v * v for v in row) / COLUMNS
        pairs = zip(importance, row, strict=True)
        weights += [each * math.sqrt(sigma2 + v * v) for each, v in pairs]
    return weights


def sub_errors(x: Floats, y: Floats, weights: Sequence[float]) -> list[float]:
    """The weighted squared error of every sub-block."""
    parts = [w * (a - b) ** 2 for a, b, w in zip(x, y, weights, strict=True)]
    return [sum(parts[i : i + SUB]) for i in range(0, len(parts), SUB)]


def compare(encoder: Encoder, shape: str, size: float, *, imatrix: bool) -> dict[str, object]:
    """One row of the report: the error against the reference's, and whether any part got worse."""
    rng = seed(f"{shape} {size}")
    x = draw(shape, size, rng)
    importance = array("f", (rng.expovariate(1.0) for _ in range(COLUMNS))) if imatrix else None
    weights = weigh(x, importance)
    found = sub_errors(x, encoder.decode(encoder.search(x, importance)), weights)
    before = sub_errors(x, encoder.decode(encoder.reference(x)), weights)
    worse = sum(a > b * (1 + ROUNDING) for a, b in zip(found, before, strict=True))
    fell = 1 - sum(found) / sum(before)
    name = f"{shape} {size}{', imatrix' if imatrix else ''}"
    return {
        "case": name,
        "fell": round(fell, 4),
        "worse": worse,
        "passed": fell >= LEAST and not worse,
    }


def scales(blocks: bytes) -> list[int]:
    """All scale bytes."""
    starts = range(0, len(blocks), BLOCK_BYTES)
    return [each for start in starts for each in blocks[start : start + 4]]


def probe_edges(encoder: Encoder) -> Iterator[dict[str, object]]:
    """The cases at the edge of the format."""
    x = draw("normal", 0.1, seed("edges"))
    whole = encoder.search(x)
    rows = [encoder.search(x[i : i + COLUMNS]) for i in range(0, len(x), COLUMNS)]
    yield {"case": "rows alone", "passed": whole == b"".join(rows)}
    zeros = array("f", bytes(4 * COLUMNS))
    yield {"case": "zeros", "passed": set(encoder.search(zeros)) == {0}}
    nothing = array("f", bytes(4 * COLUMNS))
    same = scales(encoder.search(x, nothing)) == scales(encoder.reference(x))
    yield {"case": "no importance anywhere", "passed": same}
    for name, value in (("nan", math.nan), ("infinity", math.inf), ("large", 1e30)):
        odd = x[:COLUMNS]
        odd[5] = value
        blocks = encoder.search(odd)
        others = blocks[BLOCK_BYTES:] == whole[BLOCK_BYTES : len(blocks)]
        valid = max(scales(blocks)) <= SCALE_MAX
        yield {"case": name, "passed": valid and others}
    tiny = array("f", (seed("tiny").gauss(0, 1e-6) for _ in range(COLUMNS)))
    yield {"case": "tiny", "passed": max(scales(encoder.search(tiny))) <= 1}


def run_own_test(folder: Path) -> dict[str, object]:
    """Upstream's test of all encoders and dot products."""
    done = subprocess.run([folder / "test-quantize-fns"], capture_output=True, check=False)
    return {"case": "test-quantize-fns", "passed": done.returncode == 0}


def judge(encoder: Encoder, folder: Path) -> int:
    """Measure, print the document, and return the exit status."""
    pairs = [(shape, size) for shape in ("normal", "laplace") for size in SIZES]
    rows = [compare(encoder, *pair, imatrix=flag) for pair in pairs for flag in (False, True)]
    rows += [*probe_edges(encoder), run_own_test(folder)]
    passed = all(row["passed"] for row in rows)
    print(json.dumps({"check": CHECK, "cases": rows, "passed": passed}))  # noqa: T201
    return HOLDS if passed else DOES_NOT


def refuse(code: int, reason: str) -> int:
    """Say why nothing was measured."""
    document = {"check": CHECK, "cases": 0, "passed": False, "reason": reason}
    print(json.dumps(document))  # noqa: T201
    return code


def main() -> int:
    """Parse the command line and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True)
    for ignored in ("--source", "--work", "--root"):
        parser.add_argument(ignored, type=Path)
    folder: Path = parser.parse_args().bin
    try:
        encoder = open_encoder(folder)
    except OSError as error:
        return refuse(NO_ENVIRONMENT, str(error))
    if not (folder / "test-quantize-fns").is_file():
        return refuse(NO_ENVIRONMENT, "test-quantize-fns was not built")
    if encoder is None:
        return refuse(NOT_MEASURED, "the source has no NVFP4")
    return judge(encoder, folder)


if __name__ == "__main__":
    sys.exit(main())
