"""A pipeline against its counterpart: what changed, and whether the gate lets it pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum

from series.model import IsaAllowance
from upstream.errors import ExitCode
from validate.isa.statistics import Numbers
from validate.isa.variants import Comparison

BASE, TIP = "base", "tip"  # names of trees that are no step
STRICT = IsaAllowance("")
LIMITS = [each.name for each in fields(IsaAllowance) if each.name != "allow"]


class Word(Enum):
    """How a changed pipeline ended, from good to bad."""

    BETTER = "better"
    EQUAL = "equal"  # other code, the same cost
    ALLOWED = "allowed"
    INVALID = "INVALID"
    WORSE = "WORSE"
    SPILLS = "SPILLS"


REFUSED = (Word.SPILLS, Word.WORSE)
NOISE = 0.05  # percent of inverse throughput below which we call it equal


@dataclass(frozen=True)
class Change:
    """One changed pipeline or kernel under one compiler; None where there is no counterpart."""

    compiler: str
    pair: Comparison
    before: Numbers | None
    after: Numbers | None
    word: Word
    reason: str = ""

    @property
    def worse(self) -> float | None:
        """Percent by which the inverse throughput grew."""
        if not self.before or not self.after or not self.before.inverse_throughput:
            return None
        return 100.0 * (self.after.inverse_throughput / self.before.inverse_throughput - 1.0)

    @property
    def spilled(self) -> int:
        """Registers spilled more than before."""
        return count_spills(self.after) - count_spills(self.before)


@dataclass(frozen=True)
class StepChanges:
    """A step against its parent. same: pipelines that any compiler would compile to the same, and
    kernels of changed files that keep all their numbers. left: pipelines that differ and were not
    compiled, because no AMD device runs them.
    """

    step: str
    parent: str
    same: int
    new: int
    gone: int
    changes: tuple[Change, ...]
    left: int = 0

    @property
    def word(self) -> Word:
        """The worst of its changes."""
        return worst(change.word for change in self.changes)


def add_changes(one: StepChanges, other: StepChanges) -> StepChanges:
    """What two compilers' sources say about the same step."""
    assert (one.step, one.parent) == (other.step, other.parent)
    keys = ("same", "new", "gone", "left")
    counts = {key: getattr(one, key) + getattr(other, key) for key in keys}
    return StepChanges(one.step, one.parent, **counts, changes=one.changes + other.changes)


def count_spills(numbers: Numbers | None) -> int:
    """Spilled registers of both kinds. Some drivers spill to LDS, so scratch is not the sign."""
    return numbers.spilled_vgprs + numbers.spilled_sgprs if numbers else 0


@dataclass(frozen=True)
class Gate:
    """What decides about one kind of code: `find_excess` says what goes beyond an allowance, None
    where nothing does; `is_better` is asked where neither the gate nor the allowance has a word."""

    find_excess: Callable[[Change, IsaAllowance], tuple[Word, str] | None]
    is_better: Callable[[Change], bool]


def judge(
    compiler: str,
    pair: Comparison,
    before: Numbers | None,
    after: Numbers | None,
    allowance: IsaAllowance | None = None,
) -> Change:
    """Compare two answers under the gate: no new spill, at most 3 % worse, or what is allowed."""
    return decide(PIPELINES, Change(compiler, pair, before, after, Word.EQUAL), allowance)


def decide(gate: Gate, change: Change, allowance: IsaAllowance | None) -> Change:
    """The change with the word and the reason that a gate has for it."""
    word, reason = _find_word(gate, change, allowance or STRICT)
    return replace(change, word=word, reason=reason)


def _find_word(gate: Gate, change: Change, allowance: IsaAllowance) -> tuple[Word, str]:
    errors = [each.error for each in (change.after, change.before) if each and each.error]
    if errors:
        return Word.INVALID, errors[0]
    if change.after is None:
        return Word.EQUAL, "gone"
    over = gate.find_excess(change, allowance)
    if over is not None:
        return over
    if gate.find_excess(change, STRICT) is not None:
        return Word.ALLOWED, allowance.allow
    if change.before is None:
        return Word.EQUAL, "new"
    return (Word.BETTER if gate.is_better(change) else Word.EQUAL), ""


def _find_excess(change: Change, allowance: IsaAllowance) -> tuple[Word, str] | None:
    if change.spilled > allowance.spilled:
        return Word.SPILLS, f"{change.spilled} more registers spilled"
    if change.worse is not None and change.worse > allowance.worse:
        return Word.WORSE, f"inverse throughput +{change.worse:.1f} %, over {allowance.worse:g} %"
    return None


def _is_better(change: Change) -> bool:
    return change.spilled < 0 or (change.worse is not None and change.worse < -NOISE)


PIPELINES = Gate(_find_excess, _is_better)


def loosest(allowances: Iterable[IsaAllowance | None]) -> IsaAllowance | None:
    """What a tip may do: of each thing as much as the step that is allowed most."""
    found = [each for each in allowances if each]
    if not found:
        return None
    most = {key: max(getattr(each, key) for each in found) for key in LIMITS}
    return IsaAllowance("; ".join(each.allow for each in found), **most)


def worst(words: Iterable[Word]) -> Word:
    """The one furthest to the bad end; EQUAL where there is none."""
    order = list(Word)
    return max(words, key=order.index, default=Word.EQUAL)


def exit_code(steps: Sequence[StepChanges]) -> ExitCode:
    """1 the gate refuses a step, 4 a pipeline has no numbers, 0 else."""
    words = {change.word for step in steps for change in step.changes}
    if words & set(REFUSED):
        return ExitCode.GATE_FAILED
    return ExitCode.INVALID if Word.INVALID in words else ExitCode.OK
