"""From drafts to commits on the tip of the series: found base, then the same rebase in memory.

Where a patch conflicts, vanishes or loses lines on the way, nothing is imported: there is no stack
yet whose decisions could be kept. A new series on the base found has one, and `rebase` parks there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from series.commands import Bench
from series.decisions import Decisions
from series.importing.base import build_stack, pick_best, try_version, try_versions
from series.importing.model import Attempt, Draft
from series.model import Series, Stack
from series.rebase import Plan, plan_rebase
from series.stack import apply_series
from upstream.version import Version

NO_DECISIONS = Decisions(resolutions={}, acknowledged={}, landed={}, dropped={})


@dataclass(frozen=True)
class Search:
    """Every version tried, in order, and the one that served best."""

    attempts: tuple[Attempt, ...]
    best: Attempt


@dataclass(frozen=True)
class Carried:
    """The series' stack `under`, the new steps on it, and the rebase that brought them (None where
    they applied at once)."""

    under: Stack
    new: Stack
    plan: Plan | None

    @property
    def whole(self) -> Stack:
        """The stack of the series with the new topic at its end."""
        return replace(self.under, steps=(*self.under.steps, *self.new.steps))


def stand_on(bench: Bench, series: Series) -> Stack:
    """The series on its base."""
    commit = bench.upstream.provide(series.base)
    return apply_series(bench.git, series, series.base, commit, bench.scratch)


def search_base(
    bench: Bench, drafts: Mapping[str, Draft], own: Stack | None, named: Version | None
) -> Search:
    """Try the series' own tip, then what is imported, newest first; or only the version named."""
    attempts: list[Attempt] = []
    if named is None and own is not None:
        tip = try_version(bench.git, drafts, own.version, own.tip_tree, bench.scratch)
        attempts.append(replace(tip, own=True))
    if not any(attempt.complete for attempt in attempts):
        imported = sorted(bench.upstream.imported(), reverse=True)
        versions = imported if named is None else [named]
        commits = ((version, bench.upstream.provide(version)) for version in versions)
        attempts += try_versions(bench.git, drafts, commits, bench.scratch)
    return Search(tuple(attempts), pick_best(attempts))


def carry(
    bench: Bench, topic: str, drafts: Mapping[str, Draft], own: Stack | None, found: Attempt
) -> Carried:
    """Make commits of the drafts on the base found, and bring them onto the series' tip."""
    scratch: Path = bench.scratch
    if own is not None and found.own:
        return Carried(own, build_stack(bench.git, topic, drafts, own, scratch), None)
    commit = bench.upstream.provide(found.version)
    bare = Stack(found.version, commit, bench.git.tree_of(commit), ())
    made = build_stack(bench.git, topic, drafts, bare, scratch)
    if own is None:
        return Carried(bare, made, None)
    plan = plan_rebase(bench.git, made, own.version, own.tip, NO_DECISIONS, scratch)
    return Carried(own, plan.new, plan)
