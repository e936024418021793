"""How fast the engine carries the ladder's series, beside `git rebase --onto` of the same commits.

Both arms run in turns on the same objects. git's arm takes the patch's side in conflicts
(`-X theirs`) because it would stop otherwise; ours replays the stored resolutions and checks every
step for losses.
"""

from __future__ import annotations

import shutil
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from series.decisions import Pending, gather_decisions
from series.manifest import load_series
from series.model import Series, Stack
from series.rebase import Plan, plan_rebase
from series.stack import apply_series, scratch_folder
from upstream.errors import InvalidMeasurement
from upstream.git import Git, open_worktree
from upstream.lab import Lab
from upstream.provider import Upstream
from upstream.version import Version
from validate.figures import Figure

ROUNDS = 7


@dataclass(frozen=True)
class Race:
    """The two arms' common ground."""

    git: Git
    series: Series
    stack: Stack
    onto: Version
    commit: str
    scratch: Path
    checkout: Path


def bench_rebase(lab: Lab, upstream: Upstream, folder: Path, onto: Version) -> list[Figure]:
    """Median seconds of both arms over ROUNDS paired rounds, and their ratio."""
    series = load_series(folder)
    first, last = upstream.provide(series.base), upstream.provide(onto)
    with scratch_folder(lab) as scratch:
        stack = apply_series(upstream.git, series, series.base, first, scratch)
        race = Race(upstream.git, series, stack, onto, last, scratch, scratch / "checkout")
        _prepare_checkout(race)
        pairs = [(_run_ours(race), _run_git(race)) for _ in range(ROUNDS)]
    upstream.git.run("worktree", "prune", "--expire=now")
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(their / our for our, their in pairs)
    what = f"{len(stack.steps)} patches {series.base} -> {onto}, median of {ROUNDS} paired rounds"
    return [
        Figure("rebase of the ladder's series", ours, "s", detail=what),
        Figure("git rebase --onto of the same commits", theirs, "s", detail=what),
        Figure("git rebase / ours", ratio, "times", 5.0, at_least=True, detail=what),
    ]


def _run_ours(race: Race) -> float:
    started = time.monotonic()
    pending = Pending(race.scratch / "no-state")
    decisions = gather_decisions(race.series, pending, race.onto)
    plan = plan_rebase(race.git, race.stack, race.onto, race.commit, decisions, race.scratch)
    seconds = time.monotonic() - started
    _require_carried(plan)
    return seconds


def _require_carried(plan: Plan) -> None:
    if plan.waiting or not plan.new.steps:
        names = ", ".join(outcome.patch for outcome in plan.waiting) or "nothing was carried"
        raise InvalidMeasurement(
            f"the rebase did not run through: {names}", remedy="nox -s tests -- tests/ladder"
        )


def _prepare_checkout(race: Race) -> None:
    shutil.rmtree(race.checkout, ignore_errors=True)
    race.git.run("worktree", "prune", "--expire=now")
    race.git.run("worktree", "add", "--quiet", "--detach", str(race.checkout), race.stack.tip)


def _run_git(race: Race) -> float:
    """git's own rebase in a checkout; going back to the old tip is not timed."""
    _in_checkout(race, "checkout", "--quiet", "--detach", race.stack.tip)
    started = time.monotonic()
    _in_checkout(
        race,
        "rebase",
        "--quiet",
        "-X",
        "theirs",
        "--empty=drop",
        "--onto",
        race.commit,
        race.stack.commit,
    )
    seconds = time.monotonic() - started
    done = _in_checkout(race, "rev-list", "--count", f"{race.commit}..HEAD")
    if int(done) < len(race.stack.steps) - 1:
        raise InvalidMeasurement("git rebase carried fewer commits than the series has")
    return seconds


def _in_checkout(race: Race, *args: str) -> str:
    own = open_worktree(race.checkout)
    assert own is not None, race.checkout
    return own.run(*args, work_tree=race.checkout).text.strip()
