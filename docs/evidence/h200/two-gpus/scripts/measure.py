"""Interleaved speed samples on one GPU: measure.py KEEP SHIM OUT SECONDS NAME[,NAME...] GPU

A sample is one process of `test-backend-ops perf` over all cases of an experiment; a quad is a random order of the
arms followed by its reverse, so that a linear drift cancels in each difference. In order of the names each experiment
gets ENOUGH quads, those of both GPUs counted; then the one with the fewest. The first quad of an experiment in a call
warms up (`"warm": true`) and is not evaluated. Rows go to OUT/samples-GPU.jsonl, finished quads to OUT/quads.jsonl.
"""
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ENOUGH = 4
SHAPE = "type_b=f32,m=4096,n=(%s)"
NOMMVQ = {"GGML_VK_DISABLE_MMVQ": "1"}
KHR = {"GGML_VK_DISABLE_COOPMAT2": "1"}
PADS = [("tip", KHR | {"GGML_VK_MUL_MM_PAD": str(pad)}) for pad in (0, 2, 4, 6, 8)]
BOTH = [("b11549", {}), ("tip", {})]
EIGHT = "1|2|3|4|5|6|7|8"
EXPERTS = "type_a=(%s),type_b=f32,n_mats=128,n_used=8,b=0,m=768,n=(1|4|8),k=2048,amax"
# name: op, cases (a regex over the parameters), their number, arms
EXPERIMENTS = {
    "mmvq": ("MUL_MAT", "type_a=((nvfp4|iq4_nl)," + SHAPE % "2|3|4|5|8" + "|(iq3_s|iq3_xxs)," + SHAPE % "2|3|4"
             + "),k=14336,", 16, BOTH),
    "history": ("MUL_MAT", "type_a=(iq1_m|iq3_s)," + SHAPE % EIGHT + ",k=14336,", 16, [("b10566", {}), *BOTH]),
    "float": ("MUL_MAT", "type_a=(iq1_m|iq4_xs)," + SHAPE % "5|6|7|8" + ",k=14336,", 8,
              [("b11549", NOMMVQ), ("tip", NOMMVQ)]),
    "pad": ("MUL_MAT", "type_a=(f16|q2_K|iq3_s)," + SHAPE % "512|2048" + ",k=14336,", 6, [("b11549", KHR), *PADS]),
    "id": ("MUL_MAT_ID", EXPERTS % "nvfp4|iq4_nl|iq3_s|iq3_xxs", 12, BOTH),
    "id_float": ("MUL_MAT_ID", EXPERTS % "iq1_m|iq4_xs", 6, [("b11549", NOMMVQ), ("tip", NOMMVQ)]),
}


def sample(keep, shim, gpu, arm, env, op, cases):
    env = os.environ | env | {"LD_PRELOAD": shim, "LAB_REPEAT": "1", "GGML_VK_VISIBLE_DEVICES": gpu}
    command = [f"{keep}/{arm}/test-backend-ops", "perf", "-b", "Vulkan0", "-o", op, "-p", cases, "--output", "sql"]
    try:
        done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=90)
    except (subprocess.TimeoutExpired, OSError) as fault:
        print("INVALID:", str(fault)[:300], flush=True)
        return []
    columns = re.findall(r"^  (\w+) (?:TEXT|INTEGER|REAL)", done.stdout, re.M)
    rows = [dict(zip(columns, values.split("', '"), strict=True))
            for values in re.findall(r"VALUES \('(.*)'\);", done.stdout)]
    rows = [row for row in rows if float(row["time_us"]) > 0]
    if done.returncode or not rows:
        print(f"INVALID: rc {done.returncode}, {len(rows)} cases: {command} {done.stderr[-500:]}", flush=True)
        return []
    return [(re.sub(r",(bs|amax)=.*", "", row["op_params"]), float(row["time_us"]), int(row["n_runs"])) for row in rows]


def machine(gpu):
    query = "--query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active,utilization.gpu"
    done = subprocess.run(f"nvidia-smi -i {gpu} {query} --format=csv,noheader", shell=True, text=True, capture_output=True)
    return done.stdout.strip()


def count(path):
    """Complete quads by experiment, both GPUs' together, warm-ups left out; the number of the last one."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return (Counter(row["experiment"] for row in rows if row["complete"] and not row["warm"]),
            max((row["quad"] for row in rows), default=0))


def choose(names, counts, broken):
    names = [name for name in names if broken[name] < 2]
    todo = [name for name in names if counts[name] < ENOUGH]
    return todo[0] if todo else min(names, key=lambda name: counts[name], default=None)


def main():
    keep, shim, out, seconds, names, gpu = sys.argv[1:7]
    out, end, order_of = Path(out), time.monotonic() + float(seconds) - 3, random.Random()
    took, seen, broken, call = {}, set(), Counter(), int(time.time())
    with (out / f"samples-{gpu}.jsonl").open("a") as lines:
        while True:
            counts, last = count(out / "quads.jsonl")
            name = choose([n for n in names.split(",") if time.monotonic() + took.get(n, 20) < end], counts, broken)
            if name is None:
                return
            op, cases, number, arms = EXPERIMENTS[name]
            start, quad, found = time.monotonic(), last + 1, set()
            order, warm = order_of.sample(arms, len(arms)), name not in seen
            for position, (arm, env) in enumerate(order + order[::-1]):
                results = sample(keep, shim, gpu, arm, env, op, cases)
                found.add(len(results))
                for case, us, runs in results:
                    row = {"experiment": name, "arm": arm, "env": env, "case": case, "gpu": gpu, "call": call, "quad": quad,
                           "warm": warm, "position": position, "us": us, "runs": runs}
                    print(json.dumps(row), file=lines, flush=True)
            seen.add(name)
            took[name] = (time.monotonic() - start) * (0.9 if warm else 1)
            complete = found == {number}
            broken[name] = 0 if complete else broken[name] + 1
            row = {"experiment": name, "gpu": gpu, "quad": quad, "warm": warm, "complete": complete, "cases": sorted(found)}
            with (out / "quads.jsonl").open("a") as quads:
                print(json.dumps(row), file=quads, flush=True)
            print(f"quad {quad} {name} warm={warm} {took[name]:.1f} s cases {sorted(found)} of {number} | {machine(gpu)}", flush=True)


main()
