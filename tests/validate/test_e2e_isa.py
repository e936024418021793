"""The real shaders of llama.cpp under the real compilers: a planted spill is found.

Run by `nox -s e2e`. Takes the two toolchain roots of the lab (`nox -s toolchain`); as root on a
Debian with debootstrap it makes them, some minutes each.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_stack import provide_stack

from series.model import Stack
from upstream.git import Git, Stage
from upstream.lab import Lab, open_lab
from upstream.provider import open_upstream
from validate.isa.check import StepPair, check_isa
from validate.isa.compilers import missing_roots, open_compiler
from validate.isa.place import open_root
from validate.shader_root import SUITES, find_root, make_root
from validate.source_tree import SourceTree
from validate.verdict import CheckResult, Verdict

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parent.parent.parent
SHADER = "ggml/src/ggml-vulkan/vulkan-shaders/mul_mat_vec_iq3_s.comp"
# What upstream did against the spill of IQ3_S in b10809: fewer live values above 4 columns.
NARROW, WIDE = "const uint TPB = NUM_COLS <= 4 ? 8 : 16;", "const uint TPB = 8;"


@pytest.fixture(scope="module")
def lab() -> Lab:
    """The user's lab with both roots."""
    lab = open_lab()
    can_make = os.geteuid() == 0 and shutil.which("debootstrap")
    if missing_roots(lab) and not can_make:
        pytest.skip("no toolchain roots, and making them takes root and debootstrap")
    if os.geteuid() != 0:
        pytest.skip("entering a toolchain root takes root")
    for suite in SUITES:
        make_root(lab, suite)
    return lab


@pytest.fixture(scope="module")
def stack(lab: Lab) -> Stack:
    return provide_stack(lab)


def check_edit(lab: Lab, stack: Stack, old: str, new: str) -> CheckResult:
    """What the check says about the base with one edit of the shader."""
    git = Git(lab.repository)
    text = git.read_blob(f"{stack.commit}:{SHADER}") or b""
    assert text.count(old.encode()) == 1
    blob = git.write_blob(text.replace(old.encode(), new.encode()))
    tree = git.edit_tree(stack.tree, [Stage("100644", blob, 0, SHADER)], lab.scratch)
    return check_isa(lab, git, StepPair("edited", "base", tree, stack.tree))


def test_a_widened_live_array_is_a_spill(lab: Lab, stack: Stack) -> None:
    found = check_edit(lab, stack, NARROW, WIDE)
    assert found.verdict is Verdict.FAIL
    assert "mul_mat_vec_iq3_s_f32_f32" in found.detail
    assert "more registers spilled" in found.detail
    spilling = [each for each in found.facts["changes"] if each["verdict"] == "SPILLS"]
    assert len({each["compiler"] for each in spilling}) == 2
    # Up to 4 columns the edit changes nothing but the text of the shader.
    assert not [each for each in spilling if each["pipeline"][-1] in "1234"]


def test_a_comment_compiles_to_the_same(lab: Lab, stack: Stack) -> None:
    found = check_edit(lab, stack, NARROW, f"// narrower\n{NARROW}")
    assert found.verdict is Verdict.IDENTICAL
    assert found.facts["same"] > 2000


HEAD = """#version 450
#extension GL_KHR_shader_subgroup_shuffle : require
layout(local_size_x = 64) in;
layout(binding = 0) buffer B { uint b[]; };
shared uint s[64];
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("b[i] = b[i] * 3;", set()),
        ("s[i] = b[i]; barrier(); b[i] = s[63 - i];", {"ds_load_b32", "ds_store_b32"}),
        ("b[i] = subgroupShuffle(b[i], b[i + 64]);", {"ds_bpermute_b32"}),
    ],
)
@pytest.mark.parametrize("suite", SUITES)
def test_lds_instructions_are_counted(
    lab: Lab, tmp_path: Path, suite: str, body: str, found: set[str]
) -> None:
    """Also where the text of the code is not asked for without a sign of them in the shader."""
    root = find_root(lab, suite)
    assert root is not None
    compiler = open_compiler(open_root(root, tmp_path))
    main = f"void main() {{ uint i = gl_LocalInvocationIndex; {body} }}"
    (tmp_path / "a.comp").write_text(f"{HEAD}{main}\n")
    inside = compiler.place.inside
    spirv, words = inside(tmp_path / "a.spv"), ("--subgroup", "32", "--bindings", "1", "--isa", "1")
    compiler.place.run(
        ["glslc", "--target-env=vulkan1.3", "-O", inside(tmp_path / "a.comp"), "-o", spirv]
    )
    command = [inside(compiler.program), "--spirv", spirv, *words]
    answer = json.loads(compiler.place.run(command, compiler.variables).stdout)
    assert set(answer["lds"]) == found


@pytest.mark.parametrize(("version", "code"), [("b10566", 1), ("b10809", 0), ("b11549", 0)])
def test_the_drop_check_of_the_iq3_s_patch(
    lab: Lab, tmp_path: Path, version: str, code: int
) -> None:
    upstream, git = open_upstream(lab, "auto", None), Git(lab.repository)
    commit = upstream.provide(upstream.resolve(version))
    SourceTree(git, tmp_path / "tree", tmp_path / "index").move(git.tree_of(commit))
    script = ROOT / "series/checks/vulkan_iq3_s_spill.py"
    words = ("--source", tmp_path / "tree", "--root", find_root(lab), "--work", tmp_path / "work")
    command = [sys.executable, script, *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    assert done.returncode == code, done.stdout
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 32  # f32 and f16 activations, 2 and 4 rows, 1 to 8 columns
    most = max(row["spilled_vgprs"] for row in rows)
    assert most > 400 if code else most == 0


def test_the_series_passes_and_a_second_run_is_quick(stack: Stack) -> None:
    command = [sys.executable, "-m", "validate.isa", "--changed", "--json"]
    first = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert first.returncode == 0, first.stdout
    document = json.loads(first.stdout)
    mesas = [each for each in document["compilers"] if each["version"].startswith("Mesa")]
    assert len(mesas) == 2  # and clang, where there is a root for HIP
    assert all(step["same"] + step["new"] > 2000 for step in document["steps"])
    started = time.monotonic()
    again = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert json.loads(again.stdout) == document
    assert time.monotonic() - started < 15
