"""The host run of ggml-cuda's ROCmFPx functions: what it makes of a tree, and what it stands on.

What the checks say about real sources is `nox -s validate`'s work.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.series.test_rocmfpx_checks import CHECKS, check

FILES = ("dequantize.cuh", "vecdotq.cuh", "mmvq.cu", "mmq.cu", "mmq-load-tiles.cuh", "ggml-cuda.cu")
# Two kernels on the stand-ins of cuda_on_host.h: threads in order, bytes by three bits of a nibble.
PROGRAM = """
#include "cuda_on_host.h"
#include <cstdio>
extern "C" float ggml_fp16_to_fp32(uint16_t) { return 0; }
extern "C" uint16_t ggml_fp32_to_fp16(float) { return 0; }
template <int n> static __global__ void kernel(int * out) {
    out[(blockIdx.y*gridDim.x + blockIdx.x)*blockDim.x + threadIdx.x] += n + threadIdx.x;
}
int main() {
    int out[12] = {};
    kernel<3><<<dim3(2, 3, 1), 2, 0, nullptr>>>(out);
    for (int each : out) printf("%d ", each);
    printf("%08x", __byte_perm(0x33221100, 0x77665544, 0xF80c));
}
"""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CHECKS))
    return importlib.import_module("rocmfpx_cuda")


@pytest.mark.parametrize(
    ("part", "function"),
    [
        ("dequantise", "dequantize.cuh: no dequantize_q4_0_rocmfp4("),
        ("mat_vec", "vecdotq.cuh: no vec_dot_q2_0_rocmfpx_q8_1("),
        ("matmul", "mmq-load-tiles.cuh: no ggml_cuda_mmq_load_tiles_q6_0_rocmfpx("),
    ],
)
def test_red_where_the_functions_are_absent(tmp_path: Path, part: str, function: str) -> None:
    folder = tmp_path / "ggml/src/ggml-cuda"
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text("")
    code, document = check(f"rocmfpx_cuda_{part}.py", tmp_path)
    assert (code, document["passed"]) == (1, False)
    assert function in document["detail"][0]["reason"]


def test_a_tree_without_the_backend_measures_nothing(tmp_path: Path) -> None:
    code, document = check("rocmfpx_cuda_mat_vec.py", tmp_path)
    assert (code, document["cases"], document["passed"]) == (4, 0, False)
    assert "the tree has no ggml/src/ggml-cuda/vecdotq.cuh" in document["reason"]


def test_a_type_must_be_named_at_its_place(host: ModuleType, tmp_path: Path) -> None:
    place = host.Place("a.cu", "case FIRST:", "case LAST:")
    (tmp_path / "a.cu").write_text("case FIRST:\n case GGML_TYPE_A:\ncase LAST: case GGML_TYPE_B:")
    assert place.names(tmp_path, "A")
    assert not place.names(tmp_path, "B")


def test_a_launch_runs_every_thread(host: ModuleType, tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source, program = tmp_path / "a.cpp", tmp_path / "a"
    source.write_text(host.loops_for_launches(PROGRAM))
    command = [compiler, "-std=c++17", "-w", f"-I{CHECKS}", source, "-o", program]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "3 4 " * 6 + "77000044"
