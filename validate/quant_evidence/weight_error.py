"""What the encoders of a step do to weights: squared error over squared weights (NMSE).

Gaussian weights of several standard deviations show where the smallest scale of a format ends; real
float weights show what counts. Every encoder is the C code of the step, run in a child process.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from upstream import process
from upstream.download import hash_file
from upstream.errors import CommandError, EnvironmentFault, InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.quant_evidence.float_weights import Tensor
from validate.quant_evidence.quality import ALPHA, Figure
from validate.result_cache import ResultCache
from validate.statistics import hodges_lehmann

PROGRAM = Path(__file__).with_name("encoder.py")
SECONDS = 1800.0
SIZES = (0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
ROWS, COLUMNS, SEED = 256, 1024, 1
WIDE = 256  # rows that the K types and IQ4_XS can divide


@dataclass(frozen=True)
class Encoding:
    """A column of the tables: a ggml type, with importance 1 for every column or none."""

    name: str
    type: str
    importance: bool = False
    upstream: bool = False


ENCODINGS = (
    Encoding("Q4_0", "q4_0"),
    Encoding("IQ4_NL", "iq4_nl"),
    Encoding("IQ4_XS", "iq4_xs"),
    Encoding("Q4_K", "q4_K"),
    Encoding("MXFP4", "mxfp4"),
    Encoding("NVFP4 (upstream)", "nvfp4", upstream=True),
    Encoding("NVFP4", "nvfp4"),
    Encoding("Q4_0_ROCMFP4", "q4_0_rocmfp4"),
    Encoding("Q4_0_ROCMFP4_FAST", "q4_0_rocmfp4_fast"),
    Encoding("Q3_0_ROCMFPX", "q3_0_rocmfpx"),
    Encoding("Q2_0_ROCMFPX", "q2_0_rocmfpx"),
    Encoding("Q6_0_ROCMFPX", "q6_0_rocmfpx"),
    Encoding("Q6_K", "q6_K"),
    Encoding("Q8_0_ROCMFPX", "q8_0_rocmfpx"),
    Encoding("Q8_0_ROCMFPX, importance 1", "q8_0_rocmfpx", importance=True),
    Encoding("Q8_0", "q8_0"),
)


@dataclass(frozen=True)
class Error:
    """NMSE of one encoding: over all batches, and the interval of a batch's (median shift of the
    logarithms). speed: MB of float32 a CPU second. tensors: those that the type can divide.
    """

    encoding: str
    nmse: Figure
    speed: float
    tensors: int
    wide: float = math.nan


@dataclass(frozen=True)
class Libraries:
    """libggml-base of the tip and of the base."""

    tip: Path
    base: Path


def find_library(binaries: StepBinaries) -> Path:
    """The libggml-base of a step. Raises InvalidMeasurement when it was built without one."""
    names = [name for name, file in binaries.files.items() if not file.link]
    for name in names:
        if name.startswith("libggml-base."):
            return binaries.folder / name
    raise InvalidMeasurement("the build has no libggml-base", remedy="build shared libraries")


def measure_normal(cache: ResultCache, libraries: Libraries, size: float) -> list[Error]:
    """All encodings on Gaussian weights of that standard deviation."""
    shape = {"rows": ROWS, "columns": COLUMNS, "seed": SEED}
    return _measure(cache, libraries, {"kind": "normal", "size": size, **shape}, [COLUMNS])


def measure_tensors(
    cache: ResultCache, libraries: Libraries, path: Path, tensors: Sequence[Tensor]
) -> list[Error]:
    """All encodings on the float32 matrices of a file."""
    chosen = [
        {name: value for name, value in asdict(each).items() if name != "name"} for each in tensors
    ]
    source = {"kind": "file", "path": str(path), "tensors": chosen, "sha256": hash_file(path)}
    return _measure(cache, libraries, source, [each.columns for each in tensors])


def _measure(
    cache: ResultCache, libraries: Libraries, source: Mapping[str, Any], columns: Sequence[int]
) -> list[Error]:
    same = hash_file(libraries.tip) == hash_file(libraries.base)
    errors = []
    for upstream in (False, True):
        if upstream and same:
            continue
        asked = [each for each in ENCODINGS if each.upstream == upstream]
        library = libraries.base if upstream else libraries.tip
        answers = _ask(cache, library, asked, source)
        pairs = zip(asked, answers, strict=True)
        errors += [read_error(each, found, columns) for each, found in pairs if found]
    order = [each.name for each in ENCODINGS]
    return sorted(errors, key=lambda error: order.index(error.encoding))


def _ask(
    cache: ResultCache, library: Path, asked: Sequence[Encoding], source: Mapping[str, Any]
) -> list[dict[str, Any] | None]:
    """What the child says, kept by the content of the library, the program and the weights."""
    encoders = [{"type": each.type, "importance": each.importance} for each in asked]
    inputs = {
        "check": "weight error",
        "library": hash_file(library),
        "program": hash_file(PROGRAM),
        "encoders": encoders,
        "source": {name: value for name, value in source.items() if name != "path"},
    }
    job = {"library": str(library), "encoders": encoders, "source": source}
    found, _ = cache.obtain(inputs, lambda: {"answers": _run(job)})
    answers: list[dict[str, Any] | None] = found["answers"]
    return answers


def _run(job: Mapping[str, Any]) -> list[dict[str, Any] | None]:
    try:
        done = process.run(
            (sys.executable, PROGRAM), stdin=json.dumps(job).encode(), timeout=SECONDS
        )
    except CommandError as error:
        if "numpy" in error.failure.stderr_tail:
            raise EnvironmentFault(
                "the encoders are measured with numpy, which is missing",
                remedy="run it through nox: nox -s quant-evidence",
            ) from error
        raise InvalidMeasurement(
            f"the encoders of {job['library']} cannot be measured: {error.what}"
        ) from error
    answers: list[dict[str, Any] | None] = json.loads(done.stdout)
    return answers


def read_error(encoding: Encoding, found: Mapping[str, Any], columns: Sequence[int]) -> Error:
    """The figures of one answer. Raises InvalidMeasurement when nothing was encoded."""
    pairs = [
        (error, norm)
        for error, norm in zip(found["error"], found["norm"], strict=True)
        if error is not None and norm > 0
    ]
    if not pairs:
        raise InvalidMeasurement(f"{encoding.name} divides the rows of no tensor")
    total = sum(error for error, _ in pairs) / sum(norm for _, norm in pairs)
    logs = [math.log(max(error, sys.float_info.min) / norm) for error, norm in pairs]
    spread = hodges_lehmann(logs, ALPHA)
    figure = Figure(total, math.exp(min(spread.low, 99)), math.exp(min(spread.high, 99)))
    speed = found["bytes"] / 1e6 / found["seconds"] if found["seconds"] else math.nan
    wide = [
        (error, norm)
        for error, norm, width in zip(found["error"], found["norm"], columns, strict=False)
        if width % WIDE == 0 and error is not None
    ]
    share = sum(e for e, _ in wide) / sum(n for _, n in wide) if wide else math.nan
    return Error(encoding.name, figure, speed, len(pairs), share)
