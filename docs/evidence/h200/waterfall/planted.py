"""Ten runs of 10 %, then ten of 20 %, on cores that are named: planted.py REPO LAB BASE SLOW10 SLOW20 CORES END OUT

As docs/evidence/planted/lanes.py, whose run() is taken: the same seeds (1 to 10), profile and method, but each lane's first run is of
10 % and its second of 20 %. CORES 6,8,10 is a lane each. A run that may not be done by END (time since the epoch) is not begun.
"""
import json
import logging
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

repo, lab, base, slow10, slow20, cores, end, out = sys.argv[1:]
sys.path[:0] = [repo, f"{repo}/docs/evidence/planted"]
from lanes import run as run_one  # noqa: E402

LONGEST = 255.0  # seconds; SECONDS of validate/bench_speed.py bound a run at 300


def work(task):
    seed, core = task
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s core {core}: %(message)s")
    os.sched_setaffinity(0, {core})
    own = Path(lab) / f"lane-{core}"
    (own / "scratch").mkdir(parents=True, exist_ok=True)
    if not (own / "models").exists():
        (own / "models").symlink_to(Path(lab) / "models")
    for percent, folder in ((10, slow10), (20, slow20)):
        if time.time() + LONGEST > float(end):
            print(f"core {core}: no time for {percent} %", flush=True)
            return
        started = time.time()
        try:
            run_one(own, percent, seed, Path(folder), Path(base), Path(out))
        except Exception as fault:  # noqa: BLE001 - the other lanes go on
            print(f"core {core}, {percent} %: {type(fault).__name__}: {fault}", flush=True)
        line = {"core": core, "planted": percent, "seed": seed, "started": started, "ended": time.time()}
        with open(f"{out}.times", "a") as file:
            file.write(json.dumps(line) + "\n")


def main():
    lanes = [(seed + 1, int(core)) for seed, core in enumerate(cores.split(","))]
    with ProcessPoolExecutor(len(lanes)) as pool:
        list(pool.map(work, lanes))


if __name__ == "__main__":
    main()
