"""What an adaptive drafter costs where nothing is accepted: quads against no speculation, on one core.

    python docs/evidence/speculation/length_zero.py SERVER MODELS CORE QUADS OUT

MODELS is what models.py made. A quad is four servers, ABBA or BAAB by a coin; A has no drafter, B is adaptive
with synthetic acceptance 0, after 256 tokens of warm-up. OUT gets one JSON line a drafter: every speed
(tok/s), and the share of no speculation with its 95 % interval (Hodges-Lehmann).
"""

import json
import math
import os
import sys
from pathlib import Path
from random import Random

sys.path.insert(0, os.fspath(Path(__file__).parents[3]))

from lanes import list_jobs
from validate.speculation.client import total_speed
from validate.speculation.measure import measure_arm
from validate.statistics import hodges_lehmann
from upstream.lab import Lab


def main() -> None:
    server, models, core, quads, out = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    lab = Lab(Path(out).absolute().parent / f"length-zero-{core}")
    lab.root.mkdir(parents=True, exist_ok=True)
    rng = Random(1)
    names = ("simple p=0", "mtp p=0", "dflash p=0")
    for job in list_jobs(Path(server), Path(models), [int(core)], Path(out), (8,), names):
        if not job.contest.is_vain or job.setting.slots > 1:
            continue
        arms = {"A": job.contest.fixed(0), "B": job.contest.adaptive()}
        speeds, ratios = [], []
        for quad in range(int(quads)):
            order = rng.choice(("ABBA", "BAAB"))
            took = [
                (arm, total_speed(measure_arm(job.setting, arms[arm], {"q": ["Go on."]}, lab)["q"]))
                for arm in order
            ]
            speeds.append(took)
            ratios.append(sum(math.log(v) * (0.5 if arm == "B" else -0.5) for arm, v in took))
        found = hodges_lehmann(ratios, 0.05)
        share = [round(math.exp(each), 4) for each in (found.center, found.low, found.high)]
        line = {"contest": job.contest.name, "share": share, "quads": speeds}
        with Path(out).open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(job.contest.name, share, flush=True)


if __name__ == "__main__":
    main()
