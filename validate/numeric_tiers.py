"""The numeric checks of one step, cheap to dear: operations, logits, divergence, transcript."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from series.model import Numerics
from upstream.errors import InvalidMeasurement
from upstream.git import Git
from validate import backend_ops, divergence, results, transcript
from validate.artifacts import StepBinaries
from validate.corpus import Corpus
from validate.room import Room
from validate.touched import find_touched
from validate.verdict import CheckResult, Verdict


@dataclass(frozen=True)
class NumericTiers:
    """What the tiers take beside a room: the text, the base's programs, a device by its name."""

    git: Git
    corpus: Corpus
    base: StepBinaries
    device: str = backend_ops.CPU


@dataclass(frozen=True)
class Arms:
    """A step and its parent: binaries and trees, and what the patch declares."""

    step: StepBinaries
    parent: StepBinaries
    trees: tuple[str, str]  # the step's and the parent's
    numerics: Numerics


def plan_tiers(
    room: Room, tiers: NumericTiers, arms: Arms
) -> list[tuple[str, Callable[[], CheckResult]]]:
    """The checks by name."""
    step, parent, numerics = arms.step, arms.parent, arms.numerics

    def test_ops() -> CheckResult:
        touched = find_touched(tiers.git, arms.trees[1], arms.trees[0])
        return backend_ops.check_backend_ops(room, step, parent, touched, tiers.device)

    def diverge() -> CheckResult:
        return divergence.check_divergence(
            room, tiers.corpus, step, parent, numerics, quantizer=tiers.base
        )

    return [
        (backend_ops.CHECK, test_ops),
        (
            results.CHECK,
            lambda: results.check_results(room, step, parent, numerics, quantizer=tiers.base),
        ),
        (divergence.CHECK, diverge),
        (transcript.CHECK, lambda: _show_transcript(room, step, parent)),
    ]


def _show_transcript(room: Room, step: StepBinaries, parent: StepBinaries) -> CheckResult:
    """Information only: that there is none is information too, and no step is invalid for it."""
    if not all(transcript.TARGET in each.uses for each in (step, parent)):
        missing = f"none: {transcript.TARGET} was not built"
        return CheckResult(transcript.CHECK, Verdict.INFORMATION, missing, cached=True)
    try:
        return transcript.show_transcript(room, step, parent)
    except InvalidMeasurement as error:
        return CheckResult(transcript.CHECK, Verdict.INFORMATION, f"none: {error.what}")
