"""A device that is made to report an accelerated integer dot product. The programs are stand-ins:
they do what the backend does where the library is loaded into it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from script_programs import make_room, make_step

from upstream.errors import CommandError
from upstream.lab import Lab
from validate.artifacts import StepBinaries
from validate.backend_ops import TARGET
from validate.build import Plan, StepBuild
from validate.room import Launch, Room
from validate.verdict import CheckResult, Verdict
from validate.vulkan.cases import Interest
from validate.vulkan.device import Device
from validate.vulkan.integer_dot import (
    COUNTS,
    REPORTED,
    SHIM,
    build_shim,
    count_pipelines,
    report_integer_dot,
    take_quantised,
    watch_pipelines,
)
from validate.vulkan.kit import Kit
from validate.vulkan.lane import Lane
from validate.vulkan.plan import NOT_BOUND, plan_vulkan

FOLDER = "ggml/src/ggml-vulkan/vulkan-shaders"
QUANTISED = Interest(("MUL_MAT",), files=(f"{FOLDER}/mul_mat_vecq_funcs.glsl",))
BOTH = replace(QUANTISED, files=(*QUANTISED.files, f"{FOLDER}/mul_mat_vec.comp"))
NEITHER = replace(QUANTISED, files=(f"{FOLDER}/soft_max.comp",))
CASE = "MUL_MAT(type_a=q4_0,m=16,n=2,k=256)"
# A stand-in for test-backend-ops: `dot` is what the backend says with the library before it.
PROGRAM = """
import os
from pathlib import Path
loaded = bool(os.environ.get("LD_PRELOAD"))
if sys.argv[1] == "support":
    print(f"ggml_vulkan: 0 = llvmpipe | int dot: {{{dot} if loaded else 0}}", file=sys.stderr)
    print('"backend_name","op_name","op_params","test_mode","supported"')
    for device in ("Vulkan0", "CPU"):
        print(f'"{{device}}","MUL_MAT","type_a=q4_0,m=16,n=2,k=256","support","1"')
    sys.exit(0)
if loaded:
    Path(os.environ["LAB_PIPELINES"]).write_text({bound!r})
print("Backend 1/2: Vulkan0\\n  Device description: llvmpipe\\n")
print("  {case}: OK\\n  1/1 tests passed")
"""
BOUND = "3 quantize_q8_1_x4\n2 mul_mat_vec_q4_0_q8_1_f32\n5 mul_mat_vec_q4_0_q8_1_f32\n1 add\n"


def make_programs(folder: Path, dot: int = 1, bound: str = BOUND) -> StepBinaries:
    body = PROGRAM.format(dot=dot, bound=bound, case=CASE)
    return make_step(folder, {TARGET: f"# {folder.name}\n{body}"})


@pytest.fixture
def room(lab: Lab) -> Room:
    launch = Launch(device="Vulkan0", identity="a stand-in")
    return replace(make_room(lab), launch=launch, threads=1)


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    (tmp_path / "kit").mkdir()
    return Kit("a stand-in", "identity", tmp_path / "kit/glslc", (), None, None)


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """A stand-in that makes a file which the dynamic linker passes over."""
    path = tmp_path / "cc"
    path.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: > "$2"\n')
    path.chmod(0o755)
    return path


def fake_build(name: str, binaries: StepBinaries) -> StepBuild:
    return StepBuild(Plan(name, "tree", "key"), "built", binaries=binaries)


def found_device(room: Room) -> Device:
    return Device("Vulkan0", "llvmpipe (LLVM 19.1.7)", room.launch, "llvmpipe | int dot: 0")


def plan_checks(
    room: Room, kit: Kit, reported: Device | None, step: StepBinaries, interest: Interest
) -> list[tuple[str, CheckResult]]:
    """The checks of operations that are planned, and what they find."""
    parent = make_programs(step.folder.parent / "parent")
    builds = {"x": step, "base": parent}
    lane = Lane(kit, {"x": interest}, {"x": "base"}, device=found_device(room), reported=reported)
    lane = replace(lane, builds={name: fake_build(name, each) for name, each in builds.items()})
    plan = plan_vulkan(lane, room, "nmse", "x")
    return [(name, check()) for name, check in plan if name.startswith("vulkan ops")]


def test_what_a_device_was_made_to_report_is_in_its_name_and_keys(
    room: Room, kit: Kit, compiler: Path, tmp_path: Path
) -> None:
    plain = found_device(room)
    found = report_integer_dot(room, make_programs(tmp_path / "s"), kit, plain, compiler)
    assert found is not None
    assert found.kind == f"software, {REPORTED}"
    assert (plain.kind, plain.integer_dot, found.integer_dot) == ("software", False, True)
    assert found.launch.inputs != plain.launch.inputs
    assert Path(found.launch.variables[SHIM]).parent == kit.glslc.parent
    assert SHIM not in plain.launch.variables


def test_a_device_without_the_extension_stays_what_it_is(
    room: Room, kit: Kit, compiler: Path, tmp_path: Path
) -> None:
    old = make_programs(tmp_path / "s", dot=0)
    assert report_integer_dot(room, old, kit, found_device(room), compiler) is None


def test_a_compiler_that_fails_leaves_no_library(kit: Kit) -> None:
    with pytest.raises(CommandError):
        build_shim(kit, Path("/bin/false"))
    assert not list(kit.glslc.parent.glob("*.so"))


@pytest.mark.parametrize(
    ("interest", "kinds"),
    [
        (NEITHER, ["software"]),
        (QUANTISED, [f"software, {REPORTED}"]),
        (BOTH, ["software", f"software, {REPORTED}"]),
    ],
)
def test_steps_of_q8_1_shaders_run_them(
    room: Room, kit: Kit, compiler: Path, tmp_path: Path, interest: Interest, kinds: list[str]
) -> None:
    step = make_programs(tmp_path / "step")
    reported = report_integer_dot(room, step, kit, found_device(room), compiler)
    checks = plan_checks(room, kit, reported, step, interest)
    assert [name for name, _ in checks] == [f"vulkan ops ({kind})" for kind in kinds]
    assert {each.verdict for _, each in checks} == {Verdict.PASS}, checks
    ran = {name: each.facts["bound"] for name, each in checks}
    for name, bound in ran.items():
        assert bound == ({"mul_mat_vec_q4_0_q8_1_f32": 7} if REPORTED in name else {})
    again = plan_checks(room, kit, reported, step, interest)
    assert all(each.cached for _, each in again)
    assert {name: each.facts["bound"] for name, each in again} == ran


def test_a_pass_in_which_no_q8_1_product_ran_is_none(
    room: Room, kit: Kit, compiler: Path, tmp_path: Path
) -> None:
    step = make_programs(tmp_path / "step", bound="3 quantize_q8_1_x4\n1 add\n")
    reported = report_integer_dot(room, step, kit, found_device(room), compiler)
    ((_, found),) = plan_checks(room, kit, reported, step, QUANTISED)
    assert (found.verdict, NOT_BOUND in found.detail) == (Verdict.INVALID, True)


def test_counts_of_several_processes_are_added() -> None:
    bound = count_pipelines(f"{BOUND}a line that is none\n")
    assert bound["mul_mat_vec_q4_0_q8_1_f32"] == 7
    names = {"matmul_q4_0_q8_1_l": 1, "flash_attn_q8_1": 1, "quantize_q8_1_x4": 1}
    assert take_quantised(names) == {"matmul_q4_0_q8_1_l": 1}


def test_programs_without_the_library_are_not_watched(room: Room) -> None:
    with watch_pipelines(room) as watched:
        assert COUNTS not in watched.room.launch.variables
        assert watched.bound == {}


def test_the_validation_layer_looks_at_the_shaders_that_the_step_changes(
    room: Room, kit: Kit, compiler: Path, tmp_path: Path
) -> None:
    step = make_programs(tmp_path / "step")
    reported = report_integer_dot(room, step, kit, found_device(room), compiler)
    assert reported is not None
    lane = Lane(kit, {"x": QUANTISED}, {"x": "base"}, device=found_device(room), reported=reported)
    builds = {name: fake_build(name, step) for name in ("x", "base")}
    names = [name for name, _ in plan_vulkan(replace(lane, builds=builds), room, "nmse", "x")]
    assert names == [
        f"vulkan ops (software, {REPORTED})",
        "vulkan results (software)",
        f"vulkan validation (software, {REPORTED})",
    ]
