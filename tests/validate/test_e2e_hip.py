"""The real kernels of llama.cpp under the real clang: a planted spill is found.

Run by `nox -s e2e`. Takes ROCm, or the root of `nox -s toolchain -- --suite trixie-hip`; as root on
a Debian with debootstrap it makes that, some minutes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from series.manifest import load_series
from upstream.git import Git, Stage
from upstream.lab import Lab, open_lab
from upstream.provider import open_upstream
from validate.hip.check import check_hip
from validate.hip.compiler import hip_compiler_at_hand
from validate.isa.check import StepPair
from validate.shader_root import HIP_SUITE, make_root
from validate.verdict import CheckResult, Verdict

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parent.parent.parent
NORM = "ggml/src/ggml-cuda/norm.cu"
# In one kind of rms_norm_f32: 300 values that live across the barrier of the reduction.
CALM = """\
            tmp = block_reduce<block_reduce_method::SUM, block_size>(tmp, s_sum);

            const float mean = tmp / ncols;
            const float scale = rsqrtf(mean + eps);
"""
WIDE = """\
            constexpr int wide = block_size == 256 && do_add ? 300 : 1;
            float live[wide];
#pragma unroll
            for (int i = 0; i < wide; ++i) {
                live[i] = xc[tid + i*block_size];
            }
            tmp = block_reduce<block_reduce_method::SUM, block_size>(tmp, s_sum);
#pragma unroll
            for (int i = 0; i < wide; ++i) {
                dstc[tid + i*block_size] = live[i] * tmp;
            }

            const float mean = tmp / ncols;
            const float scale = rsqrtf(mean + eps);
"""


@pytest.fixture(scope="module")
def lab() -> Lab:
    """The user's lab with a compiler for HIP."""
    lab = open_lab()
    if hip_compiler_at_hand(lab, lab.scratch) is not None:
        return lab
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("no ROCm and no root, and making one takes root and debootstrap")
    make_root(lab, HIP_SUITE)
    return lab


@pytest.fixture(scope="module")
def base(lab: Lab) -> str:
    """The tree that the series stands on."""
    version = load_series(ROOT / "series").base
    return Git(lab.repository).tree_of(open_upstream(lab, "auto", None).provide(version))


def check_edit(lab: Lab, base: str, old: str, new: str) -> CheckResult:
    """What the check says about the base with one edit of norm.cu."""
    git = Git(lab.repository)
    text = git.read_blob(f"{base}:{NORM}") or b""
    assert text.count(old.encode()) == 1
    blob = git.write_blob(text.replace(old.encode(), new.encode()))
    tree = git.edit_tree(base, [Stage("100644", blob, 0, NORM)], lab.scratch)
    return check_hip(lab, git, StepPair("edited", "base", tree, base))


def test_a_widened_live_array_is_a_spill(lab: Lab, base: str) -> None:
    found = check_edit(lab, base, CALM, WIDE)
    assert found.verdict is Verdict.FAIL
    assert "norm.cu rms_norm_f32<" in found.detail
    assert "more registers spilled" in found.detail
    assert found.facts["files"] == ["norm.cu"]
    assert found.facts["same"] > 0
    spilling = [each for each in found.facts["changes"] if each["verdict"] == "SPILLS"]
    assert [each["pipeline"] for each in spilling] == [
        "norm.cu rms_norm_f32<256, true, true, false>"
    ]


def test_a_comment_keeps_all_numbers(lab: Lab, base: str) -> None:
    found = check_edit(lab, base, CALM, f"// calm\n{CALM}")
    assert found.verdict is Verdict.PASS
    assert found.detail.endswith("kernels keep their numbers (norm.cu)")
    assert found.facts["same"] > 10


def test_a_broken_file_is_named(lab: Lab, base: str) -> None:
    found = check_edit(lab, base, CALM, f"no_such_type x;\n{CALM}")
    assert found.verdict is Verdict.INVALID
    assert "norm.cu on clang" in found.detail
    assert "no_such_type" in found.detail
