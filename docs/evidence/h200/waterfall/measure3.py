"""Interleaved llama-bench samples of prefill on the KHR path: measure3.py KEEP MODELS OUT END GPU MODEL[:QUADS][,MODEL...] [stop]

END is a time since the epoch. A sample is one process; a quad is a random order of the arms followed by its reverse,
so that a linear drift cancels in every difference. `copy` holds the bytes of `head`: the A/A arm. One process of
`head` a model goes first and is not kept. Models in order until each has ENOUGH quads (those of both GPUs counted), then the one with
the fewest. A quad with a process that failed, measured other cells or took another path is written as incomplete and
not evaluated. An arm whose binary is not there (yet) is left out; the quad says which it had. An arm (not head or copy) of which both samples
of a quad failed is left out for that model from then on; a model is given up after its second quad that failed otherwise.
MODEL:QUADS takes QUADS for ENOUGH, of this process alone; with `stop` it ends when each has its quads.
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
ALL = ["b10566", "head", "copy", "nn", "nng"]
ARMS = {"dense-27b": ALL, "moe-128": ALL, "moe-512": ALL}
CELLS, CORES = 2, "KHR_coopmat"


def sample(keep, model, arm, gpu):
    command = [f"{keep}/{arm}/llama-bench", "-m", model, "-p", "2048", "-n", "0", "-d", "0", "-b", "2048", "-ub", "512,2048",
               "-r", "5", "-dev", f"Vulkan{gpu}", "-ngl", "999", "-fa", "1", "-t", "2", "-lm", "mmap", "-ctk", "f16", "-ctv", "f16",
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


def main():
    keep, models, out, end, gpu, words = sys.argv[1:7]
    enough = {word.partition(":")[0]: int(word.partition(":")[2] or 8) for word in words.split(",")}
    stop, dropped, failed, own = sys.argv[7:] == ["stop"], {}, {}, dict.fromkeys(enough, 0)
    out, end, rng = Path(out), float(end) - 4, random.Random()
    took, seen, broken, call = {}, set(), set(), int(time.time())
    with (out / f"prefill-{gpu}.jsonl").open("a") as lines:
        while True:
            counts, last = count([out / f"prefill-{each}.jsonl" for each in "01"])
            fit = [n for n in enough if n not in broken and time.time() + took.get(n, 60) < end]
            todo = [n for n in fit if (own if stop else counts)[n] < enough[n]]
            name = todo[0] if todo else None if stop else min(fit, key=lambda n: counts[n], default=None)
            if name is None:
                return
            arms = [arm for arm in ARMS[name] if Path(keep, arm, "ready").exists() and arm not in dropped.get(name, ())]
            if "head" not in arms:
                return
            start, order, warm, results = time.time(), rng.sample(arms, len(arms)), False, []
            if name not in seen:
                sample(keep, f"{models}/{name}.gguf", "head", gpu)
            shared = {"model": name, "gpu": gpu, "call": call, "quad": last + 1 + (call << 1) + int(gpu), "warm": warm}
            for position, arm in enumerate(order + order[::-1]):
                results.append(sample(keep, f"{models}/{name}.gguf", arm, gpu))
                for row in results[-1]:
                    print(json.dumps(shared | {"end": False, "arm": arm, "position": position} | row), file=lines, flush=True)
            seen.add(name)
            took[name] = time.time() - start
            complete = all(results)
            own[name] += complete
            if not complete:
                lost = {arm for arm, both in zip(order, zip(results, results[::-1])) if not any(both)} - {"head", "copy"}
                dropped.setdefault(name, set()).update(lost)
                failed[name] = failed.get(name, 0) + (not lost)
                if failed[name] > 1:
                    broken.add(name)
            print(json.dumps(shared | {"end": True, "complete": complete, "seconds": took[name], "arms": arms}), file=lines, flush=True)
            print(f"gpu {gpu} {name} {took[name]:.1f} s warm={warm} complete={complete} {arms} {counts}", flush=True)


main()
