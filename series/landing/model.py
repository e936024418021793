"""What is known of a patch on one upstream version. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from upstream.version import Version


class State(Enum):
    """How a patch stands against one upstream version, from good to bad."""

    CLEAN = "clean"
    OFFSET = "offset"  # applies, some hunks at other lines
    MOVED = "moved"  # applies, a file was renamed upstream
    LANDED = "landed"  # the whole effect is in the plain tree
    PARTLY = "partly landed"  # some hunks are in the plain tree
    SUPERSEDED = "superseded"  # conflicts, and its drop-check passes on the plain tree
    CONFLICT = "conflict"


class Fate(Enum):
    """What became of one hunk upstream."""

    LEFT = "left"  # not upstream
    EXACT = "exact"  # its result stands in the plain tree, line by line
    MODIFIED = "modified"  # most of its lines stand there, not all


@dataclass(frozen=True)
class HunkFate:
    """One hunk of a patch: `path` is its name on that version, `line` its first line there (0 where
    unknown), `share` how much of what it adds and removes is upstream, 0 to 1."""

    path: str
    number: int
    header: str
    fate: Fate
    line: int = 0
    share: float = 0.0


@dataclass(frozen=True)
class Standing:
    """One cell of the drift map: a patch alone (with the topics it requires) on one version."""

    patch: str
    version: Version
    state: State
    hunks: tuple[HunkFate, ...] = ()
    detail: str = ""
    same_patch_id: str = ""  # upstream commit with the same patch-id, where commits are known
