"""Which steps are built with Vulkan, and what the others are told. Real git, no Vulkan."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest
from script_programs import make_room, make_step
from tiny_project import Change, make_builder, make_stack

from series.model import Stack
from upstream.errors import EnvironmentFault
from upstream.lab import Lab
from validate import __main__ as commands
from validate.build import Plan, StepBuild
from validate.compile_error import CompileError
from validate.report_build import Findings
from validate.room import Room
from validate.verdict import CheckResult, StepVerdict, Verdict, exit_code
from validate.vulkan import device, plan
from validate.vulkan.cases import Interest
from validate.vulkan.device import Device
from validate.vulkan.kit import Kit
from validate.vulkan.lane import Lane, find_kit, open_lane
from validate.vulkan.options import add_vulkan_options
from validate.vulkan.plan import VulkanArms, plan_vulkan

OTHER = Change("0001-speculative.patch", {"common/speculative.cpp": "int draft;\n"})
VULKAN = Change("0002-mul-mm.patch", {"ggml/src/ggml-vulkan/ggml-vulkan.cpp": "int mul_mm;\n"})
KIT = Kit("a stand-in", "identity", Path("/x/glslc"), (), None, None)


def tell(room: Room, lane: Lane, step: str) -> CheckResult:
    (name, check), *more = plan_vulkan(lane, room, "bit-exact", step)
    assert not more
    found = check()
    assert found.check == name
    return found


@pytest.fixture
def room(lab: Lab) -> Room:
    return make_room(lab)


@pytest.fixture
def stack(lab: Lab) -> Stack:
    return make_stack(lab, [OTHER, VULKAN])


def test_a_machine_without_the_tools_is_told_and_fails_nothing(
    lab: Lab, room: Room, stack: Stack
) -> None:
    lane = open_lane(make_builder(lab), stack, room, None)
    found = tell(room, lane, VULKAN.name)
    assert (found.verdict, "nox -s toolchain" in found.detail) == (Verdict.INFORMATION, True)
    good = CheckResult("archs", Verdict.PASS)
    assert exit_code([StepVerdict(VULKAN.name, "base", (good, found))]) == 0
    assert "nothing was built" in lane.not_measured[0]
    assert lane.backends == ()


def test_the_command_line_decides_whether_the_lane_is_opened(
    lab: Lab, room: Room, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "find_kit", lambda *_: None)
    parser = argparse.ArgumentParser()
    add_vulkan_options(parser)
    parser.set_defaults(root=None)
    builder = make_builder(lab)
    assert commands.make_lane(parser.parse_args(["--vulkan", "off"]), builder, stack, room) is None
    lane = commands.make_lane(parser.parse_args([]), builder, stack, room)
    assert lane is not None
    assert "nox -s toolchain" in lane.not_measured[0]
    with pytest.raises(EnvironmentFault, match="no glslc, headers and loader") as found:
        commands.make_lane(parser.parse_args(["--vulkan", "on"]), builder, stack, room)
    assert "nox -s toolchain" in found.value.remedy


def test_a_step_that_touches_nothing_of_vulkan_is_identical_and_not_built(
    lab: Lab, room: Room, stack: Stack
) -> None:
    only = replace(stack, steps=stack.steps[:1])
    lane = open_lane(make_builder(lab), only, room, KIT)
    found = tell(room, lane, OTHER.name)
    assert (found.verdict, found.cached) == (Verdict.IDENTICAL, True)
    assert "not built" in found.detail
    assert not (lab.root / "build-vulkan").exists()


def test_nothing_is_built_for_a_machine_without_any_driver(
    lab: Lab, room: Room, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "has_gpu", lambda: False)
    with pytest.raises(EnvironmentFault, match="has no lavapipe"):
        open_lane(make_builder(lab), stack, room, KIT)
    assert not (lab.root / "build-vulkan").exists()


def fake_lane(found: Device | None = None) -> Lane:
    plan = Plan("x", "tree", "key")
    error = CompileError("a.comp", 1, "glslc says no")
    bad = StepBuild(plan, "failed", error=error)
    interests = {"x": Interest(files=("ggml/src/ggml-vulkan/a",))}
    return Lane(KIT, interests, {"x": "base"}, {"x": bad, "base": bad}, found)


def test_a_step_that_does_not_build_with_vulkan_fails(room: Room) -> None:
    found = tell(room, fake_lane(), "x")
    assert (found.check, found.verdict) == ("vulkan build", Verdict.FAIL)
    assert "glslc says no" in found.detail


def test_software_never_counts_as_the_backend_that_a_patch_claims(room: Room) -> None:
    said = "llvmpipe (LLVM 19.1.7, 256 bits)"
    lane = fake_lane(Device("Vulkan0", said, room.launch))
    assert "vulkan" not in lane.backends
    assert "can fail a step and clear none" in lane.not_measured[0]
    assert Findings([], [], not_measured=lane.not_measured).not_measured
    hardware = fake_lane(Device("Vulkan0", "A GPU", room.launch))
    assert (hardware.backends, hardware.not_measured) == (("vulkan",), ())


def test_a_pass_of_integer_dot_shaders_is_only_shown_where_there_is_none(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = CheckResult("vulkan ops", Verdict.PASS, "3 pass")
    monkeypatch.setattr(plan.ops, "check_ops", lambda *_, **__: ran)
    quantised = Interest(("MUL_MAT",), files=("ggml/src/ggml-vulkan/vulkan-shaders/mul_mmq.comp",))
    step = make_step(room.lab.root / "step", {})

    def test_on(path: str) -> CheckResult:
        found = Device("Vulkan0", "llvmpipe", room.launch, path)
        arms = VulkanArms(room, KIT, found, step, step, quantised, "nmse", 1)
        return arms.test_ops()

    shown = test_on("int dot: 0 | matrix cores: none")
    assert (shown.verdict, plan.NO_INTEGER_DOT in shown.detail) == (Verdict.INFORMATION, True)
    assert test_on("int dot: 1") == ran


def test_without_a_validation_layer_that_check_is_not_run_and_fails_nothing(room: Room) -> None:
    step = make_step(room.lab.root / "step", {})
    found = Device("Vulkan0", "llvmpipe", room.launch)
    arms = VulkanArms(room, KIT, found, step, step, Interest(), "nmse", 1)
    told = arms.validate()
    assert (told.verdict, "nox -s toolchain" in told.detail) == (Verdict.INFORMATION, True)


def test_a_named_root_that_is_none_is_a_fault(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="no finished toolchain root"):
        find_kit(lab, tmp_path)
