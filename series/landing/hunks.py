"""The hunks of a patch, and what became of each upstream.

A hunk is judged by what upstream changed at the hunk's own place since the patch's base, never by
looking for its lines anywhere: the same context elsewhere in a file is no evidence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from unidiff.patch import Line, PatchedFile, PatchSet

from series.landing.model import Fate, HunkFate

MOST = 0.5  # of the added lines: from here on upstream's change counts as this one, modified
_WORD = re.compile(r"\w\w")
_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Group:
    """Neighbouring changed lines of a hunk."""

    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True)
class Hunk:
    """One hunk of a patch; `start` is the first line of `source` (context and removed lines)."""

    path: str
    number: int
    header: str
    start: int
    source: tuple[str, ...]
    target: tuple[str, ...]
    groups: tuple[Group, ...]

    @property
    def added(self) -> tuple[str, ...]:
        return tuple(line for group in self.groups for line in group.added)

    @property
    def removed(self) -> tuple[str, ...]:
        return tuple(line for group in self.groups for line in group.removed)


@dataclass(frozen=True)
class Block:
    """One change upstream: old lines [low, high) became `added`, which begin at line `new`."""

    low: int
    high: int
    new: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True)
class Course:
    """What upstream did to one file since a patch's base: its name now ("" where it is gone) and
    the changes, ascending."""

    path: str
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Place:
    """A hunk's place on another version: the text there, its first line, what upstream changed."""

    text: tuple[str, ...]
    line: int
    blocks: tuple[Block, ...]

    @property
    def gained(self) -> Counter[str]:
        return Counter(line for block in self.blocks for line in block.added)

    @property
    def lost(self) -> Counter[str]:
        return Counter(line for block in self.blocks for line in block.removed)


def read_hunks(diff: bytes) -> tuple[Hunk, ...]:
    """The hunks of a diff with context, numbered from 1 in each file; binary files have none."""
    files = PatchSet(diff.decode("utf-8", "surrogateescape"))
    return tuple(hunk for file in files for hunk in _read_file(file))


def read_blocks(diff: bytes) -> tuple[Block, ...]:
    """The changes of one file from a diff without context."""
    lines = diff.decode("utf-8", "surrogateescape").split("\n")
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        found = _HEADER.match(lines[at])
        at += 1
        if found is None:
            continue
        old, gone, new, come = (1 if n is None else int(n) for n in found.groups())
        removed, at = _take(lines, at, gone)
        added, at = _take(lines, at, come)
        low = old if gone else old + 1  # git names the line before an insertion
        blocks.append(Block(low, low + gone, new if come else new + 1, removed, added))
    return tuple(blocks)


def judge_hunk(hunk: Hunk, course: Course) -> HunkFate:
    """What became of a hunk on the version that `course` leads to."""
    if not course.path:
        gone = bool(hunk.source) and not hunk.target
        return _fate(hunk, hunk.path, Fate.EXACT if gone else Fate.LEFT, 0, float(gone))
    place = find_place(hunk, course)
    share, fate = _weigh(hunk, place)
    elsewhere = 0 if fate is Fate.EXACT else _find_elsewhere(hunk, course, place)
    return _fate(hunk, course.path, fate, place.line, share, elsewhere)


def find_place(hunk: Hunk, course: Course) -> Place:
    """Where the lines of a hunk are on the version that `course` leads to."""
    start, end = hunk.start, hunk.start + len(hunk.source)
    blocks = tuple(b for b in course.blocks if b.low <= end and b.high >= start)
    shift = sum(len(b.added) - len(b.removed) for b in course.blocks if b.high < start)
    text: list[str] = []
    at = start
    for block in blocks:
        text += hunk.source[max(0, at - start) : max(0, block.low - start)]
        text += block.added
        at = max(at, block.high)
    text += hunk.source[max(0, at - start) :]
    line = min([start + shift, *(block.new for block in blocks)])
    return Place(tuple(text), max(1, line), blocks)


def contains(text: Sequence[str], lines: Sequence[str]) -> bool:
    """Whether `lines` stand in `text` one after the other."""
    width = len(lines)
    return any(tuple(text[at : at + width]) == tuple(lines) for at in range(len(text) - width + 1))


def weighty(lines: Iterable[str]) -> list[str]:
    """Lines that say something: not blank, not a lone bracket."""
    return [line for line in lines if _WORD.search(line)]


def _weigh(hunk: Hunk, place: Place) -> tuple[float, Fate]:
    """The share of the hunk that upstream has, and the fate that follows."""
    if not place.blocks:
        return 0.0, Fate.LEFT
    if contains(place.text, _core(hunk)) or _all_groups(hunk, place):
        return 1.0, Fate.EXACT
    added = Counter(weighty(hunk.added) or hunk.added)
    removed = Counter(weighty(hunk.removed) or hunk.removed)
    come, gone = (added & place.gained).total(), (removed & place.lost).total()
    share = (come + gone) / max(1, added.total() + removed.total())
    most = come >= MOST * added.total() if added else gone == removed.total()
    return share, Fate.MODIFIED if most else Fate.LEFT


def _core(hunk: Hunk) -> tuple[str, ...]:
    """The result of a hunk with one line of context on each side."""
    first = _count_same(hunk.source, hunk.target)
    last = _count_same(hunk.source[first:][::-1], hunk.target[first:][::-1])
    return hunk.target[max(0, first - 1) : len(hunk.target) - max(0, last - 1)]


def _count_same(left: Sequence[str], right: Sequence[str]) -> int:
    """How many lines two texts have in common at their start."""
    pairs = zip(left, right, strict=False)
    shorter = min(len(left), len(right))
    return next((n for n, (one, two) in enumerate(pairs) if one != two), shorter)


def _all_groups(hunk: Hunk, place: Place) -> bool:
    """Whether upstream made each change of the hunk, with other changes beside it."""
    gained, lost = place.gained, place.lost
    return bool(hunk.added) and all(
        contains(place.text, group.added)
        and Counter(group.added) <= gained
        and Counter(group.removed) <= lost
        for group in hunk.groups
    )


def _find_elsewhere(hunk: Hunk, course: Course, place: Place) -> int:
    """The line of an upstream change outside the hunk's place that added the hunk's lines."""
    if len(weighty(hunk.added)) < 2:
        return 0
    groups = [group.added for group in hunk.groups if weighty(group.added)]
    others = [block for block in course.blocks if block not in place.blocks]
    found = (b.new for b in others if all(contains(b.added, lines) for lines in groups))
    return next(found, 0)


def _fate(
    hunk: Hunk, path: str, fate: Fate, line: int, share: float, elsewhere: int = 0
) -> HunkFate:
    return HunkFate(path, hunk.number, hunk.header, fate, line, share, elsewhere)


def _take(lines: Sequence[str], at: int, count: int) -> tuple[tuple[str, ...], int]:
    """The next `count` lines of a diff without their signs, and the index after them."""
    end = at + count
    found = tuple(line[1:] for line in lines[at:end])
    while end < len(lines) and lines[end].startswith("\\"):  # no newline at end of file
        end += 1
    return found, end


def _read_file(file: PatchedFile) -> Iterator[Hunk]:
    old = file.source_file if file.source_file != "/dev/null" else file.target_file
    for number, hunk in enumerate(file, 1):
        lines = [line for line in hunk if line.line_type != "\\"]  # no newline at end of file
        source = tuple(line.value.rstrip("\n") for line in lines if not line.is_added)
        target = tuple(line.value.rstrip("\n") for line in lines if not line.is_removed)
        header = f"@@ -{hunk.source_start},{hunk.source_length} "
        header += f"+{hunk.target_start},{hunk.target_length} @@ {hunk.section_header}".rstrip()
        start = hunk.source_start if hunk.source_length else hunk.source_start + 1
        groups = tuple(_group(lines))
        yield Hunk(_bare(old), number, header, start, source, target, groups)


def _group(lines: Iterable[Line]) -> Iterator[Group]:
    removed: list[str] = []
    added: list[str] = []
    for line in lines:
        text = line.value.rstrip("\n")
        if line.is_added:
            added.append(text)
        elif line.is_removed:
            removed.append(text)
        elif removed or added:
            yield Group(tuple(removed), tuple(added))
            removed, added = [], []
    if removed or added:
        yield Group(tuple(removed), tuple(added))


def _bare(name: str) -> str:
    return name[2:] if name[:2] in ("a/", "b/") else name
