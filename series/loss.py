"""What a patch lost or newly removes on its way to another version.

A clean merge can still drop upstream's lines or the patch's own
(https://github.com/TheTom/llama-cpp-turboquant/pull/257), so the added and removed lines of each
patch are compared before and after.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unidiff.patch import PatchSet

from upstream.git import Git

Lines = Counter[str]


@dataclass(frozen=True)
class Change:
    """A diff as unidiff reads it: lines with their multiplicity, where hunks start, the paths."""

    added: Lines
    removed: Lines
    starts: tuple[tuple[str, int], ...]
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Loss:
    """Added lines that vanished, and lines that the patch removes now but did not before."""

    vanished: tuple[str, ...]
    newly_removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.vanished or self.newly_removed)

    @property
    def digest(self) -> str:
        """The name of this loss in acknowledgements."""
        text = "\n".join(
            (*(f"+{line}" for line in self.vanished), *(f"-{line}" for line in self.newly_removed))
        )
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def describe(self) -> list[str]:
        """One line of text a lost line."""
        return [f"added line vanished:    {line}" for line in self.vanished] + [
            f"upstream line removed:  {line}" for line in self.newly_removed
        ]


def read_changes(git: Git, pairs: Sequence[tuple[str, str]]) -> list[Change]:
    """Read the diffs between pairs of tree ids."""
    return [parse_change(diff) for diff in git.diff_trees(pairs)]


def parse_change(diff: bytes) -> Change:
    """What a diff adds and removes."""
    added, removed = Counter[str](), Counter[str]()
    starts: list[tuple[str, int]] = []
    patch = PatchSet(diff.decode("utf-8", "surrogateescape"))
    for file in patch:
        for hunk in file:
            starts.append((file.path, hunk.source_start))
            added.update(line.value.rstrip("\n") for line in hunk if line.is_added)
            removed.update(line.value.rstrip("\n") for line in hunk if line.is_removed)
    return Change(added, removed, tuple(starts), tuple(file.path for file in patch))


def find_loss(before: Change, after: Change) -> Loss:
    """Compare a patch before and after; blank lines carry no meaning and are left out."""
    vanished = (before.added - after.added).elements()
    newly = (after.removed - before.removed).elements()
    return Loss(_meaningful(vanished), _meaningful(newly))


def _meaningful(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(line for line in lines if line.strip()))
