"""The checks of one step in the Vulkan lane, under names that say what they ran on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from series.model import Numerics
from validate.artifacts import StepBinaries
from validate.report import shorten
from validate.results import check_results
from validate.room import Room
from validate.verdict import CheckResult, Verdict
from validate.vulkan import layers, ops
from validate.vulkan.cases import Interest
from validate.vulkan.device import Device, with_layers
from validate.vulkan.kit import Kit
from validate.vulkan.lane import Lane

BUILD, LOGITS = "vulkan build", "vulkan results"
NOT_HERE = "not run: this machine has no Vulkan tools new enough; make them with nox -s toolchain"
NO_LAYER = (
    "not run: no validation layer here; install vulkan-validationlayers or run nox -s toolchain"
)
NO_INTEGER_DOT = "the integer-dot shaders that it changes were not run: the device has none"
NOT_BOUND = "no pipeline that multiplies by q8_1 was bound: the shaders that it changes did not run"
UNTOUCHED = "not built: it touches nothing that a Vulkan device computes with"
Check = Callable[[], CheckResult]


@dataclass(frozen=True)
class VulkanArms:
    """A step and its parent, built with Vulkan, and what they are checked on."""

    room: Room
    kit: Kit
    device: Device
    step: StepBinaries
    parent: StepBinaries
    interest: Interest
    numerics: Numerics
    limit: int

    def test_ops(self) -> CheckResult:
        """The operations that the step touches.

        A pass is only shown where none of the shaders that it changes can have run, and is none
        where the device reports what it was made to and yet none of them did.
        """
        sides = (self.room, self.step, self.parent)
        found = ops.check_ops(*sides, self.interest, limit=self.limit)
        if self.device.reported:
            return _require_bound(found)
        if self.device.integer_dot or not self.interest.only_integer_dot:
            return found
        shown = {Verdict.PASS: Verdict.INFORMATION}.get(found.verdict, found.verdict)
        return replace(found, verdict=shown, detail=f"{found.detail}; {NO_INTEGER_DOT}")

    def compare_logits(self) -> CheckResult:
        """All layers of the model on the device."""
        return check_results(self.room, self.step, self.parent, self.numerics)

    def validate(self) -> CheckResult:
        """A few cases under the validation layer."""
        if self.kit.layers is None:
            return CheckResult(layers.CHECK, Verdict.INFORMATION, NO_LAYER, cached=True)
        layered = with_layers(self.room.launch, self.kit)
        return layers.check_layers(self.room, layered, self.step, self.parent, self.interest)


def _require_bound(found: CheckResult) -> CheckResult:
    if found.verdict is not Verdict.PASS:
        return found
    bound = found.facts["bound"]
    if not bound:
        return replace(found, verdict=Verdict.INVALID, detail=f"{found.detail}; {NOT_BOUND}")
    return replace(found, detail=f"{found.detail}; ran {shorten([*bound])}")


def plan_vulkan(lane: Lane, room: Room, numerics: Numerics, step: str) -> list[tuple[str, Check]]:
    """The checks by name; one that tells why where there is nothing to run."""
    told = _explain(lane, step)
    if told is not None:
        return [(told.check, lambda: told)]
    arms = _open_arms(lane, room, numerics, step)
    return list(_list_checks(arms, lane.reported if arms.interest.integer_dot else None))


def _explain(lane: Lane, step: str) -> CheckResult | None:
    """The result that stands for the whole lane, None where the checks run."""
    if lane.interests[step].nothing:
        return CheckResult("vulkan", Verdict.IDENTICAL, UNTOUCHED, cached=True)
    if lane.kit is None:
        return CheckResult("vulkan", Verdict.INFORMATION, NOT_HERE, cached=True)
    after, before = lane.builds[step], lane.builds[lane.parents[step]]
    if after.binaries is None:
        failure = f"does not build: {after.error}"
        return CheckResult(BUILD, Verdict.FAIL, failure, {"log": str(after.log)})
    if before.binaries is None:
        return CheckResult(BUILD, Verdict.INVALID, f"its parent {before.name} does not build")
    return None


def _open_arms(lane: Lane, room: Room, numerics: Numerics, step: str) -> VulkanArms:
    after, before = lane.builds[step].binaries, lane.builds[lane.parents[step]].binaries
    assert lane.kit is not None
    assert lane.device is not None
    assert after is not None
    assert before is not None
    there = replace(room, launch=lane.device.launch)
    interest = lane.interests[step]
    return VulkanArms(there, lane.kit, lane.device, after, before, interest, numerics, lane.limit)


def _list_checks(arms: VulkanArms, reported: Device | None) -> Iterator[tuple[str, Check]]:
    """Names that say "software" where it is: such a pass is no word about a GPU.

    On a device that is made to report an integer dot product the shaders for it run instead of the
    float ones, or beside them where the step changes both.
    """
    dot = _move_to(arms, reported) if reported else None
    alone = dot if arms.interest.only_integer_dot else None
    plain = () if alone else ((arms, ops.CHECK, arms.test_ops),)
    added = ((dot, ops.CHECK, dot.test_ops),) if dot else ()
    checks = (
        *plain,
        *added,
        (arms, LOGITS, arms.compare_logits),
        (alone or arms, layers.CHECK, (alone or arms).validate),
    )
    for where, name, check in checks:
        full = f"{name} ({where.device.kind})"
        yield full, _rename(check, full)


def _move_to(arms: VulkanArms, device: Device) -> VulkanArms:
    return replace(arms, device=device, room=replace(arms.room, launch=device.launch))


def _rename(check: Check, name: str) -> Check:
    return lambda: replace(check(), check=name)
