"""Which files are compiled, what is kept, and what the machine may lack."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from series.model import Claim, IsaAllowance, Series
from tests.validate.hip_stand_ins import (
    CLANG,
    CUDA,
    TREE,
    compiled_files,
    compiled_kernels,
    make_hip_root,
    used_headers,
)
from tests.validate.tiny_project import Change, make_stack
from upstream.errors import EnvironmentFault, ExitCode, InvalidMeasurement, UsageError
from upstream.git import Git
from upstream.lab import Lab
from upstream.version import Version
from validate.hip.check import SAME, check_hip, summarize_hip
from validate.hip.compile import HipBench
from validate.hip.compiler import find_hip_compiler, hip_compiler_at_hand, open_hip_compiler
from validate.hip.run import NOTHING, HipRun, HipSide, choose_compiled, measure_hip
from validate.hip.sources import HipTree, read_hip_tree, removed_lines
from validate.hip.survey import survey_files
from validate.hip.tables import document_hip, format_hip, hip_exit_code
from validate.isa.check import StepPair
from validate.isa.judge import Word
from validate.isa.place import Place
from validate.isa.workshop import Workshop
from validate.shader_root import COMPLETE, HIP_SUITE, SCRIPT, root_folder
from validate.verdict import Verdict

NORM = str(TREE[CUDA + "norm.cu"])
CLANG_SAYS = "stand-in clang version 17.0.6 (1), HIP 5.7.1"
SPILL = Change("spill.patch", {CUDA + "norm.cu": NORM.replace("_Z4normf 0", "_Z4normf 7")})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_hip_root(tmp_path)


def measure(
    lab: Lab, shop: Workshop, place: Place, *changes: Change, claim: Claim | None = None
) -> HipRun:
    """A run over a small stack."""
    stack = make_stack(lab, changes, TREE)
    claims = {changes[0].name: claim} if claim else {}
    series = Series(Path("series"), Version(7), (), claims=claims)
    return measure_hip(shop, series, stack, lambda: open_hip_compiler(place))


def test_no_cuda_file_changed_is_said_and_is_no_case(lab: Lab, shop: Workshop) -> None:
    stack = make_stack(lab, [Change("c.patch", {"ggml/src/ggml.c": "int y;\n"})], TREE)
    series = Series(Path("series"), Version(7), ())
    run = measure_hip(shop, series, stack, lambda: pytest.fail("a compiler was asked for"))
    assert format_hip(run) == NOTHING
    assert document_hip(run)["cases"] == 0
    assert hip_exit_code(run) is ExitCode.OK


def test_a_stack_without_a_step(lab: Lab, shop: Workshop, place: Place) -> None:
    with pytest.raises(InvalidMeasurement, match="no step"):
        measure(lab, shop, place)


def test_a_new_spill_is_refused_and_named(lab: Lab, shop: Workshop, place: Place) -> None:
    run = measure(lab, shop, place, SPILL)
    assert hip_exit_code(run) is ExitCode.GATE_FAILED
    assert run.steps[0].files == ("norm.cu",)
    (change,) = run.steps[0].changes.changes
    assert (change.word, change.reason) == (Word.SPILLS, "7 more registers spilled")
    assert run.steps[0].changes.same == 1  # the other kernel, which spilled before
    text = format_hip(run)
    for words in ("norm.cu _Z4normf", "0 -> 7", "clang 17.0.6 gfx1151", "HIP 5.7.1", "scratch"):
        assert words in text
    assert compiled_files(place) == ["norm.cu", "norm.cu"]


def test_a_patch_may_claim_it(lab: Lab, shop: Workshop, place: Place) -> None:
    claim = Claim(isa=IsaAllowance("half the passes", spilled=7, scratch=28))
    run = measure(lab, shop, place, SPILL, claim=claim)
    assert [each.word for each in run.judged[0].changes] == [Word.ALLOWED]
    assert hip_exit_code(run) is ExitCode.OK


def test_a_header_reaches_the_files_that_include_it(lab: Lab, shop: Workshop, place: Place) -> None:
    header = Change("h.patch", {CUDA + "mmq.cuh": "// wider\n"})
    run = measure(lab, shop, place, header, SPILL)
    assert [step.files for step in run.steps] == [
        ("template-instances/mmq-instance-q4_0.cu",),
        ("norm.cu",),
        ("norm.cu", "template-instances/mmq-instance-q4_0.cu"),
    ]
    assert run.steps[2].changes.step == "tip"
    assert len(compiled_files(place)) == 4  # tip against base needs nothing more


def test_a_second_run_compiles_nothing(lab: Lab, shop: Workshop, place: Place) -> None:
    first = measure(lab, shop, place, SPILL)
    again = measure(lab, shop, place, SPILL)
    assert document_hip(again) == document_hip(first)
    assert len(compiled_files(place)) == 2


def test_only_kernels_that_no_other_file_has_are_compiled(
    lab: Lab, shop: Workshop, place: Place
) -> None:
    more = Change("more.patch", {CUDA + "norm.cu": f"{NORM}KERNEL _Z3newf 0\n"})
    run = measure(lab, shop, place, more)
    assert [step.changes.new for step in run.steps] == [1]
    assert len(compiled_files(place)) == 2  # the front end sees both
    assert compiled_kernels(place) == ["_Z3newf", "_Z4backf", "_Z4normf"]


@pytest.mark.parametrize(
    ("without", "headers", "front_ends"),
    [
        ("", ["header", "quick", "quick"], 2),
        ("*-emit-pch*) exit 1;;", [], 2),  # a clang that makes none
        ("*-include-pch*) echo 'error: unfit' >&2; exit 1;;", ["header"], 2),
    ],
)
def test_front_ends_share_a_precompiled_header_where_it_works(
    lab: Lab, shop: Workshop, tmp_path: Path, without: str, headers: list[str], front_ends: int
) -> None:
    clang = CLANG.replace("*-emit-pch*)", f"{without}\n*-emit-pch*)", 1)
    place = make_hip_root(tmp_path / "some", clang)
    run = measure(lab, shop, place, SPILL)
    assert run.judged[0].word is Word.SPILLS
    assert used_headers(place) == headers
    assert len(compiled_files(place)) == front_ends


def test_a_kernel_that_the_second_half_refuses_is_compiled_with_its_file(
    lab: Lab, shop: Workshop, tmp_path: Path
) -> None:
    refuses = CLANG.replace("*.ll) text=", '*.ll) echo "error: old" >&2; exit 1; text=')
    assert refuses != CLANG
    place = make_hip_root(tmp_path / "refusing", refuses)
    run = measure(lab, shop, place, SPILL)
    assert run.judged[0].word is Word.SPILLS
    assert len(compiled_files(place)) == 4


@pytest.mark.parametrize(
    ("words", "reason"), [("CRASH", "exit code -11"), ("BROKEN", "error: no such type")]
)
def test_a_file_that_does_not_compile_is_named_and_the_rest_goes_on(
    lab: Lab, shop: Workshop, place: Place, words: str, reason: str
) -> None:
    bad = Change("bad.patch", {CUDA + "mmq.cuh": f"// {words}\n", **SPILL.files})
    instance = CUDA + "template-instances/mmq-instance-q4_0.cu"
    bad = Change("bad.patch", {**bad.files, instance: f"{TREE[instance]}// {words}\n"})
    run = measure(lab, shop, place, bad)
    found = {each.pair.variant.label: each for each in run.judged[0].changes}
    broken = found["template-instances/mmq-instance-q4_0.cu"]
    assert broken.word is Word.INVALID
    assert reason in broken.reason
    assert found["norm.cu _Z4normf"].word is Word.SPILLS
    assert hip_exit_code(run) is ExitCode.GATE_FAILED
    measure(lab, shop, place, bad)
    # What failed is tried again, with the header, without it, and as a file; the rest is kept.
    assert len(compiled_files(place)) == 9


def test_a_file_without_numbers_is_invalid(lab: Lab, shop: Workshop, place: Place) -> None:
    run = measure(lab, shop, place, Change("bad.patch", {CUDA + "norm.cu": f"{NORM}// BROKEN\n"}))
    assert hip_exit_code(run) is ExitCode.INVALID


def test_files_by_name(lab: Lab, shop: Workshop, place: Place) -> None:
    tree = make_stack(lab, [SPILL], TREE).tree
    bench = HipBench(shop, open_hip_compiler(place))
    found = survey_files(bench, tree, "b7", ["mmq-instance-q4_0.cu", f"{CUDA}norm.cu"])
    assert sorted(each.name for each in found.kernels) == ["_Z3mmqf", "_Z4backf", "_Z4normf"]
    assert len(survey_files(bench, tree, "b7", []).files) == 3
    with pytest.raises(UsageError, match=r"no mmx\.cu"):
        survey_files(bench, tree, "b7", ["norm.cu", "mmx.cu"])


def test_as_a_check(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("validate.hip.compiler._candidates", lambda: iter(()))
    other = Change("c.patch", {"ggml/src/ggml.c": "int y;\n"})
    stack = make_stack(lab, [other, SPILL], TREE)
    trees = [stack.tree, *(step.tree for step in stack.steps)]
    git = Git(lab.repository)
    first, second = (
        check_hip(lab, git, StepPair("step", "parent", step, parent))
        for parent, step in pairwise(trees)
    )
    assert (first.verdict, first.detail) == (Verdict.IDENTICAL, SAME)
    assert (second.verdict, second.detail.split(":")[0]) == (Verdict.INFORMATION, "not run")


def test_the_check_names_the_compiler(lab: Lab, shop: Workshop, place: Place) -> None:
    comment = Change("c.patch", {CUDA + "norm.cu": f"// calm\n{NORM}"})
    kept = summarize_hip(measure(lab, shop, place, comment))
    assert (kept.verdict, kept.cached) == (Verdict.PASS, False)
    assert summarize_hip(measure(lab, shop, place, comment)).cached
    assert kept.detail == f"{CLANG_SAYS}: 2 kernels keep their numbers (norm.cu)"
    refused = summarize_hip(measure(lab, shop, place, SPILL))
    assert refused.verdict is Verdict.FAIL
    assert refused.detail.startswith("norm.cu _Z4normf on clang 17.0.6 gfx1151: 7 more registers")
    assert refused.facts["compilers"] == [CLANG_SAYS]


# -- what the machine may lack ----------------------------------------------------------------


def test_the_version_names_clang_and_hip(place: Place) -> None:
    found = open_hip_compiler(place)
    assert found.name == "clang 17.0.6 gfx1151"
    assert found.version == "stand-in clang version 17.0.6 (1), HIP 5.7.1"
    assert found.fingerprint != open_hip_compiler(place, "clang++-17").fingerprint


def test_a_clang_that_compiles_no_hip(tmp_path: Path) -> None:
    script = 'case "$*" in *--version*) ;; *) echo "error: no gfx1151" >&2; exit 1;; esac'
    with pytest.raises(EnvironmentFault, match=r"does not compile HIP.*no gfx1151") as raised:
        open_hip_compiler(make_hip_root(tmp_path, script))
    assert HIP_SUITE in raised.value.remedy


def test_a_clang_without_remarks(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="says nothing about the registers"):
        open_hip_compiler(make_hip_root(tmp_path, CLANG.replace("KERNEL _Z5", "NONE _Z5")))


def test_a_root_without_device_libraries(place: Place) -> None:
    shutil.rmtree(place.top / "usr/lib/llvm-17")
    with pytest.raises(EnvironmentFault, match="no device libraries"):
        open_hip_compiler(place)


def test_a_half_made_root(tmp_path: Path, lab: Lab) -> None:
    with pytest.raises(EnvironmentFault, match=COMPLETE) as raised:
        find_hip_compiler(lab, tmp_path, tmp_path)
    assert HIP_SUITE in raised.value.remedy


def test_a_root_for_somebody_who_is_not_root(
    tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / COMPLETE).write_text("suite trixie-hip\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentFault, match="takes root"):
        find_hip_compiler(lab, tmp_path, tmp_path)


def test_rocm_of_the_machine_comes_first(
    tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    clang = tmp_path / "rocm/llvm/bin/clang++"
    clang.parent.mkdir(parents=True)
    clang.write_text(f"#!/bin/sh\n{CLANG.replace('17.0.6', '19.0.0')}")
    clang.chmod(0o755)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    found = find_hip_compiler(lab, tmp_path)
    assert (found.name, found.place.root) == ("clang 19.0.0 gfx1151", None)
    assert f"--rocm-path={tmp_path / 'rocm'}" in found.flags
    at_hand = hip_compiler_at_hand(lab, tmp_path)
    assert at_hand is not None
    assert at_hand.fingerprint == found.fingerprint


def test_a_root_of_another_suite_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / COMPLETE).write_text("suite trixie\n")
    command = ["bash", str(SCRIPT), str(tmp_path), HIP_SUITE]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "holds trixie, not trixie-hip" in done.stderr


def test_a_complete_root_is_left_alone_and_a_lacking_one_is_not(tmp_path: Path) -> None:
    names = "clang-17 rocm-device-libs-17 libamdhip64-dev libc6-dev libhipblas-dev librocblas-dev"
    lines = ["suite trixie-hip", *(f"{name} 1.0" for name in names.split())]
    (tmp_path / COMPLETE).write_text("\n".join(lines) + "\n")
    command = ["bash", str(SCRIPT), str(tmp_path), HIP_SUITE]
    assert subprocess.run(command, capture_output=True).returncode == 0
    (tmp_path / COMPLETE).write_text("\n".join(lines[:-1]) + "\n")
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 1
    assert "is complete" not in done.stderr


def test_where_the_root_is(lab: Lab) -> None:
    assert root_folder(lab, HIP_SUITE).name == HIP_SUITE


NAMES = ("convert.cu", "mmvq.cu", *(f"template-instances/{n}.cu" for n in range(20)))
CLOSURES = {name: (name, "common.cuh") for name in NAMES}
OLD = HipSide("base", HipTree("old", dict.fromkeys(NAMES, "old"), CLOSURES))
NEW = HipSide("a.patch", HipTree("new", dict.fromkeys(NAMES, "new"), CLOSURES))


def test_files_that_differ_in_shared_headers_only_are_sampled() -> None:
    files, left_out = choose_compiled(OLD, NEW, {})
    assert (files, left_out) == (["convert.cu", "mmvq.cu"], 20)
    files, left_out = choose_compiled(OLD, NEW, {"template-instances/7.cu": 0})
    assert files == ["convert.cu", "mmvq.cu", "template-instances/7.cu"]
    assert left_out == 19


def test_lines_added_to_a_header_are_sampled_and_changed_ones_are_not() -> None:
    assert choose_compiled(OLD, NEW, {"common.cuh": 0}) == (["convert.cu", "mmvq.cu"], 20)
    assert choose_compiled(OLD, NEW, {"common.cuh": 1}) == (sorted(NAMES), 0)
    only = {**CLOSURES, "mmvq.cu": ("mmvq.cu", "common.cuh", "mmvq.cuh")}
    wider = replace(NEW, tree=replace(NEW.tree, closures=only))
    files, left_out = choose_compiled(OLD, wider, {"common.cuh": 0, "mmvq.cuh": 3})
    assert (files, left_out) == (["convert.cu", "mmvq.cu"], 20)


def test_a_new_file_is_compiled() -> None:
    tree = HipTree("new", {**NEW.tree.digests, "x.cu": "new"}, {**CLOSURES, "x.cu": ("x.cu",)})
    files, left_out = choose_compiled(OLD, HipSide("a.patch", tree), {"x.cu": 0, "common.cuh": 0})
    assert (files, left_out) == (["convert.cu", "mmvq.cu", "x.cu"], 20)


def test_what_a_step_removes_is_counted(lab: Lab, shop: Workshop) -> None:
    grown = f"{TREE[CUDA + 'common.cuh']}// more\n"
    files = {CUDA + "common.cuh": grown, CUDA + "host.cu": "// all of it\n", "ggml/a.h": "// a\n"}
    stack = make_stack(lab, [Change("a.patch", files)], TREE)
    before, after = (read_hip_tree(shop, each) for each in (stack.tree, stack.steps[0].tree))
    assert removed_lines(shop, before, after) == {"common.cuh": 0, "host.cu": 1}
    assert before.closures["norm.cu"] == ["common.cuh", "norm.cu"]
