"""../moe/measure2.py with the arms of this folder, quads a model and arms that are given up: measure3.py KEEP MODELS OUT END GPU MODEL[:QUADS][,MODEL...] [stop]

measure2.py lies beside it in the carried folder: samples, quads and rows are its. Rows go to OUT/prefill-GPU.jsonl. An arm (not head or copy) of
which both samples of a quad failed is left out for that model from then on; a model is given up after its second quad that failed otherwise.
MODEL:QUADS takes QUADS for 8, of this process alone; with `stop` it ends when each has its quads.
"""

import random
import sys
import time
from pathlib import Path

import measure2

measure2.ARMS = dict.fromkeys(("dense-27b", "moe-128", "moe-512"), ["b10566", "head", "copy", "nn", "nng"])
measure2.CELLS, measure2.PROMPTS, measure2.REPEATS, measure2.FILE = 2, "2048", "5", "prefill"


def main():
    keep, models, out, end, gpu, words = sys.argv[1:7]
    enough = {word.partition(":")[0]: int(word.partition(":")[2] or 8) for word in words.split(",")}
    stop, dropped, failed, own = sys.argv[7:] == ["stop"], {}, {}, dict.fromkeys(enough, 0)
    out, end, rng = Path(out), float(end) - 4, random.Random()
    took, seen, broken, call = {}, set(), set(), int(time.time())
    with (out / f"{measure2.FILE}-{gpu}.jsonl").open("a") as lines:
        while True:
            counts, last = measure2.count([out / f"{measure2.FILE}-{each}.jsonl" for each in "01"])
            fit = [n for n in enough if n not in broken and time.time() + took.get(n, 60) < end]
            todo = [n for n in fit if (own if stop else counts)[n] < enough[n]]
            name = todo[0] if todo else None if stop else min(fit, key=lambda n: counts[n], default=None)
            if name is None:
                return
            arms = [arm for arm in measure2.ARMS[name] if Path(keep, arm, "ready").exists() and arm not in dropped.get(name, ())]
            if "head" not in arms:
                return
            order, results, took[name], shared = measure2.run_quad(lines, rng, keep, models, name, arms, gpu, call, last, name not in seen)
            seen.add(name)
            own[name] += all(results)
            if not all(results):
                lost = {arm for arm, both in zip(order, zip(results, results[::-1])) if not any(both)} - {"head", "copy"}
                dropped.setdefault(name, set()).update(lost)
                failed[name] = failed.get(name, 0) + (not lost)
                if failed[name] > 1:
                    broken.add(name)
            measure2.end_quad(lines, shared, results, took[name], arms, counts)


main()
