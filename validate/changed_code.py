"""What a step changed in the libraries themselves: functions and tables, not lines of source.

A header that every file includes may change a constant that one function reads. What the compiler
made of it says which: a function whose code is the parent's, and all whose callees' and tables' is,
computes what it did. The others are followed to the operations and tensor types that reach them;
what is reached by neither name stands for all operations. The names are those of ggml (b11549).
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from validate.artifacts import StepBinaries
from validate.object_code import POINTS, TOOLS, Code, Item, read_code
from validate.touched import MATRIX, RENAMED, add_fused

TRAITS, TRAITS_CPU = "type_traits", "type_traits_cpu"
# Formats that activations are converted to: what makes them runs in products of other types too.
ACTIVATIONS = frozenset({"q8_0", "q8_1", "q8_K"})
CONVERTED = (*MATRIX, "FLASH_ATTN_EXT")
# Types that operations compute in: a name with one of them says nothing about which.
PLAIN = frozenset({"f32", "f16", "bf16", "f64", "i8", "i16", "i32", "i64"})
# Read and write files, or convert before anything is computed; checks of their own are on them.
ELSEWHERE = re.compile(
    r"gguf|^ggml_(?:quantize_chunk|validate_row_data|ftype_to_ggml_type|quantize_requires_imatrix)\b"
)
_PAIR = re.compile(r"vec_dot|gem[mv]")  # the first type in such a name is the one of the weights
_ENCODER = re.compile(r"(?<![A-Za-z])quantize_")
_FORWARD = "ggml_compute_forward_"
_LENGTH = re.compile(rf"(\d+){_FORWARD}")
_TYPE_NAME = re.compile(r"[a-z]{1,5}\d\w*")  # some numbers have an explanation in its place
_HEX = re.compile(r"^[0-9a-f ]+$")


@dataclass(frozen=True)
class Changes:
    """Operations and types that changed code is part of, and changed names that may be anything.

    Of the types in `stored` only what writes them changed.
    """

    ops: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    anything: tuple[str, ...] = ()


@dataclass
class _Reach:
    ops: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    anything: set[str] = field(default_factory=set)


def read_changes(
    step: StepBinaries, parent: StepBinaries, target: str, ops: Collection[str]
) -> Changes | None:
    """Compare the ggml libraries of a program; `ops` are those that it knows.

    None when the libraries are of a format that can't be read, or binutils are not there.
    """
    if not all(shutil.which(tool) for tool in TOOLS):
        return None
    pair = []
    for each in (parent, step):
        names = sorted(name for name in each.uses[target] if name.startswith("libggml"))
        pair.append(read_code([each.folder / name for name in names]) if names else None)
    before, after = pair
    return None if before is None or after is None else compare_code(before, after, ops)


def compare_code(before: Code, after: Code, ops: Collection[str]) -> Changes:
    """Follow everything that is not what it was."""
    found = _Reach()
    changed = {*_find_changed(before.functions, after.functions)}
    changed |= {*_find_changed(before.objects, after.objects)}
    types = _list_types(after)
    if types is None or not all(name in before.slots for name in (TRAITS, TRAITS_CPU)):
        return Changes(anything=tuple(sorted(changed)))
    for table in changed & {TRAITS, TRAITS_CPU}:
        _add_types(found, _compare_entries(before.slots[table], after.slots[table], types))
    book = _Book(types, frozenset(ops), _find_users(before, after))
    for name in changed - {TRAITS, TRAITS_CPU}:
        book.follow(name, found)
    return Changes(
        tuple(sorted({*add_fused(found.ops)})),
        tuple(sorted(found.types)),
        tuple(sorted(found.stored - found.types)),
        tuple(sorted(found.anything)),
    )


def _find_changed(
    before: Mapping[str, tuple[Item, ...]], after: Mapping[str, tuple[Item, ...]]
) -> Iterator[str]:
    """Names that were there and are not the same; a new one counts where it is called from."""
    for name, items in before.items():
        now = [item.digest for item in after.get(name, ())]
        if now != [item.digest for item in items]:
            yield name


def _find_users(*codes: Code) -> Mapping[str, set[str]]:
    """Who calls, reads or points to each name."""
    users: defaultdict[str, set[str]] = defaultdict(set)
    for code in codes:
        for part in (code.functions, code.objects):
            for name, items in part.items():
                for item in items:
                    for used in item.refers - {name}:
                        users[used].add(name)
    return users


@dataclass(frozen=True)
class _Book:
    """The types by their numbers, the operations of the tests, and who uses what."""

    types: tuple[str, ...]
    ops: frozenset[str]
    users: Mapping[str, set[str]]

    def follow(self, start: str, found: _Reach) -> None:
        """Add where a changed function or object leads to."""
        waiting, seen = [start], {start}
        while waiting:
            name = waiting.pop()
            users = self.users.get(name, set())
            if ELSEWHERE.search(name):
                continue
            if types := find_types(name, self.types):
                _add_types(found, types, name)
                continue
            if op := find_op(name, self.ops):
                found.ops.add(op)
                users = {user for user in users if find_op(user, self.ops)}
            elif not users or name in (TRAITS, TRAITS_CPU):
                found.anything.add(start)
                return
            waiting += users - seen
            seen |= users


def _add_types(found: _Reach, types: Collection[str], name: str = "") -> None:
    if _ENCODER.search(name) and ACTIVATIONS.isdisjoint(types):
        found.stored |= {*types}
        return
    found.types |= {*types}
    if not _PAIR.search(name) and not ACTIVATIONS.isdisjoint(types):
        found.ops |= {*CONVERTED}
    found.anything |= PLAIN & {*types}


def find_types(name: str, types: Collection[str]) -> tuple[str, ...]:
    """The tensor types after which a function or table is named; none for those of activations."""
    known = sorted({*types} - PLAIN - {""}, key=len, reverse=True)
    pattern = rf"(?<![0-9A-Za-z])(?i:{'|'.join(map(re.escape, known))})(?![0-9a-z])"
    found = [each.lower() for each in re.findall(pattern, name)] if known else []
    spelt = {each.lower(): each for each in known}
    named = tuple(dict.fromkeys(spelt[each] for each in found))
    return named[:1] if _PAIR.search(name) else named


def find_op(name: str, ops: Collection[str]) -> str | None:
    """The operation whose function this is, by the longest beginning that is one."""
    if _FORWARD not in name:
        return None
    start = name.index(_FORWARD)
    length = _LENGTH.search(name)
    end = start + int(length[1]) if length else len(name)
    words = name[start + len(_FORWARD) : end].partition(".")[0].upper().split("_")
    for number in range(len(words), 0, -1):
        op = "_".join(words[:number])
        if (op := RENAMED.get(op, op)) in ops:
            return op
    return None


def _list_types(code: Code) -> tuple[str, ...] | None:
    """The names of the types in the order of their numbers, "" for none; None when unreadable."""
    words = code.slots.get(TRAITS, ())
    names = {at: text for at, word in enumerate(words) if (text := _read_text(word))}
    size = sorted(names)[1] if len(names) > 1 else 0
    if not size or len(words) % size or any(at % size for at in names):
        return None
    return tuple(names.get(at, "") for at in range(0, len(words), size))


def _read_text(word: str) -> str:
    """The type's name that a pointer leads to, in hexadecimal; "" for another word."""
    digits = word.removeprefix(POINTS)
    if digits == word or not _HEX.match(digits):
        return ""
    text = bytes.fromhex(digits).partition(b"\0")[0].decode("ascii", "replace")
    return text if _TYPE_NAME.fullmatch(text) else ""


def _compare_entries(
    before: tuple[str, ...], after: tuple[str, ...], types: tuple[str, ...]
) -> set[str]:
    """The types whose entries are not what they were, new ones included."""
    size = len(after) // len(types)
    places = range(0, len(after), size)  # who takes a type away takes its cases away, which is seen
    old = {at: before[at : at + size] or ("0" * 16,) * size for at in places}
    return {types[at // size] for at in places if old[at] != after[at : at + size]} - {""}
