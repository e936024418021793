"""The gate for kernels: no new spill, no new scratch, no lower occupancy, or what is allowed."""

from __future__ import annotations

from dataclasses import replace

from series.model import IsaAllowance
from validate.hip.kernels import KernelPair
from validate.isa.judge import STRICT, Change, Gate, Word, decide
from validate.isa.statistics import Numbers


def judge_kernel(
    compiler: str,
    pair: KernelPair,
    before: Numbers | None,
    after: Numbers | None,
    allowance: IsaAllowance | None = None,
) -> Change:
    """A kernel against its counterpart; a new one is held against no spill and no scratch."""
    return decide(KERNELS, Change(compiler, pair, before, after, Word.EQUAL), allowance)


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


def _is_better(change: Change) -> bool:
    """Whether going back would be refused."""
    back = replace(change, before=change.after, after=change.before)
    return _find_excess(back, STRICT) is not None


KERNELS = Gate(_find_excess, _is_better)
