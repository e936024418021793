"""Where it runs: a device and the code path that it is asked to take.

`khr` is ggml-vulkan's path through VK_KHR_cooperative_matrix, the one that AMD takes: on a device
that also has NVIDIA's own the environment turns that off (GGML_VK_DISABLE_COOPMAT2). What a build
then says of itself must agree, or the cells are INVALID.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from upstream.errors import EnvironmentFault, InvalidMeasurement, UsageError
from validate import guards
from validate.artifacts import StepBinaries
from validate.drivers import describe_drivers
from validate.guards import NO_DEVICE, Placement, Probe
from validate.room import Launch, Room
from validate.samplers import probe
from validate.speed_tools import BENCH

CPU = "cpu"
KHR_CORES = "KHR_coopmat"
KHR_VARIABLES = {"GGML_VK_DISABLE_COOPMAT2": "1"}
MEMINFO = Path("/proc/meminfo")
MEBI = 1 << 20
SECONDS = 600.0
Way = Literal["default", "khr"]
WAYS: tuple[Way, ...] = ("default", "khr")
_FREE = re.compile(r"^  (\S+): (.+?) \(\d+ MiB, (\d+) MiB free\)", re.MULTILINE)


@dataclass(frozen=True)
class Lane:
    """A device and a way to compute there. `cores`: what a build must say of its matrix cores."""

    device: str
    way: Way = "default"
    threads: int = 1
    launch: Launch = field(default_factory=Launch)
    cores: str = ""

    @property
    def name(self) -> str:
        return f"{self.device} {self.way}" if self.way != "default" else self.device

    @property
    def path(self) -> str:
        """The code path, as samples and tables name it."""
        return self.cores or self.device

    @property
    def vulkan(self) -> bool:
        return self.device.startswith("Vulkan")

    @property
    def placement(self) -> Placement:
        return Placement(self.threads, NO_DEVICE if self.device == CPU else self.device)

    def describe(self) -> str:
        """All that decides speed here beside the machine and the programs, as JSON."""
        drivers: Mapping[str, str] = {} if self.device == CPU else describe_drivers()
        launch = [*self.launch.start, self.launch.identity]
        return json.dumps(
            [self.name, self.path, launch, dict(self.launch.variables), dict(drivers)],
            sort_keys=True,
        )

    def require_path(self, said: Probe) -> None:
        """Refuse a build that takes another code path than the lane's.

        Raises InvalidMeasurement.
        """
        if not self.vulkan:
            return
        found = said.matrix_cores(self.device)
        if self.cores and found != self.cores:
            raise InvalidMeasurement(
                f"{self.name} is the path {self.cores}, the build says "
                f"{found or 'nothing of its matrix cores'}",
                remedy="leave out --path khr on a device that has no such path",
            )


def list_lanes(devices: Sequence[str], ways: Sequence[str], threads: int) -> list[Lane]:
    """The lanes that are asked for; only Vulkan devices have two ways. Raises UsageError."""
    lanes: list[Lane] = []
    for device in dict.fromkeys(devices):
        lane = Lane(CPU if device == NO_DEVICE else device, threads=threads)
        wanted = [way for way in WAYS if way in ways] if lane.vulkan else ["default"]
        lanes += [_take_way(lane, way) for way in WAYS if way in wanted]
    if not lanes:
        raise UsageError("no path was named", remedy="name --path default, khr or both")
    return lanes


def _take_way(lane: Lane, way: Way) -> Lane:
    if way == "default":
        return lane
    launch = replace(lane.launch, variables={**lane.launch.variables, **KHR_VARIABLES})
    return replace(lane, way=way, launch=launch, cores=KHR_CORES)


def place_launch(lane: Lane, launch: Launch) -> Lane:
    """The lane with a way to start programs there; its own variables stay."""
    variables = {**launch.variables, **lane.launch.variables}
    return replace(lane, launch=replace(launch, variables=variables))


def look(lane: Lane, room: Room, binaries: StepBinaries, limit: float) -> Lane:
    """Run a build once: the device is there, the model fits and loads, the path is known.

    Raises EnvironmentFault for a model larger than the memory, InvalidMeasurement with the
    program's words for one that it cannot load, and for a lane on another path.
    """
    require_memory(lane, room, binaries)
    said = probe(room, binaries, lane.placement, limit)
    lane.require_path(said)
    return replace(lane, cores=said.matrix_cores(lane.device)) if lane.vulkan else lane


def require_memory(lane: Lane, room: Room, binaries: StepBinaries) -> None:
    """Refuse a model that is larger than the free memory of its device."""
    guards.require_own_binaries(binaries, BENCH)
    size = (room.model.folder / room.model.name).stat().st_size
    if lane.device == CPU:
        free = read_available()
    else:
        listed = room.run(binaries, BENCH, "--list-devices", seconds=SECONDS).text
        free = read_free(listed).get(lane.device)
    if free is not None and size > free:
        has = f"{lane.device} has {free / 1e9:.1f} GB free"
        raise EnvironmentFault(
            f"{room.model.name} takes {size / 1e9:.1f} GB of memory, {has}",
            remedy="take a smaller model, or fewer layers: --model moe-128/8",
        )


def read_free(listed: str) -> dict[str, int]:
    """Free bytes of each device of `--list-devices`."""
    return {name: int(free) * MEBI for name, _, free in _FREE.findall(listed)}


def read_available(path: Path = MEMINFO) -> int | None:
    """Bytes of memory that programs may take; None where the system does not say."""
    try:
        found = re.search(r"^MemAvailable: +(\d+) kB", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def drop_doubles(lanes: Sequence[Lane], tell: Callable[[str], None]) -> list[Lane]:
    """Without a khr lane where the default path is that one already."""
    default = {lane.device: lane.cores for lane in lanes if lane.way == "default"}
    kept = []
    for lane in lanes:
        if lane.way == "khr" and default.get(lane.device) == KHR_CORES:
            tell(f"{lane.name}: {lane.device} takes {KHR_CORES} by default, measured once")
        else:
            kept.append(lane)
    return kept
