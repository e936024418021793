"""All contests of a run: Holm's correction over them, second runs, tables and documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from upstream.errors import ExitCode
from validate.comparison import correct
from validate.report_model import percent
from validate.speculation.acceptance import Acceptance
from validate.speculation.arms import Drafter
from validate.speculation.contest import Arena, Contest, Outcome, hold, hold_again

CODES = {"missed": ExitCode.GATE_FAILED, "invalid": ExitCode.INVALID}


def list_contests(
    drafters: Sequence[Drafter],
    acceptances: Sequence[Acceptance | None],
    longest: int,
    *,
    phases: bool = False,
) -> list[Contest]:
    """Every drafter at every acceptance, against every length from 0 on."""
    lengths = tuple(range(longest + 1))
    return [Contest(drafter, each, lengths, phases) for drafter in drafters for each in acceptances]


def hold_all(arena: Arena, contests: Sequence[Contest]) -> list[Outcome]:
    """All contests one after another; what is SLOWER after Holm's correction is measured again."""
    plan = replace(arena.plan, family=len(contests))
    arena = replace(arena, plan=plan)
    outcomes = correct_all([hold(arena, contest) for contest in contests])
    return [hold_again(arena, outcome) for outcome in outcomes]


def correct_all(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Holm over the contests: what chance explains well is neither SLOWER nor FASTER."""
    judged = correct([outcome.judged for outcome in outcomes])
    return [replace(one, judged=said) for one, said in zip(outcomes, judged, strict=True)]


def choose_code(outcomes: Sequence[Outcome]) -> ExitCode:
    """4 when a contest is no measurement, else 1 when one is missed, else 0."""
    states = [outcome.state for outcome in outcomes]
    found = next((state for state in ("invalid", "missed") if state in states), "")
    return CODES.get(found, ExitCode.OK)


def format_matrix(outcomes: Sequence[Outcome]) -> str:
    """One line a contest, then the curves that the fixed lengths were chosen by."""
    lines = [
        f"{'adaptive against the best fixed length':<40}{'best':>5}  of it (interval), verdict"
    ]
    lines += [f"{_label(one):<40}{one.best:>5}  {format_outcome(one)}" for one in outcomes]
    lines += ["", f"{'tok/s by draft length, measured to choose':<40}"]
    return "\n".join(lines + [f"{_label(one):<40}{_format_curve(one)}" for one in outcomes])


def format_outcome(outcome: Outcome) -> str:
    """`99.4 % (98.7 to 100.2), demanded 98 %: holds, SAME`."""
    judged = outcome.judged
    shares = [100 * math.exp(each) for each in (judged.center, judged.low, judged.high)]
    said = f"{shares[0]:.1f} %"
    said += f" ({shares[1]:.1f} to {shares[2]:.1f})" if math.isfinite(judged.high) else ""
    said += f", demanded {100 * outcome.contest.bound:.0f} %: {outcome.state}"
    reason = f", {judged.reason}" if judged.reason else ""
    return f"{said}, {judged.verdict.value}{reason}"


def _label(outcome: Outcome) -> str:
    slots = f", {outcome.slots} slots" if outcome.slots > 1 else ""
    return outcome.contest.name + slots


def _format_curve(outcome: Outcome) -> str:
    points = "".join(f"{speed:9.1f}" for _, speed in sorted(outcome.curve.items()))
    return f"{points}  adaptive {outcome.adaptive:.1f} at {outcome.mean_length:.1f}"


def document_outcome(outcome: Outcome) -> dict[str, Any]:
    """The outcome for --json. Effects are in per cent, an infinite interval is null."""
    judged = outcome.judged
    finite = math.isfinite(judged.high)
    return {
        "contest": outcome.contest.name,
        "drafter": outcome.contest.drafter.name,
        "acceptance": outcome.contest.acceptance and asdict(outcome.contest.acceptance),
        "slots": outcome.slots,
        "best": outcome.best,
        "curve": {str(length): speed for length, speed in sorted(outcome.curve.items())},
        "adaptive": outcome.adaptive,
        "mean length": outcome.mean_length,
        "demanded": outcome.contest.bound,
        "state": outcome.state,
        "verdict": judged.verdict.value,
        "percent": percent(judged.center),
        "low": percent(judged.low) if finite else None,
        "high": percent(judged.high) if finite else None,
        "quads": judged.quads,
        "margin": percent(judged.margin),
        "p": judged.p,
        "reason": judged.reason,
    }
