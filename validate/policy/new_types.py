"""Rules on new ggml types: the four pieces of evidence that upstream asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from validate.policy.additions import added_ids
from validate.policy.branch import Branch
from validate.policy.model import Kind, Measured
from validate.policy.rule import Remark, red

NATIVE = ("F16", "BF16")


def require_evidence(kind: Kind, *, native: bool, similar: bool) -> Callable[..., Iterator[Remark]]:
    """The rule for one kind: whether its table must hold F16 or BF16, and a type of similar size.
    What is similar is the author's word: one other type counts."""

    def judge(branch: Branch) -> Iterator[Remark]:
        for name in added_ids(branch, ("ggml_type",)):
            tables = [m for m in branch.evidence.measured if (m.kind, m.type) == (kind, name)]
            if not tables:
                yield red(name, f"no {kind} in the evidence")
            elif lacking := _find_lacking(tables, native=native, similar=similar):
                yield red(name, f"the {kind} is not compared with {' nor with '.join(lacking)}")

    return judge


def _find_lacking(tables: list[Measured], *, native: bool, similar: bool) -> list[str]:
    against = {_short(other) for table in tables for other in table.against}
    lacking = []
    if native and not against & set(NATIVE):
        lacking.append("F16 or BF16")
    if similar and not against - set(NATIVE):
        lacking.append("a type of similar size")
    return lacking


def _short(name: str) -> str:
    return name.upper().removeprefix("GGML_TYPE_")
