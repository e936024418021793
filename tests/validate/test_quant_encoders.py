"""The child that runs a step's encoders: on a library (a labelled fake) compiled from C."""

from __future__ import annotations

import json
import math
import shutil
import struct
import subprocess
from array import array
from pathlib import Path

import pytest

from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from validate.quant_evidence.document import document_weights
from validate.quant_evidence.float_weights import list_matrices
from validate.quant_evidence.quality import Figure
from validate.quant_evidence.tables import find_losses, format_weights
from validate.quant_evidence.weight_error import (
    Error,
    Libraries,
    measure_normal,
    measure_tensors,
)
from validate.result_cache import ResultCache

# "q4_0" keeps a byte a value in steps of STEP, rows of any multiple of 32; "q8_0" crashes.
LIBRARY = r"""
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
void dequantize_row_q4_0(const int8_t * q, float * y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = STEP * q[i];
}
static const char * known[] = {"q4_0", NULL, "CRASHING"};
const char * ggml_type_name(int type) { return type < 3 ? known[type] : "NONE"; }
int64_t ggml_blck_size(int type) { return 32; }
size_t ggml_type_size(int type) { return 32; }
size_t ggml_quantize_chunk(int type, const float * x, int8_t * q, int64_t start, int64_t rows,
                           int64_t columns, const float * importance) {
    if (type == 2) abort();
    for (int64_t i = 0; i < rows * columns; i++) q[i] = (int8_t) roundf(x[i] / STEP);
    return rows * columns;
}
"""


@pytest.fixture
def cache(lab: Lab) -> ResultCache:
    return ResultCache(lab)


def make_library(
    folder: Path, name: str = "half", step: str = "0.25f", crashing: str = "x"
) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    source, target = folder / "half.c", folder / "libggml-base.so"
    source.write_text(LIBRARY.replace("STEP", "0.25f").replace("CRASHING", crashing))
    command = (compiler, "-shared", "-fPIC", "-o", target, source, "-lm")
    subprocess.run(command, check=True)
    return target


def write_tensors(path: Path, tensors: dict[str, tuple[int, int]]) -> None:
    """A safetensors file whose values are 0.1 everywhere."""
    header, offset, body = {}, 0, b""
    for name, (rows, columns) in tensors.items():
        size = 4 * rows * columns
        header[name] = {
            "dtype": "F32",
            "shape": [rows, columns],
            "data_offsets": [offset, offset + size],
        }
        offset, body = offset + size, body + array("f", [0.1] * (rows * columns)).tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def test_the_error_is_that_of_the_library(cache: ResultCache, tmp_path: Path) -> None:
    library = make_library(tmp_path)
    (found,) = measure_normal(cache, Libraries(library, library), 1.0)
    assert found.encoding == "Q4_0"
    # rounding to steps of s: s^2 / 12
    assert found.nmse.value == pytest.approx(0.25**2 / 12, rel=0.01)
    assert found.nmse.low < found.nmse.value < found.nmse.high
    assert found.tensors == 16


def test_real_weights_are_read_where_they_lie(cache: ResultCache, tmp_path: Path) -> None:
    path, library = tmp_path / "w.safetensors", make_library(tmp_path)
    write_tensors(path, {"a": (64, 256), "b": (100, 48), "few rows": (2, 256)})
    tensors = list_matrices(path)
    assert [(each.name, each.rows) for each in tensors] == [("a", 64), ("b", 100)]
    (found,) = measure_tensors(cache, Libraries(library, library), path, tensors)
    assert found.nmse.value == pytest.approx(1.0)  # 0.1 becomes 0
    assert (found.tensors, found.wide) == (1, pytest.approx(1.0))  # 48 is no multiple of 32


def test_a_second_run_encodes_nothing(cache: ResultCache, tmp_path: Path) -> None:
    library = make_library(tmp_path)
    first = measure_normal(cache, Libraries(library, library), 0.1)
    content = library.read_bytes()
    library.write_bytes(content)  # the same library elsewhere in time
    assert measure_normal(cache, Libraries(library, library), 0.1) == first
    assert len(list(cache.folder.glob("*/*.json"))) == 1


def test_a_library_that_crashes_is_no_measurement(cache: ResultCache, tmp_path: Path) -> None:
    library = make_library(tmp_path, crashing="q8_0")
    with pytest.raises(InvalidMeasurement, match="cannot be measured"):
        measure_normal(cache, Libraries(library, library), 1.0)
    (tmp_path / "none.so").write_bytes(b"no library")
    broken = Libraries(tmp_path / "none.so", tmp_path / "none.so")
    with pytest.raises(InvalidMeasurement, match="cannot be measured"):
        measure_normal(cache, broken, 1.0)


@pytest.mark.parametrize("spoil", [lambda b: b[:-9], lambda b: b[:5], lambda b: b"\xff" * 20])
def test_a_file_of_weights_that_is_cut_off_is_refused(tmp_path: Path, spoil: object) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"a": (64, 64)})
    assert callable(spoil)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InvalidMeasurement, match=r"w\.safetensors is"):
        list_matrices(path)


def test_where_a_format_loses_is_said() -> None:
    def make(dual: float, eight: float) -> list[Error]:
        values = {"Q4_0": 7e-3, "Q4_0_ROCMFP4": dual, "Q8_0": 3e-5, "Q8_0_ROCMFPX": eight}
        return [Error(name, Figure(v, v, v), 100.0, 1) for name, v in values.items()]

    normal = {0.005: make(0.0105, 3e-3), 1.0: make(6e-3, 3e-5)}
    source = {"package": "p", "matrices": 1, "weights": 1}
    document = json.loads(json.dumps(document_weights(normal, make(6e-3, 6e-3), source, {})))
    assert list(find_losses(document)) == [
        "Q4_0_ROCMFP4 has a larger error than Q4_0 at standard deviation 0.005 (1.5 times)",
        "Q8_0_ROCMFPX has a larger error than Q8_0 at standard deviation 0.005 (100 times), "
        "real weights (200 times)",
    ]
    assert "| Q8_0 | 3.00e-05 | 3.00e-05 |" in "\n".join(format_weights(document))
    assert math.isnan(Error("x", Figure(1, 1, 1), 1.0, 1).wide)
