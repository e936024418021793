"""Planted faults in the real llama.cpp: which tier sees which.

Run by `nox -s e2e`. LAB_DIR names the lab, so that a warm one is used again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from real_stack import provide_stack

from series.model import Stack, Step
from upstream.errors import InvalidMeasurement
from upstream.git import Git, Person, Stage
from upstream.lab import Lab, open_lab
from validate import backend_ops, divergence, results
from validate.artifacts import StepBinaries
from validate.backend_ops import check_backend_ops
from validate.build import Builder, build_stack
from validate.corpus import open_corpus
from validate.divergence import check_divergence
from validate.models import provide_model
from validate.recipe import llama_recipe
from validate.results import check_results
from validate.room import Room
from validate.toolchain import find_toolchain
from validate.touched import find_touched
from validate.verdict import Verdict

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parent.parent.parent
TARGETS = (backend_ops.TARGET, results.TARGET, divergence.TARGET, "llama-quantize")
WRITER = Person("Ada", "ada@example.org", "1700000000 +0000")
OPS, SUPPORTS = "ggml/src/ggml-cpu/ops.cpp", "ggml/src/ggml-cpu/ggml-cpu.cpp"
TRAITS, OF_Q4_0 = "ggml/src/ggml-cpu/ggml-cpu.c", ".vec_dot                  = "
SCALE = "1.0f/sqrtf(mean + eps)"
FIRST_CASE = "    switch (op->op) {\n        case GGML_OP_CPY:\n"
# The scale of every RMS norm, fused or not, in kernel and reference alike.
FAULTS = {
    "wrong-norm": (OPS, SCALE, "1.001f/sqrtf(mean + eps)"),
    "last-bit": (OPS, SCALE, "1.0000001f/sqrtf(mean + eps)"),
    "dropped-support": (
        SUPPORTS,
        FIRST_CASE,
        FIRST_CASE.replace("case", "case GGML_OP_ARGMAX:\n            return false;\n        case"),
    ),
    # blocks of the same size: only the numbers are wrong, and only where no other code is faster
    "wrong-traits": (
        TRAITS,
        f"{OF_Q4_0}ggml_vec_dot_q4_0_q8_0,",
        f"{OF_Q4_0}ggml_vec_dot_iq4_nl_q8_0,",
    ),
}


@dataclass(frozen=True)
class Planted:
    """The base, and a step on it for every fault, built; trees by the same names."""

    room: Room
    git: Git
    base: StepBinaries
    steps: dict[str, StepBinaries]
    trees: dict[str, str]


def plant(git: Git, lab: Lab, stack: Stack, name: str) -> Step:
    path, right, wrong = FAULTS[name]
    text = git.read_blob(f"{stack.commit}:{path}")
    assert text is not None
    assert text.count(right.encode()) == 1
    blob = git.write_blob(text.replace(right.encode(), wrong.encode()))
    tree = git.edit_tree(stack.tree, [Stage("100644", blob, 0, path)], lab.scratch)
    return Step("planted", name, git.write_commit(tree, (stack.commit,), WRITER, name), tree)


@pytest.fixture(scope="module")
def planted() -> Planted:
    lab = open_lab()
    git, stack = Git(lab.repository), provide_stack(lab)
    steps = tuple(plant(git, lab, stack, name) for name in FAULTS)
    recipe = replace(llama_recipe(stack.version), targets=TARGETS)
    builder = Builder(lab, git, recipe, find_toolchain(), jobs=2)
    builds = build_stack(builder, replace(stack, steps=steps))
    kept = {build.name: build.binaries for build in builds if build.binaries is not None}
    base = kept.pop("base")
    assert {*kept} == {*FAULTS}
    trees = {"base": stack.tree, **{step.patch: step.tree for step in steps}}
    # One thread: on a machine that does other things too, two wait for each other most of the time.
    return Planted(Room(lab, provide_model(lab), threads=1), git, base, kept, trees)


def test_the_fault_in_kernel_and_reference_alike_is_invisible_to_test_backend_ops(
    planted: Planted,
) -> None:
    touched = find_touched(planted.git, planted.trees["base"], planted.trees["wrong-norm"])
    assert {"RMS_NORM", "RMS_NORM_MUL_ADD"} <= {*touched.ops}
    found = check_backend_ops(planted.room, planted.steps["wrong-norm"], planted.base, touched)
    assert found.verdict is Verdict.PASS, found


def test_a_fault_in_one_types_traits_is_found_by_the_cases_of_that_type(planted: Planted) -> None:
    """Its file stands for all operations, the libraries' code for one type."""
    touched = find_touched(planted.git, planted.trees["base"], planted.trees["wrong-traits"])
    assert (touched.unknown, touched.types) == ((TRAITS,), ())
    found = check_backend_ops(planted.room, planted.steps["wrong-traits"], planted.base, touched)
    assert found.verdict is Verdict.FAIL, found
    assert (found.facts["types"], found.facts["unknown"]) == (("q4_0",), ())
    failed = {name for run in found.facts["runs"] for name in run["failed"]}
    assert failed
    assert all("=q4_0," in name for name in failed)


@pytest.mark.parametrize("numerics", ["bit-exact", "nmse"])
def test_the_same_fault_is_found_by_logits_and_divergence(
    planted: Planted, numerics: results.Numerics
) -> None:
    room, step, base = planted.room, planted.steps["wrong-norm"], planted.base
    logits = check_results(room, step, base, numerics, quantizer=base)
    spread = check_divergence(room, open_corpus(), step, base, numerics, base)
    assert (logits.verdict, spread.verdict) == (Verdict.FAIL, Verdict.FAIL), (logits, spread)


def test_one_last_bit_is_within_nmse_and_not_bit_exact(planted: Planted) -> None:
    room, step, base = planted.room, planted.steps["last-bit"], planted.base
    logits = check_results(room, step, base, "nmse", quantizer=base)
    spread = check_divergence(room, open_corpus(), step, base, "nmse", base)
    assert (logits.verdict, spread.verdict) == (Verdict.PASS, Verdict.PASS), (logits, spread)
    assert logits.facts["nmse"] < 1e-9
    assert check_divergence(room, open_corpus(), step, base, "bit-exact", base).verdict is (
        Verdict.FAIL
    )


def test_a_dropped_supports_op_is_found(planted: Planted) -> None:
    touched = find_touched(planted.git, planted.trees["base"], planted.trees["dropped-support"])
    step = planted.steps["dropped-support"]
    found = check_backend_ops(planted.room, step, planted.base, touched)
    assert found.verdict is Verdict.FAIL
    assert all(name.startswith("ARGMAX(") for name in found.facts["unsupported"])


def test_a_renamed_device_is_invalid(planted: Planted) -> None:
    touched = find_touched(planted.git, planted.trees["base"], planted.trees["wrong-norm"])
    with pytest.raises(InvalidMeasurement, match="Vulkna0"):
        check_backend_ops(
            planted.room, planted.steps["wrong-norm"], planted.base, touched, "Vulkna0"
        )
