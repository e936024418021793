"""The speed of a whole stack: every step against its parent, and the tip against the base.

Steps answer for their own change; the tip is what users get: ten steps of -1 % each pass alone and
lose a tenth together.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from validate.build import StepBuild
from validate.cells import Judged, Speed
from validate.guards import Placement
from validate.profiles import Profile
from validate.report_model import SPEED, Comparison, document, percent, worst_speed
from validate.room import Room
from validate.samplers import probe
from validate.speed import Bench, Measured, Pairing, has_work, measure_speed
from validate.verdict import CheckResult, StepVerdict, Verdict

LOGGER = logging.getLogger("lab")
TIP = "tip"
VERDICTS = {
    Speed.IDENTICAL: Verdict.IDENTICAL,
    Speed.FASTER: Verdict.FASTER,
    Speed.SAME: Verdict.SAME,
    Speed.INCONCLUSIVE: Verdict.INCONCLUSIVE,
    Speed.SLOWER: Verdict.SLOWER,
    Speed.INVALID: Verdict.INVALID,
}


def list_pairings(builds: Sequence[StepBuild]) -> list[Pairing]:
    """Every step that builds with the nearest one before it that does; the tip with the base.

    `builds` starts with the base. With one step the tip is that step and is not named twice.
    """
    built = [build for build in builds if build.binaries is not None]
    pairings = [_pair(step.name, step, parent) for parent, step in pairwise(built)]
    if len(built) > 2:
        pairings.append(_pair(TIP, built[-1], built[0]))
    return pairings


def require_measurable(
    room: Room, builds: Sequence[StepBuild], placement: Placement, profile: Profile
) -> None:
    """Refuse a model or a device that the base cannot use, before anything is judged.

    Raises InvalidMeasurement with the program's own words.
    """
    if (base := builds[0].binaries) is not None:
        probe(room, base, placement, profile.limit)


def measure_stack(bench: Bench, pairings: Sequence[Pairing]) -> dict[str, Measured]:
    """The judged cells of every pairing by its name.

    The time that is left is shared equally by those that still need some.
    """
    started = time.monotonic()
    left = sum(has_work(bench, pairing) for pairing in pairings)
    measured: dict[str, Measured] = {}
    if left:
        LOGGER.info("speed: %d of %d comparisons, about %d s", left, len(pairings), bench.budget)
    for pairing in pairings:
        remaining = max(0.0, bench.budget - (time.monotonic() - started))
        measured[pairing.name] = measure_speed(bench, pairing, remaining / max(left, 1))
        left -= has_work(bench, pairing)
    return measured


def compare_stack(
    pairings: Sequence[Pairing], measured: Mapping[str, Measured]
) -> list[Comparison]:
    """The same for the report."""
    return [
        Comparison(pairing.name, pairing.parent_name, measured[pairing.name].cells)
        for pairing in pairings
    ]


def add_speed(
    steps: Iterable[StepVerdict], pairings: Sequence[Pairing], measured: Mapping[str, Measured]
) -> list[StepVerdict]:
    """The verdicts of the other checks with the speed's; the tip's stands last, on its own."""
    found = [_extend(step, measured.get(step.patch)) for step in steps]
    for pairing in pairings:
        if pairing.name == TIP:
            tip = StepVerdict(TIP, pairing.parent_name, ())
            found.append(_extend(tip, measured[TIP]))
    return found


def check_speed(measured: Measured) -> CheckResult:
    """All cells of a comparison as one check: as bad as the worst."""
    worst = worst_speed(one.verdict for one in measured.cells)
    assert worst is not None
    detail = "" if worst is Speed.IDENTICAL else "; ".join(_describe_cells(measured.cells))
    facts = {"cells": [document(one) for one in measured.cells]}
    return CheckResult(SPEED, VERDICTS[worst], detail, facts, measured.cached)


def _pair(name: str, step: StepBuild, parent: StepBuild) -> Pairing:
    assert step.binaries is not None
    assert parent.binaries is not None
    return Pairing(name, parent.name, step.binaries, parent.binaries)


def _extend(step: StepVerdict, measured: Measured | None) -> StepVerdict:
    if measured is None or not measured.cells:
        return step
    return replace(step, checks=(*step.checks, check_speed(measured)))


def _describe_cells(cells: Sequence[Judged]) -> Iterator[str]:
    """One phrase a cell; a reason that several share is said once."""
    told: set[str] = set()
    for one in cells:
        reason = "" if one.reason in told else one.reason
        told.add(one.reason)
        said = f"{one.cell.name} {one.verdict.value}{_describe_effect(one)}"
        yield f"{said}: {reason}" if reason else said


def _describe_effect(one: Judged) -> str:
    if not one.quads:
        return ""
    low, high = percent(one.low), percent(one.high)
    return f" {percent(one.center):+.1f} % ({low:+.1f}..{high:+.1f}, {one.quads} quads)"
