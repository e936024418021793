"""Which device is taken, and how a program that uses it is started. The programs are stand-ins."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from script_programs import make_room, make_step

from upstream.errors import EnvironmentFault, InvalidMeasurement
from upstream.lab import Lab
from validate.artifacts import StepBinaries
from validate.backend_ops import TARGET as OPS
from validate.room import Launch
from validate.vulkan import device
from validate.vulkan.device import (
    LAYER,
    LISTER,
    find_device,
    list_devices,
    parse_devices,
    software_launch,
    with_layers,
)
from validate.vulkan.kit import Kit

# As b11549 prints it on lavapipe, a GPU beside it.
LISTED = """Available devices:
  Vulkan0: AMD Radeon 8060S (RADV GFX1151) (65536 MiB, 65000 MiB free)
  Vulkan1: llvmpipe (LLVM 19.1.7, 256 bits) (24105 MiB, 21000 MiB free)
  CPU: a CPU (24105 MiB, 21000 MiB free)
"""
# A stand-in: the driver that the variables name decides what it lists, as in the Vulkan loader.
PROGRAM = """
import os
named = os.environ.get("VK_DRIVER_FILES", "")
print("Available devices:")
if "lvp" in named:
    print("  Vulkan0: llvmpipe (LLVM 19.1.7, 256 bits) (24105 MiB, 21000 MiB free)")
elif "gpu" in named:
    print("  Vulkan0: A GPU (8000 MiB, 7000 MiB free)")
else:
    print("  (none)")
"""


PATH = "llvmpipe | warp size: 8 | int dot: 0 | matrix cores: KHR_coopmat"
BACKEND = f"print('ggml_vulkan: 0 = {PATH}', file=sys.stderr)\n"


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(
        "a stand-in",
        "identity",
        tmp_path / "kit/glslc",
        (),
        Path("/x/lvp_icd.json"),
        Path("/x/layers"),
    )


@pytest.fixture
def step(tmp_path: Path) -> StepBinaries:
    return make_step(tmp_path / "step", {LISTER: PROGRAM, OPS: BACKEND})


@pytest.fixture(autouse=True)
def no_driver_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "GPU_NODES", ())
    for name in device.NAMED_DRIVERS:
        monkeypatch.delenv(name, raising=False)


def test_devices_are_read_with_brackets_in_their_names() -> None:
    assert parse_devices("ggml: loaded\n" + LISTED) == {
        "Vulkan0": "AMD Radeon 8060S (RADV GFX1151)",
        "Vulkan1": "llvmpipe (LLVM 19.1.7, 256 bits)",
    }
    assert parse_devices("Available devices:\n  (none)\n") == {}


def test_without_a_gpu_it_is_lavapipe_and_says_so(lab: Lab, kit: Kit, step: StepBinaries) -> None:
    found = find_device(make_room(lab), step, kit)
    assert (found.name, found.software, found.kind) == ("Vulkan0", True, "software")
    assert found.backend == "vulkan in software (llvmpipe (LLVM 19.1.7, 256 bits))"
    assert found.launch.device == "Vulkan0"
    assert found.path == PATH
    assert PATH in found.launch.inputs["driver"]
    assert found.launch.variables["GGML_VK_VISIBLE_DEVICES"] == "0"


def test_a_gpu_goes_before_lavapipe(
    lab: Lab, kit: Kit, step: StepBinaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "/x/gpu.json")
    found = find_device(make_room(lab), step, kit)
    assert (found.software, found.kind, found.backend) == (False, "A GPU", "vulkan")


def test_a_driver_that_lists_nothing_and_a_missing_one_are_faults(
    lab: Lab, kit: Kit, step: StepBinaries
) -> None:
    room = make_room(lab)
    with pytest.raises(EnvironmentFault, match="lists no device"):
        find_device(room, step, replace(kit, software=Path("/x/other.json")))
    with pytest.raises(EnvironmentFault, match="has no lavapipe"):
        find_device(room, step, replace(kit, software=None))
    with pytest.raises(InvalidMeasurement, match="no Vulkan device Vulkna0"):
        find_device(room, step, kit, "Vulkna0")


def test_a_lister_that_dies_is_invalid(lab: Lab, tmp_path: Path) -> None:
    dead = make_step(tmp_path / "dead", {LISTER: "import os\nos.abort()\n"})
    with pytest.raises(InvalidMeasurement, match="ended with -6"):
        list_devices(make_room(lab), dead, Launch())


def test_variables_of_the_driver_are_for_the_child_alone(
    lab: Lab, kit: Kit, tmp_path: Path
) -> None:
    body = f"import os\nprint(os.environ.get('VK_DRIVER_FILES'), os.environ.get('{LAYER}'))\n"
    step = make_step(tmp_path / "say", {LISTER: body})
    room = make_room(lab)
    inside = replace(room, launch=software_launch(kit))
    assert inside.run(step, LISTER).text.startswith("/x/lvp_icd.json")
    assert room.run(step, LISTER).text.startswith("None")
    assert "VK_DRIVER_FILES" not in os.environ


def test_a_command_before_the_program_starts_it(lab: Lab, kit: Kit, step: StepBinaries) -> None:
    started = replace(kit, start=("env", "VK_DRIVER_FILES=/x/gpu.json"))
    found = list_devices(make_room(lab), step, software_launch(started))
    assert found == {"Vulkan0": "A GPU"}


def test_the_layer_is_asked_for_by_name_and_has_to_be_there(kit: Kit) -> None:
    layered = with_layers(software_launch(kit), kit)
    assert layered.variables["VK_INSTANCE_LAYERS"] == LAYER
    assert layered.variables["VK_LAYER_PATH"] == "/x/layers"
    with pytest.raises(EnvironmentFault, match="no validation layer"):
        with_layers(Launch(), replace(kit, layers=None))
