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
    MODIFIED = "landed, modified"  # every hunk is in the plain tree, some not line by line
    PARTLY = "partly landed"  # some hunks are in the plain tree
    SUPERSEDED = "superseded"  # conflicts, and its drop-check passes on the plain tree
    LOSS = "loses lines"  # git merges it, but lines of upstream or of the patch vanish
    CONFLICT = "conflict"


class Fate(Enum):
    """What became of one hunk upstream."""

    LEFT = "left"  # not upstream
    EXACT = "exact"  # its result stands in the plain tree, line by line
    MODIFIED = "modified"  # most of its lines stand there, not all


@dataclass(frozen=True)
class HunkFate:
    """One hunk of a patch: `path` is its name on that version, `line` its first line there (0 where
    unknown), `share` how much of what it adds and removes is upstream, 0 to 1. `elsewhere`: the
    line where upstream added the same lines outside of the hunk's place, 0 for none."""

    path: str
    number: int
    header: str
    fate: Fate
    line: int = 0
    share: float = 0.0
    elsewhere: int = 0


@dataclass(frozen=True)
class Excerpt:
    """One conflict region, cut to what a person reads: upstream's lines and the patch's."""

    path: str
    ours: tuple[str, ...]
    base: tuple[str, ...]
    theirs: tuple[str, ...]


@dataclass(frozen=True)
class Standing:
    """One cell of the drift map: a patch alone (with the topics it requires) on one version.

    `merges`: git merged it without a conflict. `key` names the conflict and `resolution` the stored
    file that resolves it. `warnings` are dangers of a clean merge that text does not show.
    """

    patch: str
    version: Version
    state: State
    hunks: tuple[HunkFate, ...] = ()
    detail: str = ""
    same_patch_id: str = ""  # upstream commit with the same patch-id, where commits are known
    merges: bool = True
    key: str = ""
    resolution: str = ""
    excerpts: tuple[Excerpt, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def landed(self) -> bool:
        """Whether upstream has the whole patch, in its words or in others."""
        return self.state in (State.LANDED, State.MODIFIED)

    @property
    def applies(self) -> bool:
        """Whether the patch can be carried as it is."""
        return self.state in (State.CLEAN, State.OFFSET, State.MOVED) or (
            self.state is State.PARTLY and self.merges
        )
