"""Which upstream version a conflict began with.

The stack is rebased, in memory, onto every known version on the way, oldest first: the first one
where a patch conflicts in a path is the cause. Looking for the version that changed the lines would
blame the first edit anywhere in a large region. The walk is linear, because where a patch applies
need not be monotone over versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from series.merge import Conflict
from series.rebase import Plan
from upstream.version import Version


@dataclass(frozen=True)
class Cause:
    """One conflict region: the first known version that conflicts there (`version`), the known one
    before it, and upstream's present lines. None: no known version explains it."""

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


@dataclass(frozen=True)
class Beginning:
    """The first version with a conflict, and the known version before it."""

    version: Version
    after: Version | None


def find_causes(
    plan: Plan, versions: Sequence[Version], plan_onto: Callable[[Version], Plan]
) -> dict[str, tuple[Cause, ...]]:
    """The causes of all waiting conflicts of a plan, by patch.

    `versions` are the known ones after the plan's start up to its target, ascending.
    """
    wanted = {o.patch: o.conflict for o in plan.waiting if o.conflict is not None}
    missing = {(patch, path) for patch, conflict in wanted.items() for path in conflict.paths}
    found: dict[tuple[str, str], Beginning] = {}
    before: Version | None = None
    for version in versions:
        if not missing:
            break
        there = plan if version == plan.new.version else plan_onto(version)
        began = missing & _conflicted(there)
        found |= dict.fromkeys(began, Beginning(version, before))
        missing -= began
        before = version
    return {patch: _list_causes(patch, conflict, found) for patch, conflict in wanted.items()}


def _conflicted(plan: Plan) -> set[tuple[str, str]]:
    """(patch, path) of every conflict of a plan, also of those that a resolution mended."""
    return {
        (outcome.patch, path)
        for outcome in plan.outcomes
        if outcome.conflict is not None
        for path in outcome.conflict.paths
    }


def _list_causes(
    patch: str, conflict: Conflict, found: Mapping[tuple[str, str], Beginning]
) -> tuple[Cause, ...]:
    regions = [(region.path, region.ours) for region in conflict.regions]
    with_regions = {path for path, _ in regions}
    regions += [(path, "") for path in conflict.paths if path not in with_regions]
    causes = []
    for path, ours in regions:
        began = found.get((patch, path))
        version, after = (began.version, began.after) if began else (None, None)
        causes.append(Cause(path, version, after, tuple(ours.splitlines())))
    return tuple(causes)
