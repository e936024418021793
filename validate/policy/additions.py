"""The ggml types and operations that a topic adds, by their enumerations."""

from __future__ import annotations

from validate.ledger.enums import parse_c_enum
from validate.ledger.sources import GGML_H
from validate.ledger.text import body_of
from validate.policy.branch import Branch, Tree

ENUMS = ("ggml_type", "ggml_op", "ggml_unary_op", "ggml_glu_op")


def added_ids(branch: Branch, enums: tuple[str, ...] = ENUMS) -> list[str]:
    """Names that the tip's enumerations have and the base's have not, without the counts.

    Raises ValueError when an enumeration cannot be read or is not where it was.
    """
    if not _list_names(branch.upstream, ENUMS[0]):
        raise ValueError(f"no enum {ENUMS[0]} in {GGML_H}")
    if not branch.touches(GGML_H):
        return []
    names = [
        name
        for enum in enums
        for name in _list_names(branch.tip, enum) - _list_names(branch.base, enum)
    ]
    return sorted(name for name in names if not name.endswith("_COUNT"))


def _list_names(tree: Tree, enum: str) -> set[str]:
    body = body_of(tree.text(GGML_H), rf"\benum\s+{enum}\b")
    return {name for name, _ in parse_c_enum(body or "")}
