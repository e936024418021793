"""What an adaptive drafter costs where nothing is accepted: quads against no speculation, on a core or a device.

    python docs/evidence/speculation/length_zero.py SERVER MODELS CORE QUADS OUT
    python docs/evidence/speculation/length_zero.py --device Vulkan0 --target dense-27b.gguf --drafter dflash2-27b.gguf \
        --seconds 240 SERVER[,SERVER] - CORES QUADS OUT

MODELS is what models.py made. A quad is four servers, ABBA or BAAB by a coin; A has no drafter, B is adaptive
with synthetic acceptance 0, after 256 tokens of warm-up. OUT gets one JSON line a drafter: every speed
(tok/s), and the share of no speculation with its 95 % interval (Hodges-Lehmann).

On a device the drafter is a DFlash one beside --target, CORES are as taskset writes them (0-3), as many threads;
it stops after --seconds. With two SERVERs (the stack with and without speculative-deferred-states) each is measured
against its own no speculation, quads in turns, so that both see the same machine.
"""

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, os.fspath(Path(__file__).parents[3]))

from lanes import list_jobs, parse_cores
from upstream.lab import Lab
from validate.speculation.acceptance import PROFILES
from validate.speculation.arms import Drafter
from validate.speculation.client import total_speed
from validate.speculation.contest import Contest
from validate.speculation.measure import Setting, measure_arm
from validate.statistics import hodges_lehmann

LONGEST = 7
NAMES = ("simple p=0", "mtp p=0", "dflash p=0")


def parse():
    parser = argparse.ArgumentParser()
    for name in ("server", "models", "cores", "quads", "out"):
        parser.add_argument(name)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--target", type=Path)
    parser.add_argument("--drafter", type=Path)
    parser.add_argument("--seconds", type=float, default=math.inf)
    return parser.parse_args()


def list_matches(words, cores: list[int]) -> list[tuple[Contest, Setting]]:
    """Contests at acceptance 0 with one slot, for each server."""
    servers = [Path(name) for name in words.server.split(",")]
    if words.device != "cpu":
        contest = Contest(Drafter("draft-dflash", words.drafter), PROFILES[0], tuple(range(LONGEST + 1)))
        one = dict(threads=len(cores), n_predict=256, context=4096, warm_up=256, endless=True)
        return [(contest, Setting(server, words.target, words.device, **one)) for server in servers]
    return [
        (job.contest, job.setting)
        for server in servers
        for job in list_jobs(server, Path(words.models), cores, Path(words.out), (8,), NAMES)
        if job.contest.is_vain and job.setting.slots == 1
    ]


def measure_quad(contest: Contest, setting: Setting, order: str, lab: Lab) -> list[tuple[str, float]]:
    arms = {"A": contest.fixed(0), "B": contest.adaptive()}
    return [
        (arm, total_speed(measure_arm(setting, arms[arm], {"q": ["Go on."]}, lab)["q"])) for arm in order
    ]


def describe(contest: Contest, setting: Setting, quads: list[list[tuple[str, float]]]) -> dict:
    ratios = [sum(math.log(v) * (0.5 if arm == "B" else -0.5) for arm, v in quad) for quad in quads]
    found = hodges_lehmann(ratios, 0.05)
    share = [round(math.exp(each), 4) for each in (found.center, found.low, found.high)]
    return {"contest": contest.name, "server": setting.server.parent.name, "share": share, "quads": quads}


def main() -> None:
    words = parse()
    end = time.monotonic() + words.seconds
    cores = parse_cores(words.cores)
    os.sched_setaffinity(0, set(cores))
    lab = Lab(Path(words.out).absolute().parent / f"length-zero-{words.cores}")
    lab.root.mkdir(parents=True, exist_ok=True)
    rng = Random(1)
    matches = list_matches(words, cores)
    found = [[] for _ in matches]
    longest = 0.0
    for number, order in enumerate(rng.choice(("ABBA", "BAAB")) for _ in range(int(words.quads))):
        for (contest, setting), quads in zip(matches, found, strict=True):
            started = time.monotonic()
            if started + longest > end:
                break
            quads.append(measure_quad(contest, setting, order, lab))
            longest = max(longest, time.monotonic() - started)
            line = describe(contest, setting, quads)
            print(number, line["contest"], line["server"], line["share"], flush=True)
    with Path(words.out).open("a") as file:
        for (contest, setting), quads in zip(matches, found, strict=True):
            if quads:
                file.write(json.dumps(describe(contest, setting, quads)) + "\n")


if __name__ == "__main__":
    main()
