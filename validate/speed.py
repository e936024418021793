"""The speed of one build against another: which programs run, what is reused, what is said.

    measure_speed(bench, Pairing(...), seconds)     cells judged, SLOWER ones confirmed

Every program gets a session of its own (sample_store.py); Holm's correction runs over the cells of
all of them (comparison.py).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from time import time

from upstream.errors import InvalidMeasurement
from upstream.progress import show_progress
from validate import guards, instructions, profiles, speed_tools
from validate.artifacts import StepBinaries
from validate.cells import Cell, Judged, Sample, Speed
from validate.comparison import Known, OnQuad, Plan, Track, compare, confirm, correct
from validate.guards import Placement, Probe, Watch
from validate.machine import machine_fingerprint
from validate.profiles import Profile
from validate.room import Room
from validate.sample_store import SampleStore, SessionKey, StoredSample
from validate.samplers import (
    Arms,
    Job,
    ProcessSampler,
    StoredSampler,
    find_recent,
    make_twin,
    probe,
    run_job,
    watch_stored,
)

LOGGER = logging.getLogger("lab")
ALPHA = 0.05
FIRST_SHARE = 0.6  # a second run that agrees often ends at its first look
Measure = Callable[[StoredSampler, StoredSampler, Plan, Known, OnQuad], list[Judged]]


@dataclass(frozen=True)
class Bench:
    """All that measurements of one run share.

    toolchain: the text that stands for the compiler. budget: seconds for the whole stack.
    ops: names of operators for test-backend-ops, `ops_parameters` a regex over their cases.
    identical_too: measure what is byte-identical as well, to see how often that goes wrong.
    fit: refuses (InvalidMeasurement) what a build says of itself. explain: count the instructions
    of what is SLOWER.
    """

    room: Room
    profile: Profile
    store: SampleStore
    toolchain: str
    budget: float
    seed: int = 1
    placement: Placement = field(default_factory=Placement)
    ops: tuple[str, ...] = ()
    ops_parameters: str = ""
    identical_too: bool = False
    machine: str = field(default_factory=machine_fingerprint)
    fit: Callable[[Probe], None] = lambda probe: None
    explain: bool = True


@dataclass(frozen=True)
class Pairing:
    """Two builds to compare, by the names that messages call them.

    across: of different versions of upstream, which may word what they say of themselves otherwise.
    """

    name: str
    parent_name: str
    step: StepBinaries
    parent: StepBinaries
    across: bool = False

    def is_identical(self, target: str) -> bool:
        """Whether a program runs the same bytes in both."""
        return self.step.fingerprint(target) == self.parent.fingerprint(target)


@dataclass(frozen=True)
class Measured:
    """The cells of a pairing; `cached`: nothing had to be run; `samples` of the first run."""

    cells: tuple[Judged, ...]
    cached: bool
    samples: tuple[Sample, ...] = ()


def measure_speed(bench: Bench, pairing: Pairing, seconds: float) -> Measured:
    """Judge every cell in `seconds`, of which a part is kept for confirming what is SLOWER.

    Cells whose program is byte-identical are IDENTICAL and not run; a failed guard makes the cells
    of its program INVALID. Raises EnvironmentFault only (disk, lock).
    """
    settled, jobs = _sort_jobs(bench, pairing)
    return measure_jobs(bench, pairing, jobs, seconds, settled)


def measure_jobs(
    bench: Bench,
    pairing: Pairing,
    jobs: Sequence[Job],
    seconds: float,
    settled: Sequence[Judged] = (),
) -> Measured:
    """The same for these programs; `settled` are cells that need no run."""
    if not jobs:
        return Measured(tuple(settled), cached=True)
    contest = _Contest(bench, pairing)
    family = sum(len(job.cells) for job in jobs)
    plan = _plan(bench.profile, FIRST_SHARE * seconds / len(jobs), family)
    again = _plan(bench.profile, (1 - FIRST_SHARE) * seconds / len(jobs), family)
    first = [one for job in jobs for one in contest.run(job, plan, 1, _compare(bench, job))]
    corrected = correct(first, ALPHA)
    final = [one for job in jobs for one in _confirm(contest, job, again, corrected)]
    cells = (*settled, *(contest.explain(one) for one in final))
    return Measured(cells, contest.cached, tuple(contest.samples))


def recall_speed(bench: Bench, pairing: Pairing) -> Measured | None:
    """What finished sessions say of a pairing; None where one is missing: nothing is measured."""
    contest = _Contest(bench, pairing)
    _, jobs = _sort_jobs(bench, pairing)
    finished = all(contest.is_finished(job) for job in jobs)
    return measure_speed(bench, pairing, 0.0) if finished else None


def has_work(bench: Bench, pairing: Pairing) -> bool:
    """Whether any program of the profile differs between the two."""
    targets = _targets(bench)
    return any(_lacks(pairing, name) or _differs(bench, pairing, name) for name in targets)


def _differs(bench: Bench, pairing: Pairing, target: str) -> bool:
    return bench.identical_too or not pairing.is_identical(target)


def _targets(bench: Bench) -> list[str]:
    batched = [speed_tools.BATCHED] if bench.profile.parallel else []
    return [speed_tools.BENCH, *batched, *([speed_tools.OPS] if bench.ops else [])]


def _sort_jobs(bench: Bench, pairing: Pairing) -> tuple[list[Judged], list[Job]]:
    """The cells that need no run with their verdicts, and the jobs for the others."""
    settled: list[Judged] = []
    jobs: list[Job] = []
    for target in _targets(bench):
        cell = Cell(target, target, "t/s", bench.profile.minimum[0])
        if lacking := _lacks(pairing, target):
            settled.append(Judged(cell, Speed.INVALID, reason=lacking))
            continue
        try:
            job = _make_job(bench, pairing, target)
        except InvalidMeasurement as error:
            settled.append(Judged(cell, Speed.INVALID, reason=error.what))
            continue
        if _differs(bench, pairing, target):
            jobs.append(job)
        else:
            settled += [Judged(cell, Speed.IDENTICAL) for cell in job.cells]
    return settled, jobs


def _lacks(pairing: Pairing, target: str) -> str:
    for binaries in (pairing.step, pairing.parent):
        if target not in binaries.uses:
            return f"{target} was not built: the source has no such target"
    return ""


def _make_job(bench: Bench, pairing: Pairing, target: str) -> Job:
    model, where, profile = bench.room.model.name, bench.placement, bench.profile
    if target == speed_tools.BENCH:
        return profiles.bench_job(profile, model, where)
    if target == speed_tools.BATCHED:
        return profiles.batched_job(profile, model, where)
    arguments = speed_tools.ops_arguments(where, bench.ops, bench.ops_parameters)
    if not _differs(bench, pairing, target):
        return profiles.ops_job(profile, where, arguments, (",".join(bench.ops),))
    found = discover_ops(bench, pairing.parent, arguments, ", ".join(bench.ops))
    return profiles.ops_job(profile, where, arguments, *found)


def discover_ops(
    bench: Bench, binaries: StepBinaries, arguments: tuple[str, ...], what: str
) -> tuple[list[str], dict[str, str]]:
    """The cases that a build measures and those that it skips: the plan for both arms.

    test-backend-ops has no list of its cases for perf, so it is run once.
    """
    job = profiles.ops_job(bench.profile, bench.placement, arguments, ())
    inputs = {
        "check": "cases of operators",
        "binaries": binaries.fingerprint(speed_tools.OPS),
        "arguments": arguments,
        **bench.room.launch.inputs,
    }

    def produce() -> dict[str, object]:
        guards.require_own_binaries(binaries, job.target)
        LOGGER.info("%s: finding the cases of %s", job.target, what)
        _, table = run_job(bench.room, job, binaries)
        guards.require_cases(job.target, {*table.cases, *table.skipped}, table.cases, table.skipped)
        return {"cases": list(table.cases), "skipped": dict(table.skipped)}

    found, _ = bench.room.cache.obtain(inputs, produce)
    return list(found["cases"]), dict(found["skipped"])


def _plan(profile: Profile, seconds: float, family: int) -> Plan:
    return Plan(
        looks=profile.looks,
        alpha=ALPHA,
        control_quads=profile.control_quads,
        budget_seconds=seconds,
        family=family,
    )


def _compare(bench: Bench, job: Job) -> Measure:
    def measure(
        sampler: StoredSampler, control: StoredSampler, plan: Plan, known: Known, on_quad: OnQuad
    ) -> list[Judged]:
        rng = Random(bench.seed)  # noqa: S311 (coins of an experiment, no secret)
        return compare(job.cells, sampler, control, plan, rng, known=known, on_quad=on_quad)

    return measure


def _confirm(contest: _Contest, job: Job, plan: Plan, judged: Sequence[Judged]) -> list[Judged]:
    """The job's cells, those that are SLOWER measured a second time."""
    mine = [one for one in judged if one.cell in job.cells]
    slower = tuple(one.cell for one in mine if one.verdict is Speed.SLOWER)
    if not slower:
        return mine

    def measure(
        sampler: StoredSampler, control: StoredSampler, plan: Plan, known: Known, on_quad: OnQuad
    ) -> list[Judged]:
        rng = Random(contest.bench.seed)  # noqa: S311
        return confirm(mine, sampler, control, plan, rng, known=known, on_quad=on_quad)

    return contest.run(job, plan, 2, measure)


class _Contest:
    """Two builds on one machine: opened once, then one session a program and run."""

    def __init__(self, bench: Bench, pairing: Pairing) -> None:
        self.bench = bench
        self.pairing = pairing
        self.cached = True
        self.samples: list[Sample] = []
        self._twin: StepBinaries | None = None

    def run(self, job: Job, plan: Plan, run: int, measure: Measure) -> list[Judged]:
        """The verdicts of a session: those of a finished one, or measured now.

        An INVALID session is set aside: the next run begins anew. One that ran out of time stays
        open: a run with more time for it goes on (at the cost of one more look).
        """
        session = self.bench.store.open_session(self._key(job, run))
        judged = self._settle(job, plan, run, session, measure)
        if run == 1:
            stored = self.bench.store.samples(session)
            self.samples += [each.sample for each in stored if each.track == "step"]
        return judged

    def is_finished(self, job: Job) -> bool:
        """Whether the sessions that judge this program are in the store."""
        first = self.bench.store.recall(self._key(job, 1))
        if first is None or all(one.verdict is not Speed.SLOWER for one in first):
            return first is not None
        return self.bench.store.recall(self._key(job, 2)) is not None

    def _settle(
        self, job: Job, plan: Plan, run: int, session: int, measure: Measure
    ) -> list[Judged]:
        store = self.bench.store
        if (found := store.verdicts(session)) is not None:
            return found
        try:
            judged = self._measure(job, plan, run, session, measure)
        except InvalidMeasurement as error:
            self.cached = False
            judged = [Judged(cell, Speed.INVALID, reason=error.what) for cell in job.cells]
        if any(one.verdict is Speed.INVALID for one in judged):
            store.set_aside(session)
        elif all(_is_settled(one, plan) for one in judged):
            store.finish(session, judged)
        return judged

    def explain(self, judged: Judged) -> Judged:
        """Add the instruction counts to what is SLOWER; they explain, they do not judge."""
        if judged.verdict is not Speed.SLOWER or judged.cell.tool != speed_tools.BENCH:
            return judged
        if not self.bench.explain:
            return judged
        said = instructions.explain(self.bench.room, self.pairing.step, self.pairing.parent)
        return replace(judged, reason=f"{judged.reason}; {said}")

    def _measure(
        self, job: Job, plan: Plan, run: int, session: int, measure: Measure
    ) -> list[Judged]:
        twin = self._open(job)
        stored = self.bench.store.samples(session)
        watch = watch_stored(job, stored)
        arms: Arms = {"A": self.pairing.parent, "B": self.pairing.step}
        control: Arms = {"A": self.pairing.parent, "B": twin}
        samplers = (
            self._sampler(job, arms, watch, session, "step", stored),
            self._sampler(job, control, watch, session, "control", stored),
        )
        known: Known = {
            track: [s.sample for s in stored if s.track == track] for track in ("step", "control")
        }
        total = plan.looks[-1] + plan.control_quads
        LOGGER.info(self._announce(job, plan, run))
        with show_progress(f"{self.pairing.name}: {job.target}", total) as meter:
            return measure(*samplers, plan, known, lambda track, samples: meter.advance(1))

    def _announce(self, job: Job, plan: Plan, run: int) -> str:
        again = ", again to confirm" if run > 1 else ""
        names = job.names if len(job.names) <= 4 else (*job.names[:3], f"{len(job.names) - 3} more")
        return (
            f"speed of {self.pairing.name} against {self.pairing.parent_name}{again}: {job.target} "
            f"({', '.join(names)}), at most {plan.budget_seconds or 0:.0f} s"
        )

    def _open(self, job: Job) -> StepBinaries:
        """Check both builds once, and the program's own files; the parent's copy."""
        pair = (self.pairing.parent, self.pairing.step)
        if self._twin is None:
            room, where, limit = self.bench.room, self.bench.placement, self.bench.profile.limit
            said = [probe(room, each, where, limit) for each in pair]
            for each in said:
                self.bench.fit(each)
            across = self.pairing.across
            parent, step = (each.common_facts if across else each.facts for each in said)
            guards.require_same_facts(speed_tools.BENCH, parent, step, "the parent and the step")
            self._twin = make_twin(self.bench.room.lab, self.pairing.parent)
        for binaries in (*pair, self._twin):
            guards.require_own_binaries(binaries, job.target)
        return self._twin

    def _sampler(
        self,
        job: Job,
        arms: Arms,
        watch: Watch,
        session: int,
        track: Track,
        stored: Sequence[StoredSample],
    ) -> StoredSampler:
        def write(samples: Mapping[str, Sample]) -> None:
            self.cached = False
            self.bench.store.add(session, track, list(samples.values()))

        inner = ProcessSampler(self.bench.room, job, arms, watch)
        return StoredSampler(inner, write, find_recent(stored, track, time()))

    def _key(self, job: Job, run: int) -> SessionKey:
        bench, (parent, step) = self.bench, (self.pairing.parent, self.pairing.step)
        setting = {
            "target": job.target,
            "arguments": job.arguments,
            "cells": [(cell.name, cell.minimum) for cell in job.cells],
            "looks": bench.profile.looks,
            "control": bench.profile.control_quads,
        }
        return SessionKey(
            parent=parent.key,
            step=step.key,
            binaries=(parent.fingerprint(job.target), step.fingerprint(job.target)),
            toolchain=bench.toolchain,
            machine=bench.machine,
            model=bench.room.model.sha256,
            setting=json.dumps(setting, sort_keys=True),
            seed=bench.seed,
            run=run,
        )


def _is_settled(judged: Judged, plan: Plan) -> bool:
    return judged.verdict is not Speed.INCONCLUSIVE or judged.quads == plan.looks[-1]
