"""The outcome as text and as one document."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from upstream.errors import UsageError
from validate.report_model import percent
from validate.speculation.client import Round, Turn
from validate.speculation.judge import Pair, Ranking
from validate.speculation.measure import Setting, Taken

DATA = Path(__file__).parent
PUBLISHED = "published"  # the conversation of the published comparison


@dataclass(frozen=True)
class Run:
    """All that was measured on one device, and its rankings by conversation."""

    setting: Setting
    blocks: int
    margin: float
    taken: tuple[Taken, ...]
    rankings: tuple[Ranking, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.arm for each in self.taken))


@dataclass(frozen=True)
class Row:
    """Medians of an arm in one conversation: tok/s by question, tokens, accepted share."""

    arm: str
    speeds: tuple[float, ...]
    tokens: tuple[int, ...]
    acceptance: float | None


def load_conversations(names: Sequence[str]) -> dict[str, list[str]]:
    """The questions by conversation. Raises UsageError for a name that is none."""
    data = tomllib.loads((DATA / "conversations.toml").read_text())
    for name in names:
        if name not in data:
            raise UsageError(f"no conversation {name!r}", remedy=f"name some of: {', '.join(data)}")
    return {name: data[name]["questions"] for name in names or data}


def load_published() -> dict[str, Any]:
    """What others published, see published.toml."""
    return tomllib.loads((DATA / "published.toml").read_text())


def make_rows(run: Run, conversation: str) -> list[Row]:
    """One row an arm, in the order of the ranking."""
    (ranking,) = (each for each in run.rankings if each.conversation == conversation)
    return [_make_row(run.taken, conversation, arm) for arm in ranking.arms]


def _make_row(taken: Sequence[Taken], conversation: str, arm: str) -> Row:
    talks = [t for each in taken if each.arm == arm for t in each.turns[conversation]]
    questions: list[tuple[Turn, ...]] = list(zip(*talks, strict=True))
    drafted = sum(turn.drafted for talk in talks for turn in talk)
    accepted = sum(turn.accepted for talk in talks for turn in talk)
    return Row(
        arm,
        tuple(median(turn.speed for turn in turns) for turns in questions),
        tuple(round(mean(turn.tokens for turn in turns)) for turns in questions),
        accepted / drafted if drafted else None,
    )


def list_rounds(run: Run, arm: str, conversation: str | None = None) -> list[Round]:
    """The rounds of an arm in order; of one conversation, or of all."""
    return [
        each
        for taken in run.taken
        if taken.arm == arm
        for name, talks in taken.turns.items()
        if conversation in (None, name)
        for talk in talks
        for turn in talk
        for each in turn.rounds
    ]


def acceptance_by_position(rounds: Sequence[Round]) -> list[tuple[float, int]]:
    """By position: the share accepted where all before were and it was drafted, and the trials."""
    longest = max((each.drafted for each in rounds), default=0)
    found = []
    for position in range(longest):
        tried = [e for e in rounds if e.drafted > position and e.accepted >= position]
        if tried:
            found.append((sum(e.accepted > position for e in tried) / len(tried), len(tried)))
    return found


def format_run(run: Run) -> str:
    """The tables of a run for a terminal, and the published ones beside the first."""
    parts = [f"{run.setting.target.name} on {run.setting.device}, {run.setting.slots} slots"]
    parts += [f"{run.blocks} blocks, tok/s of the server, margin {run.margin:.1%}", ""]
    for ranking in run.rankings:
        parts += [_format_table(run, ranking.conversation), *_format_ranking(ranking), ""]
    return "\n".join(parts)


def _format_table(run: Run, conversation: str) -> str:
    rows = make_rows(run, conversation)
    questions = range(1, len(rows[0].speeds) + 1)
    head = "".join(f"{f'Q{n}':>9}" for n in questions)
    lines = [f"{conversation:<32}{head}  {'tokens':<16}accepted"]
    for row in rows:
        speeds = "".join(f"{speed:9.1f}" for speed in row.speeds)
        tokens = "+".join(map(str, row.tokens))
        share = "-" if row.acceptance is None else f"{row.acceptance:.1%}"
        lines.append(f"{row.arm:<32}{speeds}  {tokens:<16}{share}")
    return "\n".join(lines)


def _format_ranking(ranking: Ranking) -> list[str]:
    lines = [f"ranking: {ranking.line}", f"good: {', '.join(ranking.good)}"]
    lines += [f"usable: {', '.join(ranking.usable) or '-'}"]
    lines += [f"terrible: {', '.join(ranking.terrible) or '-'}"]
    lines += [f"undecided: {', '.join(ranking.undecided) or '-'}"]
    return lines + [f"  {format_pair(pair)}" for pair in ranking.adaptive]


def format_pair(pair: Pair) -> str:
    """`a against b: SAME +0.1 % (-0.5 to +0.7)`."""
    judged = pair.judged
    effect = f"{judged.cell.name}: {judged.verdict.value} {percent(judged.center):+.1f} %"
    if math.isinf(judged.high):
        return f"{effect} (too few blocks for an interval)"
    low, high = (f"{percent(each):+.1f}" for each in (judged.low, judged.high))
    reason = f"; {judged.reason}" if judged.reason else ""
    return f"{effect} ({low} to {high}){reason}"


def format_devices(runs: Sequence[Run]) -> str:
    """The table of the published comparison: rows of drafters; by device Q1, Q2 and tokens."""
    first = runs[0]
    devices = [run.setting.device for run in runs]
    lines = [f"{PUBLISHED:<40}" + "".join(f"{device:<28}" for device in devices)]
    lines.append(" " * 40 + f"{'Q1':>6}{'Q2':>7}  {'tokens':<13}" * len(runs))
    by_device = [{row.arm: row for row in make_rows(run, PUBLISHED)} for run in runs]
    for arm in first.arms:
        cells = (rows[arm] for rows in by_device)
        lines.append(f"{arm:<40}" + "".join(map(_format_cell, cells)))
    return "\n".join(lines) + "\n"


def _format_cell(row: Row) -> str:
    speeds = "".join(f"{speed:7.1f}" for speed in row.speeds)
    return f"{speeds:>13}  {'+'.join(map(str, row.tokens)):<13}"


def format_published() -> str:
    """The published table, which is never judged."""
    data = load_published()
    lines = ["published, not measured here:", f"  {data['source']}"]
    for one in data["result"]:
        parts = [f"{name} {_say_published(one[name])}" for name in ("ROCm", "Vulkan")]
        lines.append(f"  {one['model']:<22}{one['drafter']:<10}{'; '.join(parts)}")
    return "\n".join(lines)


def _say_published(cell: Mapping[str, Any]) -> str:
    about = "about " if cell.get("about") else ""
    speed = "/".join(f"{value:g}" for value in cell["speed"])
    return f"{about}{speed} ({'+'.join(map(str, cell['tokens']))} tokens)"


def document_run(run: Run) -> dict[str, Any]:
    """The run for --json. Effects are in per cent, an infinite interval is null."""
    return {
        "target": run.setting.target.name,
        "device": run.setting.device,
        "slots": run.setting.slots,
        "blocks": run.blocks,
        "margin": run.margin,
        "conversations": {
            ranking.conversation: {
                "rows": [vars(row) for row in make_rows(run, ranking.conversation)],
                "ranking": ranking.line,
                "good": ranking.good,
                "usable": ranking.usable,
                "terrible": ranking.terrible,
                "undecided": ranking.undecided,
                "adaptive": [_document_pair(pair) for pair in ranking.adaptive],
            }
            for ranking in run.rankings
        },
        "acceptance by position": {
            arm: acceptance_by_position(list_rounds(run, arm)) for arm in run.arms
        },
    }


def _document_pair(pair: Pair) -> dict[str, Any]:
    judged = pair.judged
    finite = math.isfinite(judged.high)
    return {
        "arm": pair.first,
        "against": pair.second,
        "verdict": judged.verdict.value,
        "percent": percent(judged.center),
        "low": percent(judged.low) if finite else None,
        "high": percent(judged.high) if finite else None,
        "blocks": judged.quads,
        "p": judged.p,
        "reason": judged.reason,
    }
