"""Which cases of test-backend-ops run three times and which once, as arguments of the program.

Three times: those of the operations and tensor types that a step changes, and those that it adds.
Where it changes something that may be part of any operation, all others run once more: what breaks
them all alike, always, does not take three draws of the inputs to be seen.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from validate.touched import Touched

MOST_NAMED = 200  # cases in one argument, which the kernel limits to 128 KiB
GROUP = 1500  # cases, by whole operations, in one run: what an interruption loses at most
Words = tuple[str, ...]


@dataclass(frozen=True)
class Selection:
    """The arguments of each program to start, for all cases (once) and for those of the step.

    `cases` are the latter by name.
    """

    everything: tuple[Words, ...]
    thrice: tuple[Words, ...]
    cases: frozenset[str]

    def list_runs(self, number: int) -> tuple[Words, ...]:
        """What a run, counted from 0, is made of; the first of all cases is one of three."""
        return self.everything if self.everything and not number else self.thrice


def select_cases(touched: Touched, supported: Collection[str], new: Collection[str]) -> Selection:
    """Divide the supported cases, given in the program's own order."""
    cases = _group_by_op(supported)
    ops = tuple(op for op in cases if op in touched.ops)
    thrice: list[Words] = [("-o", ",".join(ops))] if ops else []
    thrice += _select_types(touched.types, {op: cases[op] for op in cases if op not in ops})
    mine = [name for name in supported if _is_of(name, touched)]
    rest = sorted({*supported} & {*new} - {*mine})
    thrice += select_names(rest)
    everything = tuple(_divide(cases)) if touched.unknown else ()
    return Selection(everything, tuple(thrice), frozenset({*mine, *rest}))


def select_names(names: Sequence[str]) -> list[Words]:
    """Cases by their full names."""
    parts = range(0, len(names), MOST_NAMED)
    return [("-o", ",".join(names[at : at + MOST_NAMED])) for at in parts]


def read_types(case: str) -> frozenset[str]:
    """What a case has as type, type_a, type_dst and so on, and every other value."""
    return frozenset(re.findall(r"=([^,=\[\]()]+)(?=[,)])", case))


def _select_types(types: Sequence[str], cases: Mapping[str, list[str]]) -> Iterator[Words]:
    wanted = {*types}
    ops = [op for op, mine in cases.items() if any(wanted & read_types(name) for name in mine)]
    if ops:
        # -o and -p both have to fit
        yield "-o", ",".join(ops), "-p", f"=({'|'.join(map(re.escape, types))})(,|$)"


def _is_of(case: str, touched: Touched) -> bool:
    return _op(case) in touched.ops or not read_types(case).isdisjoint(touched.types)


def _divide(cases: Mapping[str, list[str]]) -> Iterator[Words]:
    group: list[str] = []
    number = 0
    for op, mine in cases.items():
        if group and number + len(mine) > GROUP:
            yield "-o", ",".join(group)
            group, number = [], 0
        group.append(op)
        number += len(mine)
    if group:
        yield "-o", ",".join(group)


def _group_by_op(names: Collection[str]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        found[_op(name)].append(name)
    return dict(found)


def _op(case: str) -> str:
    return case.partition("(")[0]
