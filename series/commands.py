"""The commands on a series: rebase with its switches, and status."""

from __future__ import annotations

import argparse
import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from series.cause import find_causes
from series.decisions import Acknowledged, Decisions, Pending, gather_decisions
from series.equivalence import Proof, prove_equivalence
from series.manifest import load_series
from series.model import Dropped, Landed, Series, Stack
from series.park import forget_parked, list_parked, park_conflicts, remove_parked, take_resolution
from series.rebase import Plan, plan_rebase
from series.report import Findings
from series.stack import (
    apply_series,
    clear_ref_locks,
    load_stack,
    save_stack,
    scratch_folder,
)
from series.write import commit_series, finish_interrupted_write, stage_series, verify_staged
from upstream.errors import ConflictWaiting, EnvironmentFault, UsageError
from upstream.git import Git, require_git
from upstream.lab import Lab, hold_lock, open_lab
from upstream.provider import Upstream, open_upstream
from upstream.version import Version

LOGGER = logging.getLogger("lab")
REFUSED_WRITES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}


@dataclass(frozen=True)
class Bench:
    """All that a command on one series works with."""

    lab: Lab
    git: Git
    upstream: Upstream
    series: Series
    pending: Pending
    scratch: Path

    @property
    def state(self) -> Path:
        return self.lab.state(self.series.id)

    @property
    def parked(self) -> Path:
        return self.state / "parked"


@contextmanager
def open_bench(
    args: argparse.Namespace, load: Callable[[Path], Series] = load_series
) -> Iterator[Bench]:
    """Open the lab and the series under the series' lock; finish a write that was cut off.

    `load` reads the series directory, before and after that.
    """
    require_git()
    lab = open_lab()
    probe = load(args.series)
    lock = hold_lock(lab, f"series-{probe.id}")
    with explain_refused_writes(), lock, scratch_folder(lab) as scratch:
        if finish_interrupted_write(lab.state(probe.id)):
            LOGGER.info("finished a --write that was interrupted")
        upstream = open_upstream(lab, args.upstream, args.remote)
        upstream.git.create()
        series = load(args.series)
        clear_ref_locks(upstream.git, series)
        pending = Pending(lab.state(series.id))
        yield Bench(lab, upstream.git, upstream, series, pending, scratch)


@contextmanager
def explain_refused_writes() -> Iterator[None]:
    """A full disk, a quota or a read-only folder is no defect of ours: say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSED_WRITES:
            raise
        raise EnvironmentFault(
            f"cannot write {error.filename or 'a file'}: {error.strerror}",
            remedy="free some space or mend the permissions, then run the same command again: "
            "it goes on where this one stopped",
        ) from error


def current_stack(bench: Bench) -> Stack:
    """The stack that builds and checks are about: the rebased one, else the series on its base."""
    stack = load_stack(bench.git, bench.series)
    if stack is not None:
        return stack
    commit = bench.upstream.provide(bench.series.base)
    stack = apply_series(bench.git, bench.series, bench.series.base, commit, bench.scratch)
    save_stack(bench.git, bench.series, stack)
    return stack


def find_nothing_to_do(bench: Bench, onto: Version, write: bool) -> Stack | None:
    """The recorded stack when it already stands on `onto` and no decision waits to be used."""
    stack = load_stack(bench.git, bench.series)
    fresh = stack is not None and stack.version == onto
    undecided = list_parked(bench.parked) or (bench.state / "decisions.json").exists()
    undecided = undecided or any((bench.state / "resolutions").glob("*"))
    return stack if fresh and not undecided and not (write and bench.series.base != onto) else None


def make_plan(bench: Bench, start: Version, onto: Version) -> tuple[Plan, Decisions]:
    """Apply the series to `start` strictly and work out its rebase onto `onto`."""
    decisions = gather_decisions(bench.series, bench.pending, onto)
    first, second = bench.upstream.provide(start), bench.upstream.provide(onto)
    old = apply_series(bench.git, bench.series, start, first, bench.scratch)
    return plan_rebase(bench.git, old, onto, second, decisions, bench.scratch), decisions


def examine(bench: Bench, plan: Plan, *, park: bool) -> Findings:
    """Park what conflicts and find out which upstream version caused it."""
    parked = park_conflicts(bench.git, plan, bench.parked) if park else []
    versions = [v for v in bench.upstream.imported() if plan.old.version < v <= plan.new.version]

    def plan_onto(version: Version) -> Plan:
        decisions = gather_decisions(bench.series, bench.pending, version)
        commit = bench.upstream.provide(version)
        return plan_rebase(bench.git, plan.old, version, commit, decisions, bench.scratch)

    causes = find_causes(plan, sorted(versions), plan_onto)
    return Findings(plan, {p.patch: p for p in parked}, causes)


def prove(bench: Bench, plan: Plan, decisions: Decisions) -> Proof | None:
    """The proof of equivalence; None while patches wait, for then nothing will move."""
    if plan.waiting:
        return None
    return prove_equivalence(bench.git, plan, decisions, bench.scratch)


def write_series(bench: Bench, plan: Plan, decisions: Decisions, digest: str) -> None:
    """Rewrite the series directory; what was pending is then in it."""
    staged = stage_series(bench.git, bench.series, plan, decisions, bench.pending, bench.scratch)
    verify_staged(bench.git, bench.series, staged, plan, bench.scratch)
    commit_series(bench.series, staged, bench.state, digest)


def continue_rebase(bench: Bench, reason: str) -> list[str]:
    """Take the resolutions of all parked worktrees that are resolved; the patches' names."""
    taken: list[str] = []
    parked = list_parked(bench.parked)
    if not parked:
        raise UsageError("no conflict is parked", remedy="nox -s rebase")
    for one in parked:
        resolution, why = take_resolution(bench.git, one)
        if resolution is None:
            LOGGER.info("%s: %s", one.patch, why)
            continue
        bench.pending.resolve(replace(resolution, reason=reason))
        remove_parked(bench.git, one)
        taken.append(one.patch)
    if not taken:
        raise ConflictWaiting(
            "no parked conflict is resolved yet",
            remedy="remove the conflict markers, then --continue again",
        )
    return taken


def give_reasons(bench: Bench, plan: Plan, patches: list[str], reason: str) -> int:
    """Put `reason` on the fresh resolutions whose losses wait for one; how many it served."""
    served = 0
    by_patch = {o.patch: o for o in plan.waiting if o.loss and o.patch in patches}
    for resolution in bench.pending.resolutions:
        outcome = by_patch.get(resolution.patch)
        if outcome is None or outcome.conflict is None or outcome.conflict.key != resolution.key:
            continue
        digest = outcome.loss.digest
        bench.pending.resolve(replace(resolution, loss=digest, reason=reason))
        served += 1
    return served


def acknowledge_loss(bench: Bench, plan: Plan, patch: str, reason: str) -> None:
    """Accept the loss that `plan` found for a patch."""
    outcome = next((o for o in plan.outcomes if o.patch == patch), None)
    if outcome is None or not outcome.loss:
        raise UsageError(f"{patch} has no loss to acknowledge", remedy="nox -s rebase -- --dry-run")
    loss = outcome.loss
    lines = (*(f"+{x}" for x in loss.vanished), *(f"-{x}" for x in loss.newly_removed))
    bench.pending.acknowledge(Acknowledged(patch, loss.digest, lines, reason))


def record_landed(bench: Bench, patch: str, reference: str, version: Version, why: str) -> None:
    """Remember that upstream has a patch since `version`."""
    bench.pending.land(Landed(topic_of(bench.series, patch), patch, reference, version, why))


def record_dropped(bench: Bench, patch: str, reason: str) -> None:
    """Remember that a patch is given up."""
    bench.pending.drop(Dropped(topic_of(bench.series, patch), patch, reason))


def topic_of(series: Series, patch: str) -> str:
    """The topic of a patch; UsageError for an unknown one."""
    for topic, name in series.order():
        if name == patch:
            return topic.name
    raise UsageError(f"series.toml lists no patch '{patch}'", remedy="nox -s status")


def abort_rebase(bench: Bench) -> None:
    """Forget parked conflicts and every decision of this rebase."""
    forget_parked(bench.git, bench.parked)
    bench.pending.clear()
