"""Interleaved llama-bench samples of prefill on the KHR path: measure2.py KEEP MODELS OUT END GPU MODEL[,MODEL...]

END is a time since the epoch. A sample is one process; a quad is a random order of the arms followed by its reverse,
so that a linear drift cancels in every difference. `copy` holds the bytes of `head`: the A/A arm. One process of
`head` a model goes first and is not kept. Models in order until each has ENOUGH quads (those of both GPUs counted), then the one with
the fewest. A quad with a process that failed, measured other cells or took another path is written as incomplete and
not evaluated. An arm whose binary is not there (yet) is left out; the quad says which it had.
"""
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

KHR = {"GGML_VK_DISABLE_COOPMAT2": "1"}
MOE = ["b10566", "head", "copy", "f1", "f2", "f3", "f4", "f5"]
ARMS = {"dense": ["b10566", "head", "copy", "f5"], "moe-128": MOE, "moe-512": MOE}
ENOUGH, CELLS, CORES = {"dense": 6, "moe-128": 12, "moe-512": 12}, 4, "KHR_coopmat"
PROMPTS, REPEATS, FILE = "512,2048", "3", "moe2"


def sample(keep, model, arm, gpu):
    command = [f"{keep}/{arm}/llama-bench", "-m", model, "-p", PROMPTS, "-n", "0", "-d", "0", "-b", "2048", "-ub", "512,2048",
               "-r", REPEATS, "-dev", f"Vulkan{gpu}", "-ngl", "999", "-fa", "1", "-t", "2", "-lm", "mmap", "-ctk", "f16", "-ctv", "f16",
               "-nopo", "0", "--poll", "50", "--prio", "0", "-v", "-o", "jsonl"]
    try:
        done = subprocess.run(command, env=os.environ | KHR, text=True, capture_output=True, timeout=120)
    except (subprocess.TimeoutExpired, OSError) as fault:
        print("INVALID:", str(fault)[:300], flush=True)
        return []
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    cores = re.findall(rf"^ggml_vulkan: {gpu} = .*matrix cores: (\S+)", done.stderr, re.M)
    offloaded = re.findall(r"offloaded (\d+)/(\d+) layers", done.stderr)
    if done.returncode or len(rows) != CELLS or cores[:1] != [CORES] or not offloaded or len(set(offloaded[0])) != 1:
        print("INVALID:", arm, done.returncode, len(rows), cores, offloaded, done.stderr[-400:], flush=True)
        return []
    return [{"prompt": row["n_prompt"], "ubatch": row["n_ubatch"], "ns": row["samples_ns"], "gpu_info": row["gpu_info"]} for row in rows]


def count(paths):
    """Complete quads that count, by model, and the highest number of a quad."""
    rows = [json.loads(line) for path in paths if path.exists() for line in path.read_text().splitlines() if line.endswith("}")]
    ends = [row for row in rows if row["end"]]
    found = {name: sum(row["model"] == name and row["complete"] and not row["warm"] for row in ends) for name in ARMS}
    return found, max((row["quad"] for row in ends), default=0)


def run_quad(lines, rng, keep, models, name, arms, gpu, call, last, is_first):
    """One quad, its rows written; gives the order, the samples, the seconds, and what the rows of it share."""
    start, order, results = time.time(), rng.sample(arms, len(arms)), []
    if is_first:
        sample(keep, f"{models}/{name}.gguf", "head", gpu)
    shared = {"model": name, "gpu": gpu, "call": call, "quad": last + 1 + (call << 1) + int(gpu), "warm": False}
    for position, arm in enumerate(order + order[::-1]):
        results.append(sample(keep, f"{models}/{name}.gguf", arm, gpu))
        for row in results[-1]:
            print(json.dumps(shared | {"end": False, "arm": arm, "position": position} | row), file=lines, flush=True)
    return order, results, time.time() - start, shared


def end_quad(lines, shared, results, seconds, arms, counts):
    """The line that says whether the quad counts."""
    complete = all(results)
    print(json.dumps(shared | {"end": True, "complete": complete, "seconds": seconds, "arms": arms}), file=lines, flush=True)
    print(f"gpu {shared['gpu']} {shared['model']} {seconds:.1f} s warm=False complete={complete} {arms} {counts}", flush=True)


def main():
    keep, models, out, end, gpu, names = sys.argv[1:7]
    out, end, rng = Path(out), float(end) - 4, random.Random()
    took, seen, broken, call = {}, set(), set(), int(time.time())
    with (out / f"{FILE}-{gpu}.jsonl").open("a") as lines:
        while True:
            counts, last = count([out / f"{FILE}-{each}.jsonl" for each in "01"])
            fit = [n for n in names.split(",") if n not in broken and time.time() + took.get(n, 60) < end]
            todo = [n for n in fit if counts[n] < ENOUGH[n]]
            name = todo[0] if todo else min(fit, key=lambda n: counts[n], default=None)
            if name is None:
                return
            arms = [arm for arm in ARMS[name] if Path(keep, arm, "ready").exists()]
            order, results, took[name], shared = run_quad(lines, rng, keep, models, name, arms, gpu, call, last, name not in seen)
            seen.add(name)
            if not all(results):
                broken.add(name)
            end_quad(lines, shared, results, took[name], arms, counts)


if __name__ == "__main__":
    main()
