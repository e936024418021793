"""The Vulkan lane: which steps are built with Vulkan, and on which device they are checked.

A step that touches nothing which a Vulkan device computes with is not built: its Vulkan code is its
parent's, byte for byte. The others are built like on the CPU, with their exact parents, and found
again by tree and toolchain. In software the checks can fail a step; they clear it for no GPU, and
give no speed.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from series.model import Stack
from upstream.git import Git
from upstream.lab import Lab
from validate.backend_ops import TARGET as OPS
from validate.build import BASE, Builder, StepBuild, build_plans
from validate.glslc_features import try_features, write_tests
from validate.recipe import Backend, Recipe
from validate.report_model import Header
from validate.results import TARGET as RESULTS
from validate.room import Room
from validate.shader_root import SUITES, find_root
from validate.vulkan.cases import LIMIT, Interest, find_interest
from validate.vulkan.device import Device, find_device, require_driver
from validate.vulkan.integer_dot import report_integer_dot
from validate.vulkan.kit import REMEDY, Kit, find_own_kit, open_kit, take_driver
from validate.vulkan.programs import VulkanPrograms

LOGGER = logging.getLogger("lab")
TARGETS = (OPS, RESULTS)
MEGABYTES = 3000


@dataclass(frozen=True)
class Lane:
    """What the checks take. `kit` is None on a machine that can't build with Vulkan.

    `builds` are by the name of the step (or base), `interests` by the name of the step. `reported`
    is the device in software with its integer dot product reported as accelerated, where a step
    changes shaders that need it.
    """

    kit: Kit | None
    interests: Mapping[str, Interest] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    builds: Mapping[str, StepBuild] = field(default_factory=dict)
    device: Device | None = None
    limit: int = LIMIT
    reported: Device | None = None
    compiler: Path | None = None

    def find_programs(self, name: str) -> VulkanPrograms | None:
        """What a check is told of a step (or base); None where it has no Vulkan build."""
        built = self.builds[name].binaries if name in self.builds else None
        if built is None or self.kit is None or self.device is None or self.compiler is None:
            return None
        return VulkanPrograms(built, self.device.launch, self.kit.headers, self.compiler)

    @property
    def backends(self) -> tuple[str, ...]:
        """What a report may say that something was executed on."""
        return (self.device.backend,) if self.device else ()

    def describe(self, header: Header) -> Header:
        """The header of a report with what these checks were executed on."""
        return replace(header, backends=(*header.backends, *self.backends))

    @property
    def not_measured(self) -> tuple[str, ...]:
        """What a reader could believe was measured on Vulkan, and was not."""
        if self.kit is None:
            return (f"Vulkan: nothing was built or run here; {REMEDY}, then nox -s validate",)
        if self.device is None or not self.device.software:
            return ()
        return (
            f"Vulkan ran in software ({self.device.path or self.device.description}): no GPU's "
            "arithmetic, driver or speed was seen; these checks can fail a step and clear none.",
        )


def find_kit(lab: Lab, root: Path | None = None) -> Kit | None:
    """The named root's kit, else the lab's, else the machine's own; None where there is none.

    Of the lab's roots the one with the newer Mesa lends its driver: lavapipe has cooperative
    matrices there (seen: 26.1 yes, 25.0 no).
    """
    newer = find_root(lab, SUITES[1])
    if place := root or find_root(lab) or newer:
        kit = open_kit(lab, place)
        return take_driver(kit, newer) if newer else kit
    return find_own_kit(lab)


def open_lane(
    builder: Builder,
    stack: Stack,
    room: Room,
    kit: Kit | None,
    *,
    limit: int = LIMIT,
    device: str = "",
) -> Lane:
    """Build what the steps take and find the device.

    Raises EnvironmentFault: no driver, glslc fails on a feature test, or no driver lists a device.
    """
    chain = [(BASE, stack.tree), *((step.patch, step.tree) for step in stack.steps)]
    interests = find_interests(builder.git, chain)
    parents = {name: before for (before, _), (name, _) in pairwise(chain)}
    touching = {name for name, found in interests.items() if not found.nothing}
    lane = Lane(kit, interests, parents, limit=limit)
    if kit is None or not touching:
        return lane
    require_driver(kit)
    wanted = touching | {parents[name] for name in touching}
    builds = _build(builder, stack, kit, wanted)
    built = next((each.binaries for each in builds if each.binaries), None)
    lane = replace(lane, builds={each.name: each for each in builds})
    if built is None:
        return lane
    found = find_device(room, built, kit, device)
    LOGGER.info("Vulkan checks run on %s: %s", found.name, found.description)
    wanted_dot = any(each.integer_dot for each in interests.values())
    reported = None
    if wanted_dot and found.software and not found.integer_dot:
        reported = report_integer_dot(room, built, kit, found, builder.toolchain.c)
    return replace(lane, device=found, reported=reported, compiler=builder.toolchain.c)


def build_plain(
    builder: Builder, stack: Stack, room: Room, kit: Kit, device: str = ""
) -> VulkanPrograms | None:
    """What a stack without steps is built into with Vulkan; None where it does not build.

    Raises EnvironmentFault as open_lane does.
    """
    require_driver(kit)
    (plain,) = _build(builder, stack, kit, {BASE})
    if plain.binaries is None:
        return None
    found = find_device(room, plain.binaries, kit, device)
    lane = Lane(kit, builds={BASE: plain}, device=found, compiler=builder.toolchain.c)
    return lane.find_programs(BASE)


def find_interests(git: Git, chain: Sequence[tuple[str, str]]) -> dict[str, Interest]:
    """What every step touches, by the names of the steps; the chain starts with the base."""
    pairs = pairwise(chain)
    return {name: find_interest(git, before, tree) for (_, before), (name, tree) in pairs}


def vulkan_builder(builder: Builder, kit: Kit) -> Builder:
    """The same builder with Vulkan: another build folder, other keys."""
    backend = Backend("vulkan", kit.options)
    recipe = Recipe(TARGETS, builder.recipe.options, backend, MEGABYTES)
    identity = "\n".join((builder.toolchain.identity, kit.identity))
    return replace(builder, recipe=recipe, toolchain=replace(builder.toolchain, identity=identity))


def _require_features(builder: Builder, kit: Kit, tree: str) -> None:
    with tempfile.TemporaryDirectory(dir=builder.lab.scratch) as folder:
        try_features(kit.compiler, write_tests(builder.git, tree, Path(folder)))


def _build(builder: Builder, stack: Stack, kit: Kit, wanted: set[str]) -> list[StepBuild]:
    vulkan = vulkan_builder(builder, kit)
    plans = tuple(plan for plan in vulkan.plan(stack) if plan.name in wanted)
    for plan in plans:
        if vulkan.store.load(plan.key) is None:
            _require_features(builder, kit, plan.tree)
    return build_plans(vulkan, plans)
