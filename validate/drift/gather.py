"""What the map is about: the patches of one or more series, the upstream versions at hand."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from series.landing.alone import isolate_series
from series.landing.history import recall_landed
from series.manifest import load_series
from series.model import Series
from upstream.errors import UsageError
from upstream.git import Git
from upstream.provider import Upstream
from upstream.version import Version
from validate.drift.model import Carried, Known

LOGGER = logging.getLogger("lab")
MOST_TAGS = 40  # of a remote's many tags; the commits around a boundary are walked anyway


def gather_patches(
    git: Git, upstream: Upstream, directories: Sequence[Path], scratch: Path
) -> list[Carried]:
    """The patches of all series and those that landed, as far as history has their files.

    Raises UsageError where there is no patch at all.
    """
    found: list[Carried] = []
    for number, directory in enumerate(directories):
        folder = scratch / f"series-{number}"
        folder.mkdir(exist_ok=True)
        found += _gather_series(git, upstream, load_series(directory), folder)
    if not found:
        raise UsageError(
            f"{', '.join(map(str, directories))} has no patch to look at",
            remedy="name another series with --series DIR, or add a patch: nox -s import -- SOURCE",
        )
    return found


def _gather_series(
    git: Git, upstream: Upstream, series: Series, scratch: Path
) -> Iterator[Carried]:
    records = {record.patch: record for record in series.landed}
    commit = upstream.provide(series.base)
    for alone in isolate_series(git, series, commit, scratch):
        yield Carried(series, alone, records.pop(alone.patch, None))
    for record in records.values():
        recalled = recall_landed(git, series, record, scratch)
        if recalled is None:
            LOGGER.info(
                "%s landed in %s, and its file is not at hand: not on the map",
                record.patch,
                record.version,
            )
        else:
            yield Carried(series, recalled, record)


def gather_versions(
    upstream: Upstream, named: Sequence[str], bases: Sequence[Version], *, fetch: bool
) -> tuple[list[Known], list[Version]]:
    """The versions to look at, ascending, and those that are known but not at hand.

    `named` chooses them; else it is every imported one and HEAD, with a remote also tags from the
    oldest base to HEAD; `fetch` imports every one that is known.
    """
    if named:
        wanted = sorted({upstream.resolve(name) for name in named} | set(bases))
        unknown: list[Version] = []
    else:
        wanted, unknown = _choose(upstream, min(bases), fetch)
    for version in wanted:
        upstream.provide(version)
    held = upstream.imported()
    git = upstream.git
    return [
        Known(version, held[version].commit, git.tree_of(held[version].commit),
              held[version].snapshot is None)
        for version in wanted
    ], unknown  # fmt: skip


def _choose(
    upstream: Upstream, oldest: Version, fetch: bool
) -> tuple[list[Version], list[Version]]:
    head, known = upstream.head(), upstream.versions()
    held = {version for version in upstream.imported() if version <= head} | {head}
    if upstream.provider_name == "remote":
        tags = [version for version in known if oldest <= version <= head]
        chosen = set(tags if fetch else thin(tags, MOST_TAGS)) | held
        return sorted(chosen), []
    if fetch:
        return sorted({*known, *held}), []
    return sorted(held), sorted(set(known) - held)


def thin(versions: Sequence[Version], most: int) -> list[Version]:
    """At most `most` of the versions, evenly spread, the first and the last among them."""
    if len(versions) <= most:
        return list(versions)
    last = len(versions) - 1
    return [versions[round(n * last / (most - 1))] for n in range(most)]
