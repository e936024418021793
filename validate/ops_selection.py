"""Which cases of test-backend-ops run three times and which once, as arguments of the program.

Three times: those of the operations and tensor types that a step changes, and those that it adds.
Where it changes something that may be part of any operation, all others run once more: what breaks
them all alike, always, does not take three draws of the inputs to be seen.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from validate.touched import Touched

MOST_NAMED = 200  # cases in one argument, which the kernel limits to 128 KiB
Words = tuple[str, ...]
# Who calls from_float of the type that it writes (ops.cpp of b11549), and products that may.
PRODUCTS = ("MUL_MAT_W4A8", "MUL_MAT_W4A4", "MUL_MAT_ID_W4A8", "MUL_MAT_ID_W4A4")
STORES = ("CPY", "DUP", "CONT", "ADD", "ADD1", "SET_ROWS", *PRODUCTS)
# All cases, in parts that an interruption loses one of, by what stands in their parameters:
# attention, matrix products, the rest. Not by operation: `support` does not list those of fused
# ones (b11549), and -o can't say "all but these".
EVERYTHING: tuple[Words, ...] = (
    ("-p", "hsk="),
    ("-p", "^(?!.*hsk=).*type_a="),
    ("-p", "^(?!.*(hsk=|type_a=))"),
)


@dataclass(frozen=True)
class Selection:
    """The arguments of each program to start, for all cases (once) and for those of the step.

    `added` are cases that the parent does not list; the first run has `planned` or more.
    """

    touched: Touched
    everything: tuple[Words, ...]
    thrice: tuple[Words, ...]
    added: frozenset[str]
    planned: int

    def list_runs(self, number: int) -> tuple[Words, ...]:
        """What a run, counted from 0, is made of; the first of all cases is one of three."""
        return self.everything if self.everything and not number else self.thrice

    def has(self, case: str) -> bool:
        """Whether a case runs three times."""
        return case in self.added or is_of(case, self.touched)


def select_cases(touched: Touched, supported: Collection[str], new: Collection[str]) -> Selection:
    """Choose the arguments; the supported cases are those that `support` lists."""
    types = {kind for name in supported for kind in read_types(name)} & {*touched.types}
    stores = [name for name in supported if _stores(name, touched)]
    mine = {name for name in supported if is_of(name, touched)}
    rest = sorted({*supported} & {*new} - mine)
    thrice: list[Words] = []
    if any(_op(name) in touched.ops for name in supported):
        thrice.append(("-o", ",".join(touched.ops)))
    if types:
        thrice.append(("-p", _match(types)))
    if stores:
        thrice.append(("-o", ",".join(STORES), "-p", _match(touched.stored)))
    thrice += select_names(rest)
    inside = [name.partition("(")[2] for name in supported]
    parts = [each for each in EVERYTHING if any(re.search(each[1], name) for name in inside)]
    everything = tuple(parts) if touched.unknown else ()
    planned = len({*supported}) if everything else len(mine) + len(rest)
    return Selection(touched, everything, tuple(thrice), frozenset(new), planned)


def select_names(names: Sequence[str]) -> list[Words]:
    """Cases by their full names."""
    parts = range(0, len(names), MOST_NAMED)
    return [("-o", ",".join(names[at : at + MOST_NAMED])) for at in parts]


def read_types(case: str) -> frozenset[str]:
    """What a case has as type, type_a, type_dst and so on, and every other value."""
    return frozenset(re.findall(r"=([^,=\[\]()]+)(?=[,)])", case))


def is_of(case: str, touched: Touched) -> bool:
    """Whether a case is of a touched operation or type."""
    if _op(case) in touched.ops or _stores(case, touched):
        return True
    return not read_types(case).isdisjoint(touched.types)


def _stores(case: str, touched: Touched) -> bool:
    return _op(case) in STORES and not read_types(case).isdisjoint(touched.stored)


def _op(case: str) -> str:
    return case.partition("(")[0]


def _match(types: Collection[str]) -> str:
    return f"=({'|'.join(map(re.escape, sorted(types)))})(,|$)"
