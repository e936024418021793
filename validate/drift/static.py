"""What a clean merge hides: constants and ids that shifted, functions with other parameters.

Compared between a patch's base and each version, both plain upstream, so that each tree is read
once for all patches and kept in the lab's results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from threading import Lock

from series.landing.alone import Alone
from upstream.errors import InvalidMeasurement
from upstream.git import Git
from upstream.lab import Lab
from validate.drift.model import Carried
from validate.drift.signatures import Table, list_calls, read_signatures
from validate.ledger.claims import Watched, load_claims, rows_of
from validate.ledger.diff import compare_ledgers
from validate.ledger.model import Change, Ledger
from validate.ledger.read import obtain_ledger
from validate.result_cache import ResultCache

SIGNATURES = 2  # raise when signatures.py reads other facts from the same tree


class StaticBook:
    """The facts of all trees that one map meets; used by several threads."""

    def __init__(self, lab: Lab, git: Git, carried: Sequence[Carried]) -> None:
        self._lab, self._git = lab, git
        self._calls = {c.alone.commit.id: list_calls(_added(c.alone)) for c in carried}
        self._names = tuple(sorted({name for calls in self._calls.values() for name in calls}))
        self._bases = {c.alone.base: git.tree_of(c.alone.base.ref) for c in carried}
        self._watched = {c.series.id: load_claims(c.series).watched for c in carried}
        self._changes: dict[tuple[str, str], tuple[Change, ...]] = {}
        self._locks: dict[str, Lock] = {}
        self._guard = Lock()

    def judge(self, carried: Carried, tree: str) -> tuple[str, ...]:
        """What is red for a patch that merges on a tree, one line each."""
        base = self._bases[carried.alone.base]
        if tree == base:
            return ()
        found = [*self._judge_ledgers(carried, base, tree), *self._judge_calls(carried, base, tree)]
        return tuple(dict.fromkeys(found))

    # -- ledgers --------------------------------------------------------------------------------

    def _judge_ledgers(self, carried: Carried, base: str, tree: str) -> Iterator[str]:
        try:
            before, after = self._ledger(base), self._ledger(tree)
        except InvalidMeasurement:
            return  # no llama.cpp, or one whose ledgers nobody taught us: text is all there is
        for row in self._watched[carried.series.id]:
            if row.patch == carried.alone.patch:
                yield from _judge_watched(row, before, after)
        words = _words(carried.alone)
        for change in self._compare(base, tree, before, after):
            if change.severity == "red" and change.name.split(" ")[-1] in words:
                yield change.text

    def _compare(self, base: str, tree: str, before: Ledger, after: Ledger) -> tuple[Change, ...]:
        if (base, tree) not in self._changes:
            self._changes[base, tree] = compare_ledgers(before, after)
        return self._changes[base, tree]

    def _ledger(self, tree: str) -> Ledger:
        with self._lock(f"ledger {tree}"):
            return obtain_ledger(self._lab, self._git, tree)[0]

    # -- functions ------------------------------------------------------------------------------

    def _judge_calls(self, carried: Carried, base: str, tree: str) -> Iterator[str]:
        before, after = self._signatures(base), self._signatures(tree)
        for name in self._calls[carried.alone.commit.id]:
            old, new = before.get(name, []), after.get(name, [])
            if old and not new:
                yield f"{name}() is no longer declared"
            elif old and not set(old) & set(new):
                yield f"{name}({_cut(old[0])}) is {name}({_cut(new[0])}) now"

    def _signatures(self, tree: str) -> Table:
        names = hashlib.sha256("\n".join(self._names).encode()).hexdigest()
        inputs = {"check": "signatures", "tree": tree, "names": names, "reader": SIGNATURES}
        with self._lock(f"signatures {tree}"):
            return ResultCache(self._lab).obtain(
                inputs, lambda: dict(read_signatures(self._git, tree, self._names))
            )[0]

    def _lock(self, name: str) -> Lock:
        with self._guard:
            return self._locks.setdefault(name, Lock())


def _judge_watched(row: Watched, before: Ledger, after: Ledger) -> Iterator[str]:
    was, now = (rows_of(ledger, row.kind, row.name) for ledger in (before, after))
    if was and was != now:
        yield f"watched {row.kind} {row.name} was {' | '.join(was)}, is {' | '.join(now) or 'gone'}"


def _added(patch: Alone) -> list[str]:
    return [line for hunk in patch.hunks for line in hunk.added]


def _words(patch: Alone) -> set[str]:
    """Names on the patch's own lines: only what it writes or removes, not its surroundings."""
    text = " ".join(line for hunk in patch.hunks for line in (*hunk.added, *hunk.removed))
    return {word for word in "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
            if len(word) > 3}  # fmt: skip


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
