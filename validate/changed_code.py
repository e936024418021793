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
from validate.initialised import INITIALISERS, leaves_the_same
from validate.object_code import POINTS, TOOLS, Code, Item, read_code
from validate.touched import MATRIX, RENAMED, add_fused

TRAITS, TRAITS_CPU, OP_NAMES = "type_traits", "type_traits_cpu", "GGML_OP_NAME"
# They stand for operations that the tests call by other names.
NO_OPS = frozenset({"NONE", "UNARY", "GLU"})
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
_OP_NAME = re.compile(r"[A-Z][A-Z0-9_]+")
_BOUND = re.compile(r"(cmp\w* +\$)0x([0-9a-f]+)(?=,)")
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
    if before is None or after is None:
        return None
    alike = {
        name
        for name in INITIALISERS
        if name in {*_find_changed(before, after)} and leaves_the_same(name, before, after)
    }
    return compare_code(before, after, ops, alike)


def compare_code(
    before: Code, after: Code, ops: Collection[str], alike: Collection[str] = ()
) -> Changes:
    """Follow everything that is not what it was, but for names that are known to do the same."""
    found = _Reach()
    changed = {*_find_changed(before, after)} - {*alike}
    types = _list_types(after)
    if types is None or _list_types(before) is None:
        return Changes(anything=tuple(sorted(changed)))
    for table in changed & {TRAITS, TRAITS_CPU}:
        _add_types(found, _compare_entries(before.words(table), after.words(table), types))
    known = {*ops, *_list_ops(after)} - NO_OPS
    book = _Book(types, frozenset(known), _find_users(before, after))
    for name in changed - {TRAITS, TRAITS_CPU}:
        book.follow(name, found)
    return Changes(
        tuple(sorted({*add_fused(found.ops)})),
        tuple(sorted(found.types)),
        tuple(sorted(found.stored - found.types)),
        tuple(sorted(found.anything)),
    )


def _find_changed(before: Code, after: Code) -> Iterator[str]:
    """Names that were there and are not the same; a new one counts where it is called from."""
    counts = len(_list_types(before) or ()), len(_list_types(after) or ())
    for old, new in ((before.functions, after.functions), (before.objects, after.objects)):
        for name, items in old.items():
            now = new.get(name, ())
            pairs = zip(items, now, strict=False)
            if len(items) != len(now) or not all(_is_same(*pair, counts) for pair in pairs):
                yield name


def _is_same(before: Item, after: Item, counts: tuple[int, int]) -> bool:
    """Whether nothing differs but the number of types, where a number is compared with it."""
    if before.lines == after.lines:
        return True
    pairs = zip(before.lines, after.lines, strict=False)
    return len(before.lines) == len(after.lines) and all(
        old == new or _name_count(old, counts[0]) == _name_count(new, counts[1])
        for old, new in pairs
    )


def _name_count(line: str, count: int) -> str:
    found = _BOUND.match(line)
    less = count - int(found[2], 16) if found else -1
    return f"{found[1]}types-{less}{line[found.end() :]}" if found and less in (0, 1) else line


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
                users = {user for user in users if self._has_name(user)}
            elif op := find_op(name, self.ops):
                found.ops.add(op)
                users = {user for user in users if self._has_name(user)}
            elif not users or name in (TRAITS, TRAITS_CPU):
                found.anything.add(start)
                return
            waiting += users - seen
            seen |= users

    def _has_name(self, user: str) -> bool:
        """Whether it is called after an operation or a type; the type tables are for all types."""
        return bool(find_op(user, self.ops) or find_types(user, self.types))


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
    words = code.words(TRAITS)
    names = {at: text for at, word in enumerate(words) if (text := _read_text(word))}
    size = sorted(names)[1] if len(names) > 1 else 0
    if not size or len(words) % size or any(at % size for at in names):
        return None
    return tuple(names.get(at, "") for at in range(0, len(words), size))


def _list_ops(code: Code) -> list[str]:
    return [text for word in code.words(OP_NAMES) if (text := _read_text(word, _OP_NAME))]


def _read_text(word: str, pattern: re.Pattern[str] = _TYPE_NAME) -> str:
    """The name that a pointer leads to, in hexadecimal; "" for another word or name."""
    digits = word.removeprefix(POINTS)
    if digits == word or not _HEX.match(digits):
        return ""
    text = bytes.fromhex(digits).partition(b"\0")[0].decode("ascii", "replace")
    return text if pattern.fullmatch(text) else ""


def _compare_entries(
    before: tuple[str, ...], after: tuple[str, ...], types: tuple[str, ...]
) -> set[str]:
    """The types whose entries are not what they were, new ones included."""
    size = len(after) // len(types)
    places = range(0, len(after), size)  # who takes a type away takes its cases away, which is seen
    old = {at: before[at : at + size] or ("0" * 16,) * size for at in places}
    return {types[at // size] for at in places if old[at] != after[at : at + size]} - {""}
