"""The synthetic matrix on a machine with many cores: one contest a lane, each lane on a core of its own.

    python docs/evidence/speculation/lanes.py SERVER MODELS LANES SECONDS OUT [LOOKS [CONTESTS]]

SERVER is llama-server of the stack's tip, MODELS what models.py made. Every contest is one of
`nox -s speculation -- --acceptance ...` (same plan, bounds, second run), with one thread. OUT gets one JSON
line a contest as it ends, and at the end the verdicts after Holm over all of them and their second runs.
SECONDS bound it all: who has too little time is open, INCONCLUSIVE. LOOKS are the numbers of quads after which
is looked (8,14,20). CONTESTS: only those whose name begins so (dflash,mtp p=0).
"""

import json
import logging
import math
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, os.fspath(Path(__file__).parents[3]))

from upstream.lab import Lab
from validate.comparison import Plan
from validate.sample_store import open_samples
from validate.speculation.acceptance import PROFILES
from validate.speculation.arms import Drafter
from validate.speculation.contest import (
    CHOOSING_BLOCKS,
    Arena,
    Contest,
    Outcome,
    hold,
    hold_again,
    measure_curve,
)
from validate.speculation.matrix import correct_all, document_outcome, format_matrix
from validate.speculation.measure import Setting

LENGTHS = tuple(range(8))
HOT = 2.0  # at this temperature the twin accepts a tenth
SECOND = 0.25  # of the time is kept for second runs


@dataclass(frozen=True)
class Job:
    contest: Contest
    setting: Setting
    lab: Path
    core: int
    family: int
    waves: int  # contests a core: with more than one there is time for half the choosing
    out: Path
    looks: tuple[int, ...]

    def arena(self, store, budget):
        plan = Plan(
            looks=self.looks,
            control_quads=self.looks[0],
            budget_seconds=max(budget, 1.0),
            family=self.family,
        )
        return Arena(
            self.setting,
            Lab(self.lab),
            store,
            plan,
            choosing=CHOOSING_BLOCKS if self.waves == 1 else 1,
        )


def list_jobs(
    server: Path, models: Path, cores: list[int], out: Path, looks: tuple[int, ...], names: tuple[str, ...]
) -> list[Job]:
    one = Setting(
        server,
        models / "deep.gguf",
        threads=1,
        n_predict=512,
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
            cores[i % len(cores)],
            len(found),
            waves,
            out,
            looks,
        )
        for i, (n, contest, setting) in enumerate(wanted)
    ]


def first(task: tuple[Job, float]) -> Outcome:
    job, seconds = task
    end = time.monotonic() + seconds
    logging.basicConfig(level=logging.WARNING)
    os.sched_setaffinity(0, {job.core})
    job.lab.mkdir(parents=True, exist_ok=True)
    with open_samples(Lab(job.lab)) as store:
        arena = job.arena(store, seconds)
        measure_curve(arena, job.contest)
        plan = replace(arena.plan, budget_seconds=max(end - time.monotonic(), 1.0))
        outcome = hold(replace(arena, plan=plan), job.contest)
    write(job.out, "first", outcome)
    return outcome


def second(task: tuple[Job, float, Outcome]) -> Outcome:
    job, seconds, outcome = task
    os.sched_setaffinity(0, {job.core})
    with open_samples(Lab(job.lab)) as store:
        return hold_again(job.arena(store, seconds), outcome)


def write(out: Path, run: str, outcome: Outcome) -> None:
    document = {"run": run, **document_outcome(outcome)}
    with out.open("a") as file:
        file.write(json.dumps(document) + "\n")


def main() -> None:
    server, models, lanes, seconds, out, *rest = sys.argv[1:]
    looks = tuple(map(int, (rest or ["8,14,20"])[0].split(",")))
    names = tuple(rest[1].split(",")) if len(rest) > 1 else ("",)
    cores = sorted(os.sched_getaffinity(0))[: int(lanes)]
    jobs = list_jobs(Path(server), Path(models), cores, Path(out).absolute(), looks, names)
    end = time.monotonic() + float(seconds)
    share = (1 - SECOND) * float(seconds) / jobs[0].waves
    with ProcessPoolExecutor(len(cores)) as pool:
        outcomes = list(pool.map(first, [(job, share) for job in jobs]))
        left = max(end - time.monotonic(), 10.0)
        corrected = correct_all(outcomes)
        final = list(pool.map(second, [(j, left, o) for j, o in zip(jobs, corrected, strict=True)]))
    for outcome in final:
        write(Path(out), "final", outcome)
    print(format_matrix(final))


if __name__ == "__main__":
    main()
