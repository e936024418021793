"""Every step against its parent: which checks, in which order, and what they add up to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from series.model import Claim, Series
from upstream.errors import InvalidMeasurement
from upstream.lab import hold_lock, require_space
from upstream.progress import Meter, show_progress
from validate import archs, instructions, results, teeth
from validate.artifacts import StepBinaries
from validate.build import StepBuild
from validate.corpus import Corpus
from validate.hip.check import CHECK as HIP
from validate.hip.check import check_hip
from validate.isa.check import CHECK as ISA
from validate.isa.check import StepPair, check_isa
from validate.ledger.check import CHECK as LEDGERS
from validate.ledger.check import LedgerBook, StepTrees
from validate.numeric_tiers import Arms, NumericTiers, plan_tiers
from validate.room import Room
from validate.source_tree import SourceTree
from validate.teeth import OwnCheck
from validate.verdict import CheckResult, StepVerdict, Verdict
from validate.vulkan.lane import Lane
from validate.vulkan.plan import plan_vulkan

LOGGER = logging.getLogger("lab")
BUILD = "build"
MEGABYTES = 1000  # logits of some steps, one source tree, temporary models of test-llama-archs
Check = Callable[[], CheckResult]


@dataclass(frozen=True)
class Validation:
    """What judging a stack takes. `root` is handed to the patches' own checks as `--root`;
    without `ledgers` or `corpus` (stand-ins for llama.cpp) the checks that take them are left out,
    and without `vulkan` those on a Vulkan device.
    """

    room: Room
    series: Series
    source: SourceTree
    root: Path | None = None
    ledgers: LedgerBook | None = None
    corpus: Corpus | None = None
    vulkan: Lane | None = None


@dataclass(frozen=True)
class Pair:
    """A step and what it is compared with: the nearest step before it that builds.

    `base` is what the stack stands on; its programs make models for the checks.
    """

    step: StepBuild
    parent: StepBuild
    base: StepBinaries


def validate_stack(validation: Validation, builds: Sequence[StepBuild]) -> list[StepVerdict]:
    """Judge every step; `builds` starts with the base.

    Raises InvalidMeasurement when there is nothing to judge.
    """
    if builds[0].binaries is None:
        raise InvalidMeasurement(
            f"the base does not build, so no step has a parent: {builds[0].error}",
            remedy="choose another base version, or mend the toolchain",
        )
    require_space(validation.room.lab, MEGABYTES, "the checks")
    if len(builds) < 2:
        raise InvalidMeasurement("the stack has no step", remedy="add a patch to the series")
    pairs = _pair(builds)
    plans = [_plan_checks(validation, pair) for pair in pairs]
    total = sum(map(len, plans))
    with hold_lock(validation.room.lab, "validate"), show_progress("checks", total) as meter:
        return [
            StepVerdict(pair.step.name, pair.parent.name, _run_all(pair, checks, meter))
            for pair, checks in zip(pairs, plans, strict=True)
        ]


def _pair(builds: Sequence[StepBuild]) -> list[Pair]:
    parent, base, pairs = builds[0], builds[0].binaries, []
    assert base is not None
    for step in builds[1:]:
        pairs.append(Pair(step, parent, base))
        parent = step if step.binaries is not None else parent
    return pairs


def _plan_checks(validation: Validation, pair: Pair) -> list[tuple[str, Check]]:
    """The checks of one step, cheap and telling ones first."""
    step, parent = pair.step.binaries, pair.parent.binaries
    assert parent is not None
    checks = _plan_ledgers(validation, pair)
    if step is None:
        return [*checks, (BUILD, lambda: _fail_build(pair.step))]
    room = validation.room
    claim = validation.series.claim(pair.step.name)
    numerics = claim.numerics.get("cpu", "bit-exact")
    if claim.check:
        own = _open_own_check(validation, claim)
        checks.append((teeth.CHECK, lambda: _bite(room, own, pair, validation.vulkan)))
    checks += _plan_isa(validation, pair, claim)
    checks.append((archs.CHECK, lambda: archs.check_archs(room, step, parent)))
    checks += _plan_numerics(validation, pair, Arms(step, parent, _trees(pair), numerics))
    checks += _plan_vulkan(validation, pair.step.name)
    if claim.free:
        checks.append((instructions.CHECK, lambda: instructions.check_free(room, step, parent)))
    return checks


def _plan_numerics(validation: Validation, pair: Pair, arms: Arms) -> list[tuple[str, Check]]:
    room = validation.room
    if validation.corpus is not None:
        tiers = NumericTiers(validation.source.git, validation.corpus, pair.base)
        return plan_tiers(room, tiers, arms)
    compare = partial(results.check_results, room, arms.step, arms.parent, arms.numerics)
    return [(results.CHECK, compare)]


def _plan_isa(validation: Validation, pair: Pair, claim: Claim) -> list[tuple[str, Check]]:
    if validation.ledgers is None:
        return []
    lab, git = validation.room.lab, validation.source.git
    step = StepPair(pair.step.name, pair.parent.name, *_trees(pair), claim.isa)
    return [(ISA, lambda: check_isa(lab, git, step)), (HIP, lambda: check_hip(lab, git, step))]


def _plan_vulkan(validation: Validation, step: str) -> list[tuple[str, Check]]:
    if validation.vulkan is None:
        return []
    numerics = validation.series.claim(step).numerics.get("vulkan", "bit-exact")
    return plan_vulkan(validation.vulkan, validation.room, numerics, step)


def _trees(pair: Pair) -> tuple[str, str]:
    return pair.step.plan.tree, pair.parent.plan.tree


def _plan_ledgers(validation: Validation, pair: Pair) -> list[tuple[str, Check]]:
    book = validation.ledgers
    if book is None:
        return []
    trees = StepTrees(pair.step.name, pair.step.plan.tree, pair.parent.plan.tree)
    return [(LEDGERS, lambda: book.check(trees))]


def _run_all(
    pair: Pair, checks: Sequence[tuple[str, Check]], meter: Meter
) -> tuple[CheckResult, ...]:
    found = []
    for name, check in checks:
        LOGGER.debug("%s: %s", pair.step.name, name)
        found.append(_run_one(name, check))
        meter.advance(1)
    return tuple(found)


def _run_one(name: str, check: Check) -> CheckResult:
    """A check that measured nothing is a result of its own, so that the other steps go on."""
    try:
        return check()
    except InvalidMeasurement as error:
        return CheckResult(name, Verdict.INVALID, error.what)


def _open_own_check(validation: Validation, claim: Claim) -> OwnCheck:
    script = teeth.find_script(validation.series.directory, claim.check)
    return OwnCheck(script, validation.source, validation.root)


def _bite(room: Room, own: OwnCheck, pair: Pair, lane: Lane | None = None) -> CheckResult:
    return teeth.check_teeth(room, own, _tree(pair.step, lane), _tree(pair.parent, lane))


def _tree(build: StepBuild, lane: Lane | None) -> teeth.Tree:
    assert build.binaries is not None
    vulkan = lane.find_programs(build.name) if lane else None
    return teeth.Tree(build.plan, build.binaries, vulkan)


def _fail_build(step: StepBuild) -> CheckResult:
    return CheckResult(BUILD, Verdict.FAIL, f"does not build: {step.error}", {"log": str(step.log)})
