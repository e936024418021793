"""Which Vulkan device the checks run on: a GPU that the machine has, else lavapipe in software."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from upstream.errors import EnvironmentFault, InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.backend_ops import TARGET as OPS
from validate.room import ENDED_BY_ITSELF, Launch, Room, last_line
from validate.vulkan.kit import REMEDY, Kit

LISTER = "llama-results"
LISTERS = (LISTER, "llama-bench")  # programs that take --list-devices
SECONDS = 120.0
SOFTWARE_NAMES = ("llvmpipe", "lavapipe", "swiftshader")
# What a machine with a GPU driver has, or a user who names one.
GPU_NODES = ("/dev/dri/renderD*", "/dev/nvidia[0-9]*")
NAMED_DRIVERS = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES")
LAYER = "VK_LAYER_KHRONOS_validation"
_LISTED = re.compile(r"^  (\w+): (.+?)(?: \(\d+ MiB, .*\))?$", re.MULTILINE)


@dataclass(frozen=True)
class Device:
    """A device by the name that llama.cpp gives it, what it says it is, and how to reach it.

    `path` is the line in which the backend names the code paths that are live; `reported` says
    what the device was made to report.
    """

    name: str
    description: str
    launch: Launch
    path: str = ""
    reported: str = ""

    @property
    def software(self) -> bool:
        """Whether it is a driver that computes on the CPU: good to find faults, not to clear."""
        return any(name in self.description.lower() for name in SOFTWARE_NAMES)

    @property
    def integer_dot(self) -> bool:
        """Whether the q8_1 shaders are live there; lavapipe of Mesa 25.0 and 26.1 has none."""
        return "int dot: 0" not in self.path

    @property
    def kind(self) -> str:
        """What stands in brackets after the name of a check."""
        words = ("software" if self.software else self.description, self.reported)
        return ", ".join(filter(None, words))

    @property
    def backend(self) -> str:
        """The backend that a report may say something was executed on."""
        return f"vulkan in software ({self.description})" if self.software else "vulkan"


def parse_devices(output: str) -> dict[str, str]:
    """What `--list-devices` lists: names and descriptions."""
    _, found, rest = output.partition("Available devices:")
    listed = dict(_LISTED.findall(rest if found else ""))
    return {name: said for name, said in listed.items() if name.startswith("Vulkan")}


def find_device(room: Room, binaries: StepBinaries, kit: Kit, wanted: str = "") -> Device:
    """The device to check on: `wanted` by its name, else a GPU, else lavapipe.

    Raises EnvironmentFault where the kit has no lavapipe or its driver lists nothing, and
    InvalidMeasurement where there is no such device.
    """
    require_driver(kit)
    launches = [Launch(kit.start, {**kit.variables, **_named_drivers()})] if has_gpu() else []
    launches += [software_launch(kit)] if kit.software else []
    listed: dict[str, str] = {}
    for launch in launches:
        found = list_devices(room, binaries, launch)
        listed |= found
        name = wanted if wanted in found else _first_useful(found, last=launch is launches[-1])
        if name and (not wanted or wanted == name):
            path = read_path(room, binaries, launch, name)
            identity = "\n".join((kit.driver, found[name], path))
            there = replace(launch, device=name, identity=identity)
            return Device(name, found[name], there, path)
    if wanted and listed:
        raise InvalidMeasurement(
            f"there is no Vulkan device {wanted}; there is {', '.join(listed)}",
            remedy="name one of these with --vulkan-device",
        )
    tried = f"the Vulkan driver {kit.software}" if kit.software else "the machine's Vulkan driver"
    raise EnvironmentFault(
        f"{tried} lists no device", remedy=f"mend the driver, or {REMEDY}, or pass --vulkan off"
    )


def has_gpu() -> bool:
    """Whether it is worth asking the machine's own drivers."""
    nodes = any(any(Path("/").glob(pattern[1:])) for pattern in GPU_NODES)
    return nodes or any(name in os.environ for name in NAMED_DRIVERS)


def require_driver(kit: Kit) -> None:
    """Refuse a machine that has no GPU and no lavapipe, before anything is built for it."""
    if not has_gpu():
        software_launch(kit)


def software_launch(kit: Kit) -> Launch:
    """How a program is started that shall see lavapipe and nothing else.

    Raises EnvironmentFault when the kit has none.
    """
    if kit.software is None:
        raise EnvironmentFault(
            f"{kit.name} has no lavapipe (Mesa's Vulkan driver in software)",
            remedy=f"install mesa-vulkan-drivers, or {REMEDY}, or pass --vulkan off",
        )
    quiet = {"VK_LOADER_LAYERS_DISABLE": "~implicit~"}
    # Compiling a pipeline is most of a case's time: 10 to 40 s, with Mesa's cache half a second.
    kit.pipelines.mkdir(parents=True, exist_ok=True)
    quiet |= {"MESA_SHADER_CACHE_DISABLE": "false", "MESA_SHADER_CACHE_MAX_SIZE": "1G"}
    quiet["MESA_SHADER_CACHE_DIR"] = os.fspath(kit.pipelines)
    # Upstream passes over devices of type CPU unless they are named.
    quiet["GGML_VK_VISIBLE_DEVICES"] = "0"
    driver = {"VK_DRIVER_FILES": os.fspath(kit.software), "VK_ICD_FILENAMES": ""}
    return Launch(kit.start, {**kit.variables, **quiet, **driver}, slow=True)


def with_layers(launch: Launch, kit: Kit) -> Launch:
    """The same with the validation layer. Raises EnvironmentFault when the kit has none."""
    if kit.layers is None:
        raise EnvironmentFault(
            f"{kit.name} has no validation layer ({LAYER})",
            remedy=f"install vulkan-validationlayers, or {REMEDY}",
        )
    # The loader says what it inserted: a layer that is not found is no error to it.
    asked = {"VK_INSTANCE_LAYERS": LAYER, "VK_LOADER_DEBUG": "layer"}
    places = {"VK_LAYER_PATH": os.fspath(kit.layers)}
    return replace(launch, variables={**launch.variables, **asked, **places})


def list_devices(room: Room, binaries: StepBinaries, launch: Launch) -> dict[str, str]:
    """The Vulkan devices that a program sees. Raises InvalidMeasurement when it fails."""
    there = replace(room, launch=launch)
    lister = next((name for name in LISTERS if name in binaries.uses), LISTER)
    done = there.run(binaries, lister, "--list-devices", seconds=SECONDS)
    if done.code not in ENDED_BY_ITSELF:
        said = last_line(done.stdout, done.stderr)
        raise InvalidMeasurement(f"{lister} --list-devices ended with {done.code}: {said}")
    return parse_devices(done.text + "\n" + done.stderr.decode("utf-8", "replace"))


def read_path(room: Room, binaries: StepBinaries, launch: Launch, name: str) -> str:
    """The backend's own line on a device: `... | int dot: 0 | matrix cores: KHR_coopmat`.

    "" where this version of it prints none. What is off there is not looked at by any check.
    """
    there = replace(room, launch=launch)
    done = there.run(binaries, OPS, "support", "-b", name, "-o", "NONE", seconds=SECONDS)
    index = re.escape(name.removeprefix("Vulkan"))
    found = re.search(rf"^ggml_vulkan: {index} = (.*)$", done.stderr.decode(errors="replace"), re.M)
    return found[1] if found else ""


def _first_useful(found: Mapping[str, str], *, last: bool) -> str:
    """The first GPU; among the software drivers, the first."""
    names = [n for n, said in found.items() if last or not Device(n, said, Launch()).software]
    return names[0] if names else ""


def _named_drivers() -> dict[str, str]:
    return {name: os.environ[name] for name in NAMED_DRIVERS if name in os.environ}
