"""The gate for kernels: no new spill, no new scratch, no lower occupancy, or what is allowed."""

from __future__ import annotations

from dataclasses import replace

from series.model import IsaAllowance
from validate.hip.kernels import KernelPair
from validate.isa.judge import STRICT, Change, Word
from validate.isa.statistics import Numbers


def judge_kernel(
    compiler: str,
    pair: KernelPair,
    before: Numbers | None,
    after: Numbers | None,
    allowance: IsaAllowance | None = None,
) -> Change:
    """A kernel against its counterpart; a new one is held against no spill and no scratch."""
    change = Change(compiler, pair, before, after, Word.EQUAL)
    word, reason = _decide(change, allowance or STRICT)
    return replace(change, word=word, reason=reason)


def _decide(change: Change, allowance: IsaAllowance) -> tuple[Word, str]:
    errors = [each.error for each in (change.after, change.before) if each and each.error]
    if errors:
        return Word.INVALID, errors[0]
    if change.after is None:
        return Word.EQUAL, "gone"
    over = _find_excess(change, allowance)
    if over is not None:
        return over
    if _find_excess(change, STRICT) is not None:
        return Word.ALLOWED, allowance.allow
    if change.before is None:
        return Word.EQUAL, "new"
    gained = _find_excess(replace(change, before=change.after, after=change.before), STRICT)
    return (Word.BETTER if gained else Word.EQUAL), ""


def _find_excess(change: Change, allowance: IsaAllowance) -> tuple[Word, str] | None:
    before, after = change.before, change.after
    assert after is not None
    scratch = after.scratch - (before.scratch if before else 0)
    waves = before.waves - after.waves if before else 0
    if change.spilled > allowance.spilled:
        return Word.SPILLS, f"{change.spilled} more registers spilled"
    if scratch > allowance.scratch:
        return Word.WORSE, f"{scratch} more bytes of scratch a lane"
    if waves > allowance.waves:
        return Word.WORSE, f"{waves} fewer waves a SIMD"
    return None
