"""Which upstream version changed the lines that a conflict is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from series.merge import Conflict, Region
from upstream.git import Git
from upstream.version import Version

TELLING = 20  # characters


@dataclass(frozen=True)
class Cause:
    """A conflict region's history: the first known version whose file no longer holds the base
    text (`version`; None when no known version explains it), and upstream's present lines."""

    path: str
    version: Version | None
    after: Version | None
    upstream_lines: tuple[str, ...]

    def describe(self) -> str:
        """One line for a report."""
        if self.version is None:
            return f"{self.path}: no known version explains it"
        since = f"after {self.after}, " if self.after else ""
        return f"{self.path}: changed upstream {since}at the latest in {self.version}"


def find_causes(
    git: Git, conflict: Conflict, versions: Sequence[tuple[Version, str]]
) -> tuple[Cause, ...]:
    """Walk the known versions (ascending, with commits) for every region of a conflict.

    The walk is linear: where a patch applies need not be monotone over versions.
    """
    regions = conflict.regions or tuple(Region(p, "", "", "") for p in conflict.paths)
    return tuple(_find(git, region, versions) for region in regions)


def _find(git: Git, region: Region, versions: Sequence[tuple[Version, str]]) -> Cause:
    before: Version | None = None
    for version, commit in versions:
        blob = git.read_blob(f"{commit}:{region.path}")
        text = None if blob is None else blob.decode("utf-8", "surrogateescape")
        if text is None or not _holds(text, region):
            return Cause(region.path, version, before, tuple(region.ours.splitlines()))
        before = version
    return Cause(region.path, None, before, tuple(region.ours.splitlines()))


def _holds(text: str, region: Region) -> bool:
    """Whether a file is still as the patch found it: the base text is there and upstream's
    present lines are not. Short texts (a lone brace) are everywhere and prove nothing."""
    arrived = len(region.ours.strip()) >= TELLING and _has_lines(text, region.ours)
    return _has_lines(text, region.base) and not arrived


def _has_lines(text: str, part: str) -> bool:
    """Whether whole lines are in a text: the old line may be the beginning of the new one."""
    return not part or f"\n{part}\n" in f"\n{text}\n"
