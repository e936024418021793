"""Which builds are compared on a lane, and how programs are started there."""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from series.model import Stack
from upstream.errors import EnvironmentFault, InvalidMeasurement, UsageError
from upstream.lab import Lab
from upstream.provider import Upstream, open_upstream
from upstream.version import parse_version
from validate.__main__ import load, make_builder
from validate.artifacts import StepBinaries
from validate.build import Builder
from validate.glslc_features import try_features, write_tests
from validate.prefill.lanes import CPU, Lane, place_launch
from validate.prefill.points import TARGETS, Point, build_points, open_prebuilt
from validate.room import Room
from validate.speed_tools import BENCH
from validate.vulkan.device import Device, find_device, has_gpu
from validate.vulkan.kit import REMEDY, Kit
from validate.vulkan.lane import find_kit, vulkan_builder


@dataclass
class Builds:
    """The builds of every backend, made when they are first asked for."""

    args: argparse.Namespace
    lab: Lab
    found: dict[str, list[Point]] = field(default_factory=dict)
    kit: Kit | None = None

    def points(self, lane: Lane) -> list[Point]:
        """What is compared on a lane.

        Raises UsageError for a device whose backend is not built here, InvalidMeasurement for a
        Vulkan device on a machine without a GPU, before anything is built for it.
        """
        backend = self._backend(lane)
        if backend == "vulkan" and not (has_gpu() or self.args.software):
            raise InvalidMeasurement(
                f"there is no GPU here for {lane.device}, only Vulkan in software",
                remedy="run it where one is; --software only tries the command",
            )
        if backend not in self.found:
            prebuilt = self.args.prebuilt
            made = open_prebuilt(prebuilt) if prebuilt else self._build(backend)
            self.found[backend] = made
        return self.found[backend]

    @property
    def toolchain(self) -> str:
        """What stands for the compiler in the key of samples; "" for programs of others."""
        if self.args.prebuilt:
            return ""
        builder, _, _ = self._open()
        return hashlib.sha256(builder.toolchain.identity.encode()).hexdigest()

    def place(self, lane: Lane, room: Room) -> Lane:
        """The lane with what starts programs there. Raises InvalidMeasurement for software."""
        if not lane.vulkan or self.args.prebuilt:
            return lane
        assert self.kit
        device = find_device(room, first_binaries(self.points(lane)), self.kit, lane.device)
        require_hardware(device, software=self.args.software)
        return place_launch(lane, device.launch)

    def _backend(self, lane: Lane) -> str:
        if self.args.prebuilt or lane.device == CPU:
            return CPU
        if not lane.vulkan:
            raise UsageError(
                f"nothing is built for {lane.device} here: only the CPU and Vulkan",
                remedy="name programs that you built: --prebuilt NAME=FOLDER, twice or more",
            )
        return "vulkan"

    def _build(self, backend: str) -> list[Point]:
        builder, stack, upstream = self._open()
        bases = [parse_version(text) for text in self.args.base]
        if backend == "vulkan":
            builder = self._with_vulkan(builder, stack)
        return build_points(builder, upstream, stack, bases, self.args.steps)

    def _open(self) -> tuple[Builder, Stack, Upstream]:
        _, stack = load(self.args, self.lab)
        upstream = open_upstream(self.lab, self.args.upstream, self.args.remote)
        return make_builder(self.args, self.lab, stack), stack, upstream

    def _with_vulkan(self, builder: Builder, stack: Stack) -> Builder:
        kit = find_kit(self.lab, self.args.root)
        if kit is None:
            raise EnvironmentFault("no glslc, headers and loader for Vulkan here", remedy=REMEDY)
        with tempfile.TemporaryDirectory(dir=self.lab.scratch) as folder:
            try_features(kit.compiler, write_tests(builder.git, stack.tree, Path(folder)))
        self.kit = kit
        made = vulkan_builder(builder, kit)
        return replace(made, recipe=replace(made.recipe, targets=TARGETS))


def require_hardware(device: Device, *, software: bool) -> None:
    """Refuse a driver that computes on the CPU: its speed is no GPU's."""
    if device.software and not software:
        raise InvalidMeasurement(
            f"{device.name} is {device.description}, a driver in software: its speed says nothing",
            remedy="name a GPU with --device, or --software only to try the command",
        )


def first_binaries(points: Sequence[Point]) -> StepBinaries:
    """Of the newest version of upstream that was built, else of any point.

    Raises EnvironmentFault where nothing was built.
    """
    built = [p.binaries for p in points if p.binaries and BENCH in p.binaries.uses]
    heads = [p.binaries for p in points if p.binaries and p.upstream]
    if not built:
        why = "; ".join(f"{point.name} {point.error}" for point in points)
        raise EnvironmentFault(f"there is no {BENCH} to measure with: {why}")
    return (heads or built)[-1]
