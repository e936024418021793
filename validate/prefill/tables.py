"""The outcome as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from upstream.errors import ExitCode
from validate.cells import Judged, Speed
from validate.forest import say_effect
from validate.prefill.measure import Outcome, Walked
from validate.prefill.shares import Shares
from validate.prefill.waterfall import Total, stack_all
from validate.report import align
from validate.report_model import document

HEADER = ("cell", "leg", "t/s", "", "change", "verdict")
Each = TypeVar("Each")
SHOWN = 6  # kinds of operations in a line of shares


@dataclass(frozen=True)
class Report:
    """All that one run of the command found. `ops` are by arena, like `outcomes`."""

    outcomes: tuple[Outcome, ...]
    shares: tuple[tuple[Shares, ...], ...] = ()
    ops: tuple[tuple[Walked, ...], ...] = ()
    notes: tuple[str, ...] = ()


def format_report(report: Report) -> str:
    """Everything, arena by arena."""
    blocks = []
    for index, outcome in enumerate(report.outcomes):
        parts = [f"{outcome.arena.model} on {outcome.arena.lane.name} ({outcome.arena.lane.path})"]
        parts.append(align((HEADER, *_list_rows(outcome))))
        falls = stack_all(outcome)
        parts += [_say_total(total, fall.cell) for fall in falls for total in fall.totals]
        parts += [format_shares(one) for one in _pick(report.shares, index)]
        parts += [format_ops(one) for one in _pick(report.ops, index)]
        blocks.append("\n".join(filter(None, parts)))
    return "\n\n".join([*blocks, *report.notes])


def format_shares(shares: Shares) -> str:
    """One line: the largest kinds of operations."""
    kinds = ", ".join(f"{kind} {100 * share:.1f} %" for kind, share in shares.kinds[:SHOWN])
    return f"time of {shares.cell} in {shares.point}: {kinds} (of {shares.total / 1000:.1f} ms)"


def format_ops(walked: Walked) -> str:
    """The operators of a leg."""
    rows = [(one.cell.name, say_effect(one), one.verdict.value) for one in walked.cells]
    said = f"operators, {walked.leg.name}\n" + align((("case", "change", "verdict"), *rows))
    return f"{said}\n{walked.note}" if walked.note else said


def document_report(report: Report) -> dict[str, object]:
    """The same for --json: changes are logarithms of speed ratios."""
    return {
        "arenas": [
            {
                "model": outcome.arena.model,
                "model_sha256": outcome.arena.bench.room.model.sha256,
                "device": outcome.arena.lane.device,
                "path": outcome.arena.lane.path,
                "way": outcome.arena.lane.way,
                "legs": [_document_leg(walked) for walked in outcome.walked],
                "totals": list(_document_totals(outcome)),
                "shares": [document(one) for one in _pick(report.shares, index)],
                "ops": [_document_leg(walked) for walked in _pick(report.ops, index)],
            }
            for index, outcome in enumerate(report.outcomes)
        ],
        "notes": list(report.notes),
    }


def choose_code(outcomes: Sequence[Outcome]) -> int:
    """1 for a patch or a tip that is SLOWER (upstream's own history is no fault), 4 for INVALID."""
    walked = [one for outcome in outcomes for one in outcome.walked]
    ours = [one for one in walked if one.leg.kind != "upstream" and not one.leg.across]
    if any(cell.verdict is Speed.SLOWER for one in ours for cell in one.cells):
        return ExitCode.GATE_FAILED
    if any(cell.verdict is Speed.INVALID for one in walked for cell in one.cells):
        return ExitCode.INVALID
    return ExitCode.OK


def say_speeds(walked: Walked, judged: Judged) -> str:
    """`812.1 -> 845.0`."""
    pair = walked.speeds.get(judged.cell.name)
    return f"{pair[0]:.1f} -> {pair[1]:.1f}" if pair else "-"


def _list_rows(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    names = [judged.cell.name for judged in outcome.walked[0].cells]
    for index, name in enumerate(names):
        for walked in outcome.walked:
            judged = walked.cells[index]
            kind = "total" if walked.leg.kind == "total" else ""
            change = say_effect(judged).replace("\u2212", "-").replace("\u221e", "inf")
            reason = f" {judged.reason}" if judged.reason else ""
            yield (
                name, walked.leg.name, say_speeds(walked, judged), kind, change,
                judged.verdict.value + reason,
            )  # fmt: skip


def _say_total(total: Total, cell: str) -> str:
    return f"{cell}, {total.leg.name}: {total.describe()}"


def _document_leg(walked: Walked) -> dict[str, object]:
    leg = walked.leg
    cells = []
    for judged in walked.cells:
        speeds = walked.speeds.get(judged.cell.name)
        cells.append({"cell": document(judged), "speeds": speeds})
    return {
        "name": leg.name, "kind": leg.kind, "from": leg.first.name, "to": leg.second.name,
        "patches": list(leg.second.patches) if leg.kind == "patches" else [], "cells": cells,
        "note": walked.note,
    }  # fmt: skip


def _document_totals(outcome: Outcome) -> Iterator[dict[str, object]]:
    for fall in stack_all(outcome):
        for total in fall.totals:
            yield {
                "cell": fall.cell, "leg": total.leg.name, "sum": document(total.sum),
                "sum_half_width": document(total.half_width),
                "direct": document(total.judged.center), "gap": document(total.gap),
                "missing": total.missing, "consistent": total.consistent,
            }  # fmt: skip


def _pick(groups: Sequence[tuple[Each, ...]], index: int) -> tuple[Each, ...]:
    return groups[index] if index < len(groups) else ()
