"""The synthetic matrix on a machine with many cores: one contest a lane, each lane on a core of its own.

    python docs/evidence/speculation/lanes.py SERVER MODELS CORES SECONDS OUT [LOOKS [CONTESTS]]

SERVER is llama-server of the stack's tip, MODELS what models.py made, CORES as taskset writes them (0-13,16).
Every contest is one of `nox -s speculation -- --acceptance ...` (same plan, bounds, second run), with one thread.
OUT gets one JSON line a contest as it ends, and at the end the verdicts after Holm over all of them and their
second runs. SECONDS bound it all: who has too little time is open, INCONCLUSIVE. LOOKS are the numbers of quads
after which is looked (8,14,20). CONTESTS: only those whose name begins so (dflash,mtp p=0).

The same command again goes on: contests that OUT calls decided are not held again (on another machine too); of
the others the samples in the folders lane-N beside OUT count (on the same machine).
"""

import json
import logging
import math
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, os.fspath(Path(__file__).parents[3]))

from upstream.lab import Lab
from validate.cells import Cell, Judged, Speed
from validate.comparison import Plan
from validate.sample_store import open_samples
from validate.speculation.acceptance import PROFILES
from validate.speculation.arms import Drafter
from validate.speculation.contest import (
    Arena,
    Contest,
    Outcome,
    _load,
    _open_session,
    hold,
    hold_again,
    measure_curve,
)
from validate.speculation.matrix import correct_all, document_outcome, format_matrix
from validate.speculation.measure import Setting

LENGTHS = tuple(range(8))
HOT = 2.0  # at this temperature the twin accepts a tenth
SECOND = 0.15  # of the time is kept for second runs


@dataclass(frozen=True)
class Job:
    contest: Contest
    setting: Setting
    lab: Path
    family: int
    waves: int  # contests a core
    out: Path
    looks: tuple[int, ...]

    def arena(self, store, budget):
        plan = Plan(
            looks=self.looks,
            control_quads=self.looks[0],
            budget_seconds=max(budget, 1.0),
            family=self.family,
        )
        return Arena(self.setting, Lab(self.lab), store, plan, choosing=1)

    @property
    def key(self) -> tuple[str, int]:
        return self.contest.name, self.setting.slots


def list_jobs(
    server: Path, models: Path, cores: list[int], out: Path, looks: tuple[int, ...], names: tuple[str, ...]
) -> list[Job]:
    one = Setting(
        server,
        models / "deep.gguf",
        threads=1,
        n_predict=1024,
        context=2048,
        warm_up=256,
        endless=True,
    )
    simple = Drafter("draft-simple", models / "deep-draft.gguf")
    dflash = Drafter("draft-dflash", models / "deep-dflash.gguf")
    dflash2 = Drafter("draft-dflash", models / "deep-dflash2.gguf", "2")
    twin = Drafter("draft-simple", models / "twin-draft.gguf", "twin")
    found = [
        (Contest(drafter, each, LENGTHS), one)
        for drafter in (simple, Drafter("draft-mtp"), dflash)
        for each in PROFILES
    ]
    found += [(Contest(dflash2, PROFILES[n], LENGTHS), one) for n in (0, 3, 5, 6)]
    found += [(Contest(simple, PROFILES[4], LENGTHS), replace(one, slots=2))]
    found += [(Contest(dflash, PROFILES[4], LENGTHS), replace(one, slots=4))]
    own = replace(one, target=models / "twin.gguf")
    heat = ((0.0,), (HOT,))
    found += [
        (Contest(twin, None, LENGTHS), replace(own, slots=2, temperatures=heat)),
        (Contest(twin, None, LENGTHS), replace(own, slots=4, temperatures=heat * 2)),
        (
            Contest(twin, None, LENGTHS, phases=True),
            replace(own, temperatures=((0.0, HOT),), n_predict=192),
        ),
    ]
    wanted = [(n, *one) for n, one in enumerate(found) if one[0].name.startswith(names)]
    waves = math.ceil(len(wanted) / len(cores))
    return [
        Job(
            contest,
            setting,
            out.parent / f"lane-{n}",
            len(found),
            waves,
            out,
            looks,
        )
        for n, contest, setting in wanted
    ]


def pin(cores) -> None:
    """Each worker takes a core of its own."""
    os.sched_setaffinity(0, {cores.get()})
    logging.basicConfig(level=logging.WARNING)


def first(task: tuple[Job, float, float]) -> Outcome:
    job, seconds, end = task
    started = time.monotonic()
    end = min(end, started + seconds)
    job.lab.mkdir(parents=True, exist_ok=True)
    with open_samples(Lab(job.lab)) as store:
        arena = job.arena(store, seconds)
        curve = measure_curve(arena, job.contest)
        best = 0 if job.contest.is_vain else max(curve, key=curve.__getitem__)
        # the samples of an earlier call count as time spent
        known = _load(store, _open_session(arena, job.contest, best))
        spent = sum(each.seconds for samples in known.values() for each in samples)
        left = max(end - time.monotonic(), 1.0)
        outcome = hold(replace(arena, plan=replace(arena.plan, budget_seconds=spent + left)), job.contest)
    write(job.out, "first", outcome)
    return outcome


def second(task: tuple[Job, float, Outcome]) -> Outcome:
    job, end, outcome = task
    job.lab.mkdir(parents=True, exist_ok=True)
    with open_samples(Lab(job.lab)) as store:
        outcome = hold_again(job.arena(store, end - time.monotonic()), outcome)
    write(job.out, "final", outcome)
    return outcome


def read(out: Path, jobs: list[Job]) -> dict[tuple[str, int], tuple[str, Outcome]]:
    """The decided contests in OUT, and which run decided them."""
    known = {job.key: job for job in jobs}
    found = {}
    for line in out.read_text().splitlines() if out.is_file() else []:
        document = json.loads(line)
        job = known.get((document["contest"], document["slots"]))
        if job and document["state"] not in ("open", "invalid"):
            found[job.key] = (document["run"], revive(job, document))
    return found


def revive(job: Job, document: dict) -> Outcome:
    center, low, high, margin = (
        math.log1p(document[name] / 100) if document[name] is not None else bare
        for name, bare in (("percent", 0.0), ("low", -math.inf), ("high", math.inf), ("margin", 0.0))
    )
    cell = Cell("llama-server", job.contest.name, "t/s", 1 - job.contest.bound)
    judged = Judged(
        cell, Speed(document["verdict"]), center, low, high, document["quads"], margin,
        document["p"], document["reason"],
    )  # fmt: skip
    curve = {int(length): speed for length, speed in document["curve"].items()}
    return Outcome(
        job.contest, job.setting.slots, document["best"], curve, judged,
        document["adaptive"], document["mean length"],
    )  # fmt: skip


def parse_cores(text: str) -> list[int]:
    parts = [part.split("-") for part in text.split(",")]
    return [core for part in parts for core in range(int(part[0]), int(part[-1]) + 1)]


def write(out: Path, run: str, outcome: Outcome) -> None:
    document = {"run": run, **document_outcome(outcome)}
    with out.open("a") as file:
        file.write(json.dumps(document) + "\n")


def run_all(pool, work, tasks: list[tuple]) -> dict[tuple[str, int], Outcome]:
    """A contest that fails is named, the others go on."""
    running = {task[0].key: pool.submit(work, task) for task in tasks}
    found = {}
    for key, future in running.items():
        try:
            found[key] = future.result()
        except Exception as error:
            print(f"{key}: {type(error).__name__}: {error}", flush=True)
    return found


def main() -> None:
    server, models, cores, seconds, out, *rest = sys.argv[1:]
    looks = tuple(map(int, (rest or ["8,14,20"])[0].split(",")))
    names = tuple(rest[1].split(",")) if len(rest) > 1 else ("",)
    end = time.monotonic() + float(seconds)
    every = list_jobs(Path(server), Path(models), parse_cores(cores), Path(out).absolute(), looks, names)
    done = read(Path(out), every)
    jobs = [job for job in every if job.key not in done]
    print(f"{len(done)} of {len(every)} contests decided before", flush=True)
    waves = max(math.ceil(len(jobs) / len(parse_cores(cores))), 1)
    share = (1 - SECOND) * float(seconds) / waves
    queue = multiprocessing.Queue()
    for core in parse_cores(cores):
        queue.put(core)
    with ProcessPoolExecutor(len(parse_cores(cores)), initializer=pin, initargs=(queue,)) as pool:
        held = run_all(pool, first, [(job, share, end) for job in jobs])
        held |= {key: outcome for key, (_, outcome) in done.items()}
        corrected = dict(zip(held, correct_all(list(held.values())), strict=True))
        again = [job for job in every if job.key in held and done.get(job.key, "")[:1] != ("final",)]
        final = run_all(pool, second, [(job, end, corrected[job.key]) for job in again])
    finals = [(held | final)[job.key] for job in every if job.key in held]
    print(format_matrix(finals))


if __name__ == "__main__":
    main()
