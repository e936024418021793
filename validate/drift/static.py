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
from validate.ledger.model import Ledger
from validate.ledger.read import obtain_ledger, reader_id
from validate.result_cache import Document, ResultCache

SIGNATURES = 2  # raise when signatures.py reads other facts from the same tree


class StaticBook:
    """The facts of all trees that one map meets; used by several threads."""

    def __init__(self, lab: Lab, git: Git, carried: Sequence[Carried]) -> None:
        self._lab, self._git, self._cache = lab, git, ResultCache(lab)
        self._calls = {c.alone.commit.id: list_calls(_added(c.alone)) for c in carried}
        self._names = tuple(sorted({name for calls in self._calls.values() for name in calls}))
        self._bases = {c.alone.base: git.tree_of(c.alone.base.ref) for c in carried}
        self._watched = {c.series.id: load_claims(c.series).watched for c in carried}
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
        facts = self._compare(carried.series.id, base, tree)
        yield from facts["watched"].get(carried.alone.patch, [])
        words = _words(carried.alone)
        yield from (text for name, text in facts["red"] if name.split(" ")[-1] in words)

    def _compare(self, series: str, base: str, tree: str) -> Document:
        """What is red between two trees and the watched rows that moved, by patch."""
        watched = self._watched[series]
        rows = [[row.patch, row.kind, row.name] for row in watched]
        inputs = {"check": "ledger drift", "base": base, "tree": tree, "watched": rows,
                  "reader": reader_id()}  # fmt: skip
        with self._lock(f"{series} {base} {tree}"):
            return self._cache.obtain(inputs, lambda: self._read_pair(watched, base, tree))[0]

    def _read_pair(self, watched: Sequence[Watched], base: str, tree: str) -> Document:
        moved: dict[str, list[str]] = {}
        try:
            before, after = (self._ledger(each) for each in (base, tree))
        except InvalidMeasurement:  # no llama.cpp, or one whose forms validate/ledger does not know
            return {"red": [], "watched": moved}
        for row in watched:
            if text := _judge_watched(row, before, after):
                moved.setdefault(row.patch, []).append(text)
        changes = compare_ledgers(before, after)
        return {"red": [[c.name, c.text] for c in changes if c.severity == "red"], "watched": moved}

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
            return self._cache.obtain(
                inputs, lambda: dict(read_signatures(self._git, tree, self._names))
            )[0]

    def _lock(self, name: str) -> Lock:
        with self._guard:
            return self._locks.setdefault(name, Lock())


def _judge_watched(row: Watched, before: Ledger, after: Ledger) -> str:
    was, now = (rows_of(ledger, row.kind, row.name) for ledger in (before, after))
    if not was or was == now:
        return ""
    return f"watched {row.kind} {row.name} was {' | '.join(was)}, is {' | '.join(now) or 'gone'}"


def _added(patch: Alone) -> list[str]:
    return [line for hunk in patch.hunks for line in hunk.added]


def _words(patch: Alone) -> set[str]:
    """Names on the patch's own lines: only what it writes or removes, not its surroundings."""
    text = " ".join(line for hunk in patch.hunks for line in (*hunk.added, *hunk.removed))
    return {word for word in "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
            if len(word) >= 3}  # fmt: skip


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
