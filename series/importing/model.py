"""The values of an import: pieces as found, drafts as understood, attempts on versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from upstream.git import Person
from upstream.version import Version

Kind = Literal["folder", "mbox", "range", "quilt"]


@dataclass(frozen=True)
class Piece:
    """One patch as it was found: `origin` is what messages call it, `stem` what its name is made
    from ("": from its subject), `modified` the file's time of last change in seconds since 1970,
    `strip` the leading path parts to leave out, where a quilt series says so."""

    origin: str
    stem: str
    raw: bytes
    modified: int
    strip: int | None = None


@dataclass(frozen=True)
class Draft:
    """A patch understood: what its commit will say, and its diff, not yet applied to anything."""

    origin: str
    stem: str
    author: Person
    message: str
    diff: bytes
    strip: int = 1

    @property
    def subject(self) -> str:
        return self.message.split("\n", 1)[0]


@dataclass(frozen=True)
class Intake:
    """Everything a source holds, in order, and remarks on what was left out."""

    kind: Kind
    drafts: tuple[Draft, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Defaults:
    """What a patch gets that does not say it itself; an empty `date` is the file's own. `strip` is
    the number of leading path parts to leave out, where a quilt series does not say it."""

    author: tuple[str, str] | None
    date: str = ""
    strip: int = 1


@dataclass(frozen=True)
class Failure:
    """A patch of the stack that does not apply, and git's reason."""

    name: str
    why: str


@dataclass(frozen=True)
class Attempt:
    """The stack tried on one upstream version; a patch that fails is left out and the rest go on.

    `own` marks the series' own tip: its base with all its patches.
    """

    version: Version
    total: int
    failures: tuple[Failure, ...]
    own: bool = False

    @property
    def applied(self) -> int:
        return self.total - len(self.failures)

    @property
    def complete(self) -> bool:
        return not self.failures
