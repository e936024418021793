"""length_zero.py of the repository, with a warm-up and a file of the quads that is written as they end: zero.py REPO ARGUMENTS...

ARGUMENTS are those of length_zero.py, the last is OUT. Before the first quad two servers of the adaptive arm and one without a drafter run and
are not kept: they fill the driver's shader cache. OUT.quads gets a JSON line a quad (and the warm-up, warm true), flushed; a server that
fails is tried again once.
"""
import json
import sys
import time
from pathlib import Path

repo = sys.argv.pop(1)
sys.path[:0] = [repo, f"{repo}/docs/evidence/speculation"]
import length_zero  # noqa: E402
from upstream.lab import Lab  # noqa: E402

measure, matches = length_zero.measure_quad, length_zero.list_matches
out = sys.argv[-1]


def keep(contest, setting, order, lab, warm=False):
    started = time.time()
    try:
        quad = measure(contest, setting, order, lab)
    except Exception as fault:  # noqa: BLE001 - one more try, then it ends
        print(f"{order}: {type(fault).__name__}: {str(fault)[:600]}", flush=True)
        quad = measure(contest, setting, order, lab)
    line = {"contest": contest.name, "server": setting.server.parent.name, "warm": warm, "quad": quad, "started": started, "seconds": time.time() - started}
    with open(f"{out}.quads", "a") as file:
        file.write(json.dumps(line) + "\n")
    return quad


def list_warm(words, cores):
    found = matches(words, cores)
    lab = Lab(Path(out).absolute().parent / f"length-zero-{words.cores}")
    for contest, setting in found:
        print("warm-up", keep(contest, setting, "BBA", lab, warm=True), flush=True)
    return found


length_zero.measure_quad, length_zero.list_matches = keep, list_warm
length_zero.main()
