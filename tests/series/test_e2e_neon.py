"""The NEON dot products of the ROCmFPx types, cross-compiled and run under qemu-user.

Run by `nox -s e2e`, where Debian's g++-aarch64-linux-gnu and qemu-user are installed (.ci/run).
"""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from tests.series.test_rocmfpx_checks import CHECKS
from tests.validate.real_stack import provide_stack
from upstream.git import Git
from upstream.lab import open_lab
from validate.source_tree import open_check_tree

pytestmark = pytest.mark.e2e
KERNELS = Path("ggml/src/ggml-cpu/arch/arm/quants.c")
RIGHT, WRONG = (
    "ggml_vqtbl1q_s8(values, vshrq_n_u8(q, 4))",
    "ggml_vqtbl1q_s8(values, vshrq_n_u8(q, 5))",
)


@pytest.fixture
def dot(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CHECKS))
    found = importlib.import_module("rocmfpx_dot")
    if absent := found.absent_tools():
        pytest.skip(f"no {', '.join(absent)}: apt-get install g++-aarch64-linux-gnu qemu-user")
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CPU part of the stack's tip, a copy."""
    lab = open_lab()
    stack = provide_stack(lab)
    tree = open_check_tree(lab, Git(lab.repository))
    tree.move(stack.steps[-1].tree)
    copy = tmp_path_factory.mktemp("tip")
    others = shutil.ignore_patterns("ggml-vulkan", "ggml-cuda", "ggml-sycl", "ggml-hexagon")
    shutil.copytree(tree.folder / "ggml", copy / "ggml", ignore=others)
    return copy


def test_neon_gives_the_golden_vectors(dot: ModuleType, source: Path, tmp_path: Path) -> None:
    found = list(dot.judge_neon(source, tmp_path))
    assert [text for _, _, text in found if text] == []
    modes = [f"{each} {mode[0]}" for each in dot.ARCHITECTURES for mode in dot.MODES]
    assert [what for what, _, _ in found] == modes
    assert {cases for what, cases, _ in found if what.endswith("golden")} == {1890}


def test_a_wrong_neon_instruction_is_red(dot: ModuleType, source: Path, tmp_path: Path) -> None:
    shutil.copytree(source / "ggml", tmp_path / "ggml")
    text = (source / KERNELS).read_text()
    (tmp_path / KERNELS).write_text(text.replace(RIGHT, WRONG))
    program = dot.compile_neon(tmp_path, tmp_path, dot.ARCHITECTURES[0])
    _, _, wrong = dot.run_emulated(program, "golden")
    assert "q4_0_rocmfp4" in wrong
