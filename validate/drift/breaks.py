"""What broke a patch: the first version after its base, the commit, upstream's lines."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

from series.cause import Cause
from series.landing.alone import Alone
from series.landing.classify import classify_patch
from series.landing.ground import Ground
from series.landing.hunks import Block, find_place
from series.landing.model import Standing
from series.landing.patch_ids import find_same
from upstream.git import Git
from validate.drift.model import Break, Carried, Cell, Commit, Known

SHOWN = 60  # lines of upstream's change a file
_PULL = re.compile(r"\(#(\d+)\)\s*$")


def find_break(
    git: Git, carried: Carried, cells: Sequence[Cell], known: Sequence[Known]
) -> Break | None:
    """The first version after the base that is red; None where there is none."""
    before: Known | None = None
    for cell, version in zip(cells, known, strict=True):
        if version.version > carried.alone.base and cell.red:
            return _explain(git, carried.alone, cell, before, version)
        if version.version >= carried.alone.base:
            before = version
    return None


def _explain(git: Git, patch: Alone, cell: Cell, good: Known | None, bad: Known) -> Break:
    reason = "; ".join((cell.standing.detail or cell.standing.state.value, *cell.static))
    after = good.version if good else None
    if good is None:
        return Break(bad.version, None, reason, ())
    commit = None
    if good.true_commit and bad.true_commit and not cell.static:
        commit = find_commit(git, patch, good, bad)
    causes = tuple(find_lines(git, patch, good, bad, cell.standing))
    return Break(bad.version, after, reason, causes, commit)


def find_commit(git: Git, patch: Alone, good: Known, bad: Known) -> Commit | None:
    """The first first-parent commit between two versions where the patch no longer applies.

    Walks forward: where a patch applies need not be monotone.
    """
    for name in git.walk(good.commit, bad.commit):
        standing = classify_patch(patch, Ground(git, bad.version, git.tree_of(name)))
        if not (standing.applies or standing.landed):
            return describe_commit(git, name)
    return None


def describe_commit(git: Git, name: str) -> Commit:
    """A commit as a person names it."""
    found = git.read_commit(name)
    seconds = int(found.author.date.split()[0])
    day = time.strftime("%Y-%m-%d", time.gmtime(seconds))
    pull = _PULL.search(found.subject)
    return Commit(found.id, day, found.subject, int(pull[1]) if pull else 0)


def find_lines(
    git: Git, patch: Alone, good: Known, bad: Known, standing: Standing
) -> Iterator[Cause]:
    """What upstream changed between two versions at the places of the hunks, a file at a time."""
    old, new = Ground(git, good.version, good.tree), Ground(git, bad.version, bad.tree)
    courses = old.courses(patch.before, patch.paths)
    there = {path: course.path for path, course in courses.items() if course.path}
    steps = new.courses(good.tree, there.values())
    for path, name in there.items():
        if not steps[name].path:
            yield Cause(name, bad.version, good.version, (f"{name} is gone",))
            continue
        places = [find_place(hunk, courses[path]) for hunk in patch.hunks if hunk.path == path]
        spans = [(place.line, place.line + len(place.text)) for place in places]
        hits = [b for b in steps[name].blocks if _meets(b, spans)]
        lines = [line for block in hits for line in _show(block)]
        if lines:
            yield Cause(name, bad.version, good.version, _cut(lines))


def find_patch_id(git: Git, carried: Carried, known: Sequence[Known]) -> tuple[str, str]:
    """The signal of the patch-ids in words, and the commit; ("", "") where there are no commits."""
    true = [each for each in known if each.true_commit]
    start = next((each for each in true if each.version == carried.alone.base), None)
    if start is None or not true or true[-1].version <= start.version:
        return "", ""
    end = true[-1]
    same = find_same(git, carried.alone, start.commit, end.commit)
    if not same:
        return f"no commit from {start.version} to {end.version} has it", ""
    commit = describe_commit(git, same)
    return f"{same[:12]} of {commit.date}: {commit.subject}", same


def _meets(block: Block, spans: Sequence[tuple[int, int]]) -> bool:
    return any(block.low <= end and block.high >= start for start, end in spans)


def _show(block: Block) -> list[str]:
    return [*(f"-{line}" for line in block.removed), *(f"+{line}" for line in block.added)]


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    more = [f"({len(lines) - SHOWN} more lines)"] if len(lines) > SHOWN else []
    return (*lines[:SHOWN], *more)
