"""One line for one step, as wide as a terminal: what is good shrinks before what is bad."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from validate.cells import Judged, Speed
from validate.report_model import SPEED, SPEED_ORDER, Comparison, percent
from validate.verdict import CheckResult, StepVerdict, Verdict

SHOWN, GOOD, NUMBERS, DROP, BAD = range(5)
CUT = "..."
BAD_SPEED = (Speed.INVALID, Speed.SLOWER)


@dataclass(frozen=True)
class Phrase:
    """The same words from long to short; an empty variant drops the phrase."""

    weight: int
    variants: tuple[str, ...]

    def cost(self, level: int) -> int:
        """How much is lost by the next shorter variant; dropping what is good costs more."""
        drops = self.weight == GOOD and not self.variants[level + 1]
        return DROP if drops else self.weight


def describe_step(step: StepVerdict, speed: Comparison | None, width: int) -> str:
    """The checks of a step in at most `width` characters."""
    return fit_phrases(list(_list_phrases(step, speed)), width)


def fit_phrases(phrases: Sequence[Phrase], width: int) -> str:
    """Shorten one phrase after the other until the line fits, then use the room that is left."""
    levels = [0] * len(phrases)
    while len(_join(phrases, levels)) > width:
        longer = [i for i, each in enumerate(phrases) if levels[i] < len(each.variants) - 1]
        if not longer:
            break
        levels[min(longer, key=lambda i: (phrases[i].cost(levels[i]), levels[i], -i))] += 1
    for index in sorted(range(len(phrases)), key=lambda i: -phrases[i].weight):
        levels[index] = _lengthen(phrases, levels, index, width)
    return cut(_join(phrases, levels), width)


def _lengthen(phrases: Sequence[Phrase], levels: Sequence[int], index: int, width: int) -> int:
    for level in range(levels[index]):
        tried = [*levels[:index], level, *levels[index + 1 :]]
        if len(_join(phrases, tried)) <= width:
            return level
    return levels[index]


def cut(text: str, width: int) -> str:
    """The text, or its beginning with dots where something is missing."""
    return text if len(text) <= width else text[: max(width - len(CUT), 0)].rstrip() + CUT


def cut_middle(text: str, width: int) -> str:
    """The text, or its two ends: names differ at the end as often as at the beginning."""
    if len(text) <= width:
        return text
    tail = (width - len(CUT)) // 2
    return text[: width - len(CUT) - tail] + CUT + text[len(text) - tail :]


def describe_effect(cell: Judged) -> str:
    """`pp64 +0.1 % +-0.8`; without numbers where nothing was measured."""
    if cell.verdict in (Speed.IDENTICAL, Speed.INVALID):
        return cell.cell.name
    half = (percent(cell.high) - percent(cell.low)) / 2
    spread = f"{half:.1f}" if math.isfinite(half) else "?"
    return f"{cell.cell.name} {percent(cell.center):+.1f} % +-{spread}"


def _list_phrases(step: StepVerdict, speed: Comparison | None) -> Iterator[Phrase]:
    identical = [check.check for check in step.checks if check.verdict is Verdict.IDENTICAL]
    for check in step.checks:
        if check.verdict is not Verdict.IDENTICAL and not (check.check == SPEED and speed):
            yield _describe_check(check)
    if identical:
        yield Phrase(GOOD, (f"{', '.join(identical)} identical", f"{len(identical)} identical", ""))
    if speed is not None and speed.cells:
        yield _describe_speed(speed)
    if step.cached:
        yield Phrase(SHOWN, ("cached", ""))


def _describe_check(check: CheckResult) -> Phrase:
    name, detail = _flatten(check.check), _flatten(check.detail)
    if check.verdict is Verdict.INFORMATION:
        return Phrase(SHOWN, (f"{name} {detail}", ""))
    if check.verdict in (Verdict.SAME, Verdict.FASTER, Verdict.INCONCLUSIVE):
        word = f"{name} {check.verdict.value}"
        return Phrase(NUMBERS, (f"{word} ({detail})" if detail else word, word))
    if check.verdict is not Verdict.PASS:
        word = f"{name} {check.verdict.value}"
        said = f"{word}: {detail}" if detail else word
        return Phrase(BAD, (said, cut(said, 64), cut(said, 40), word))
    if name == "own check":
        return Phrase(GOOD, (f"{name} red->green", ""))
    if name == "archs" and detail.endswith("archs"):
        return Phrase(GOOD, (f"archs {detail.removesuffix(' archs')} same", "archs same", ""))
    said = detail.rpartition(": ")[2]  # "bit-exact: same bytes": what it claims is in series.toml
    return Phrase(GOOD, (f"{name} {said}".rstrip(), f"{name} ok", ""))


def _flatten(text: str) -> str:
    """What a program said, without line breaks and colour codes."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _describe_speed(speed: Comparison) -> Phrase:
    groups = [
        (verdict, [cell for cell in speed.cells if cell.verdict is verdict])
        for verdict in reversed(SPEED_ORDER)
    ]
    groups = [(verdict, cells) for verdict, cells in groups if cells]
    long = ", ".join(f"{verdict.value}{_list_effects(cells)}" for verdict, cells in groups)
    worst, cells = groups[0]
    some = cells[0] if len(cells) == 1 else max(cells, key=lambda cell: abs(cell.center))
    among = f"{len(cells)} of {len(speed.cells)}" if len(groups) > 1 else "largest"
    effect = f" ({among}: {describe_effect(some)})" if worst is not Speed.IDENTICAL else ""
    variants = (f"speed {long}", f"speed {worst.value}{effect}", f"speed {worst.value}")
    return Phrase(BAD if worst in BAD_SPEED else NUMBERS, variants)


def _list_effects(cells: Sequence[Judged]) -> str:
    if cells[0].verdict is Speed.IDENTICAL:
        return ""
    return f" ({', '.join(map(describe_effect, cells))})"


def _join(phrases: Sequence[Phrase], levels: Sequence[int]) -> str:
    chosen = (phrase.variants[level] for phrase, level in zip(phrases, levels, strict=True))
    return ", ".join(filter(None, chosen))
