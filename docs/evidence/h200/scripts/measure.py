"""Interleaved speed samples: measure.py KEEP SHIM OUT.jsonl SECONDS FIRST_QUAD N[,N...] [SEED]

A sample is one process of `test-backend-ops perf`; a quad is a mirrored order of the arms (ABBA or BAAB, and for more
arms a random order followed by its reverse), so that a linear drift cancels in each difference. The experiments take
turns, a quad each, until SECONDS are over; quad 0 warms up and is not evaluated.
"""
import json
import os
import random
import re
import subprocess
import sys
import time

KHR = {"GGML_VK_DISABLE_COOPMAT2": "1"}
SHAPE = "type_b=f32,m=4096,n=%s,k=14336,"


def experiments(columns):
    cases = "type_a=iq3_s," + SHAPE % f"({'|'.join(columns)})"
    yield "iq3s", cases, len(columns), {}, [("b10566-base", None), ("b10566-tip", None)]
    cases = "type_a=(f16|q2_K|iq3_s)," + SHAPE % "512"
    yield "pad", cases, 3, KHR, [("b11549-base", None), ("b11549-tip", None), ("b11549-tip", "2"), ("b11549-tip", "6")]


def sample(keep, shim, arm, pad, cases, count, env):
    env = os.environ | env | {"LD_PRELOAD": shim} | ({} if pad is None else {"GGML_VK_MUL_MM_PAD": pad})
    command = [f"{keep}/{arm}/test-backend-ops", "perf", "-b", "Vulkan0", "-o", "MUL_MAT", "-p", cases, "--output", "sql"]
    done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=120)
    columns = re.findall(r"^  (\w+) (?:TEXT|INTEGER|REAL)", done.stdout, re.M)
    rows = [dict(zip(columns, values.split("', '"), strict=True))
            for values in re.findall(r"VALUES \('(.*)'\);", done.stdout)]
    cores = sorted(set(re.findall(r"matrix cores: (\S+)", done.stderr)))
    if done.returncode or len(rows) != count:
        raise SystemExit(f"INVALID: rc {done.returncode}, {len(rows)} cases of {count}: {command} {done.stderr[-500:]}")
    return cores, [(re.sub(r",bs=.*", "", row["op_params"]), float(row["time_us"]), int(row["n_runs"])) for row in rows]


def machine():
    query = "--query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active,utilization.gpu"
    done = subprocess.run(f"nvidia-smi {query} --format=csv,noheader", shell=True, text=True, capture_output=True)
    return done.stdout.strip()


def main():
    keep, shim, out, seconds, quad, columns = sys.argv[1:7]
    seed = int(sys.argv[7]) if len(sys.argv) > 7 else int(time.time())
    end, quad, order_of = time.monotonic() + float(seconds), int(quad), random.Random(seed)
    print("seed", seed)
    last = {}
    with open(out, "a") as lines:
        while True:
            for name, cases, count, env, arms in experiments(columns.split(",")):
                if time.monotonic() + last.get(name, 0) > end:
                    return
                start = time.monotonic()
                order = order_of.sample(arms, len(arms))
                for position, (arm, pad) in enumerate(order + order[::-1]):
                    cores, results = sample(keep, shim, arm, pad, cases, count, env)
                    for case, us, runs in results:
                        row = {"experiment": name, "arm": arm, "case": case, "pad": pad, "quad": quad, "position": position,
                               "us": us, "runs": runs, "matrix_cores": cores}
                        print(json.dumps(row), file=lines, flush=True)
                last[name] = time.monotonic() - start
                print(f"quad {quad} {name} {last[name]:.1f} s | {machine()}", flush=True)
            quad += 1


main()
