"""Guards: what must hold before a number is a measurement. None of them judges; each refuses.

Source of the traps: shared/facts/validation.md 1.1 and the programs named in speed_tools.py. All
raise InvalidMeasurement (exit code 4), which names what differed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upstream.download import hash_file
from upstream.errors import InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.cells import Arm
from validate.room import require_target

NO_DEVICE = "none"
_MATRIX_CORES = re.compile(r"matrix cores: (\S+)")
Facts = Mapping[str, str]


@dataclass(frozen=True)
class Placement:
    """Where and how a program computes; every setting is passed, none left to `auto`.

    `device` is a name as `--list-devices` prints it, or "none" for the CPU alone.
    """

    threads: int = 1
    device: str = NO_DEVICE

    @property
    def layers(self) -> int:
        """Layers that the device is asked to take: all or none."""
        return 0 if self.device == NO_DEVICE else 999

    @property
    def backend(self) -> str:
        """What test-backend-ops calls it."""
        return "CPU" if self.device == NO_DEVICE else self.device


@dataclass(frozen=True)
class Probe:
    """What a program said about itself when it was asked to talk (`-v`).

    `offloaded` is "n/m" layers, "" where it says nothing of it; `splits` one entry per graph;
    `paths` are the lines in which a GPU backend names its device and code path.
    """

    devices: tuple[str, ...]
    splits: tuple[str, ...]
    offloaded: str = ""
    paths: tuple[str, ...] = ()

    @property
    def facts(self) -> Facts:
        """The same as what two arms must have in common."""
        return {
            "devices listed": ", ".join(self.devices) or NO_DEVICE,
            "graph splits": ", ".join(self.splits),
            "layers offloaded": self.offloaded or NO_DEVICE,
            "code path": "; ".join(self.paths) or "cpu",
        }

    @property
    def common_facts(self) -> Facts:
        """What two versions of upstream must have in common: they may word the rest differently."""
        cores = {cores for line in self.paths for cores in _MATRIX_CORES.findall(line)}
        return {
            "devices listed": ", ".join(self.devices) or NO_DEVICE,
            "layers offloaded": self.offloaded or NO_DEVICE,
            "matrix cores": ", ".join(sorted(cores)) or "cpu",
        }

    def matrix_cores(self, device: str) -> str:
        """The kind of matrix cores that a Vulkan device was told to use, "" where none is told."""
        index = device.removeprefix("Vulkan")
        told = [line for line in self.paths if line.startswith(f"ggml_vulkan: {index} = ")]
        return next((cores for line in told for cores in _MATRIX_CORES.findall(line)), "")


def require_own_binaries(binaries: StepBinaries, target: str) -> None:
    """Refuse a target of which a file is not the one that was kept when the step was built."""
    require_target(binaries, target)
    for name in binaries.uses[target]:
        path = binaries.folder / name
        found = hash_file(path) if path.is_file() else "nothing"
        if found != binaries.files[name].sha256:
            raise InvalidMeasurement(
                f"{path} is not the file of this step: sha256 {found[:12]}, "
                f"kept was {binaries.files[name].sha256[:12]}",
                remedy=f"remove {binaries.folder.parent} and build again",
            )
    _refuse_links_elsewhere(binaries)


def require_device(probe: Probe, placement: Placement) -> None:
    """Refuse a device that the program does not list: a typo, or a driver that went away."""
    if placement.device in (*probe.devices, NO_DEVICE):
        return
    listed = ", ".join(probe.devices) or "no device at all"
    raise InvalidMeasurement(
        f"there is no device {placement.device}: the program lists {listed}",
        remedy="name one of these with --device, or look after the driver",
    )


def require_offloaded(probe: Probe, placement: Placement) -> None:
    """Refuse a run in which the device took other layers than all (or than none, on the CPU)."""
    done, _, total = probe.offloaded.partition("/")
    if placement.layers == 0 and done not in ("", "0"):
        raise InvalidMeasurement(f"{probe.offloaded} layers went to a device, none was asked")
    if placement.layers and (not done or done != total):
        said = probe.offloaded or "no"
        raise InvalidMeasurement(
            f"{said} layers went to {placement.device}, all were asked",
            remedy="take a smaller --model, or free the device's memory",
        )


def require_splits(probe: Probe) -> None:
    """Refuse a program that does not say into how many parts it splits its graphs."""
    if not probe.splits:
        raise InvalidMeasurement("the program does not tell its graph splits: was anything run?")


def require_as_asked(tool: str, found: Facts, asked: Facts) -> None:
    """Refuse a program that reports another setting than the one that it was given."""
    wrong = [
        f"{name} is {found.get(name, 'missing')}, asked was {value}"
        for name, value in asked.items()
        if found.get(name) != value
    ]
    if wrong:
        raise InvalidMeasurement(f"{tool} ran with other settings: {'; '.join(wrong)}")


def require_cases(
    tool: str,
    planned: Collection[str],
    run: Collection[str],
    skipped: Mapping[str, str] | None = None,
) -> None:
    """Refuse unless every planned case ran or has a reason, and nothing else did; none is too few.

    `skipped` maps a case to the reason that the program gave. Both arms have the same plan, so that
    they measure the same cases.
    """
    skipped = skipped or {}
    if not run:
        why = "; ".join(sorted(set(skipped.values())))
        raise InvalidMeasurement(f"{tool} measured no case{f' ({why})' if why else ''}")
    missing, more = {*planned} - {*run, *skipped}, {*run, *skipped} - {*planned}
    parts = [f"missing: {_shorten(missing)}"] * bool(missing)
    parts += [f"not planned: {_shorten(more)}"] * bool(more)
    if parts:
        raise InvalidMeasurement(f"{tool}: other cases than planned, {'; '.join(parts)}")


def require_same_facts(tool: str, first: Facts, second: Facts, arms: str = "A and B") -> None:
    """Refuse arms whose fingerprints (device, driver, code path, settings) differ."""
    names = sorted(first.keys() | second.keys())
    other = [
        f"{name}: {first.get(name, 'missing')} / {second.get(name, 'missing')}"
        for name in names
        if first.get(name) != second.get(name)
    ]
    if other:
        raise InvalidMeasurement(
            f"{tool}: {arms} differ in {'; '.join(other)}",
            remedy="measure both on the same machine, device and driver",
        )


@dataclass
class Watch:
    """Compares the facts of every process with those of the first, whichever arm it is of."""

    seen: dict[str, tuple[Arm, Facts]] = field(default_factory=dict)

    def require_same(self, tool: str, case: str, arm: Arm, facts: Facts) -> None:
        """Refuse the process when its facts are not those of the first one of this case."""
        first, expected = self.seen.setdefault(case, (arm, facts))
        require_same_facts(tool, expected, facts, f"{case}: arms {first} and {arm}")


def _refuse_links_elsewhere(binaries: StepBinaries) -> None:
    """A library link that leads out of the folder would load another step's code."""
    for name, file in binaries.files.items():
        path: Path = binaries.folder / name
        if file.link and path.resolve().parent != binaries.folder.resolve():
            raise InvalidMeasurement(
                f"{path} leads to {path.resolve()}, which is not of this step",
                remedy=f"remove {binaries.folder.parent} and build again",
            )


def _shorten(names: Collection[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return ", ".join(shown[:3]) + more
