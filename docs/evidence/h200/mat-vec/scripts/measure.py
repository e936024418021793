"""Interleaved speed samples: measure.py KEEP SHIM OUT.jsonl SECONDS FIRST_QUAD [SEED]

A sample is one process of `test-backend-ops perf` over all cases of an experiment; a quad is a random order of the
arms followed by its reverse, so that a linear drift cancels in each difference. The experiments take turns, a quad
each, until SECONDS are over; the first quad of a session warms up and is not evaluated.
"""
import json, os, random, re, subprocess, sys, time
SHAPE = "type_b=f32,m=4096,n=(%s),k=14336,"
NEW = "iq3_s|iq3_xxs|iq2_xxs|iq2_xs|iq2_s|iq4_nl|nvfp4"
ID = "|type_a=(iq2_xs|iq3_s),type_b=f32,n_mats=128,n_used=8,b=0,m=768,n=(4|8),k=2048,o=1"
def experiments():
    base, tip, old = ("b11549", {}), ("tip", {}), ("b10566", {})
    yield "mmvq", "type_a=(%s)," % NEW + SHAPE % "2|3|4|5|8", [base, tip]
    yield "history", "type_a=(iq3_s|iq1_m)," + SHAPE % "1|2|3|4|5|6|7|8", [old, base, tip]
    off = {"GGML_VK_DISABLE_MMVQ": "1"}
    yield "float", "type_a=(iq1_m|iq4_xs)," + SHAPE % "1|2|3|4|5|6|7|8", [("b11549", off), ("tip", off)]
    khr = {"GGML_VK_DISABLE_COOPMAT2": "1"}
    pads = [("tip", khr | {"GGML_VK_MUL_MM_PAD": str(pad)}) for pad in (0, 2, 4, 6, 8)]
    yield "pad", "type_a=(f16|q2_K|iq3_s)," + SHAPE % "512|2048", [("b11549", khr), *pads]
def sample(keep, shim, arm, env, cases):
    command = [f"{keep}/{arm}/test-backend-ops", "perf", "-b", "Vulkan0", "-o", "MUL_MAT", "-p", cases, "--output", "sql"]
    done = subprocess.run(command, env=os.environ | env | {"LD_PRELOAD": shim}, text=True, capture_output=True, timeout=200)
    columns = re.findall(r"^  (\w+) (?:TEXT|INTEGER|REAL)", done.stdout, re.M)
    rows = [dict(zip(columns, values.split("', '"), strict=True)) for values in re.findall(r"VALUES \('(.*)'\);", done.stdout)]
    if done.returncode or not rows:
        print(f"INVALID: rc {done.returncode}, {len(rows)} cases: {command} {done.stderr[-500:]}", flush=True)
    return [(re.sub(r",bs=.*", "", row["op_params"]), float(row["time_us"]), int(row["n_runs"])) for row in rows]
def machine():
    q = "--query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active,utilization.gpu"
    return subprocess.run(f"nvidia-smi {q} --format=csv,noheader", shell=True, text=True, capture_output=True).stdout.strip()
def main():
    keep, shim, out, seconds, quad = sys.argv[1:6]
    seed = int(sys.argv[6]) if len(sys.argv) > 6 else int(time.time())
    end, quad, order_of = time.monotonic() + float(seconds), int(quad), random.Random(seed)
    print("seed", seed, flush=True)
    last = {}
    with open(out, "a") as lines:
        while True:
            for name, cases, arms in experiments():
                if time.monotonic() + last.get(name, 0) > end:
                    return
                start = time.monotonic()
                order = order_of.sample(arms, len(arms))
                counts = set()
                for position, (arm, env) in enumerate(order + order[::-1]):
                    results = sample(keep, shim, arm, env, cases)
                    counts.add(len(results))
                    for case, us, runs in results:
                        row = {"experiment": name, "arm": arm, "env": env, "case": case, "quad": quad, "position": position, "us": us, "runs": runs}
                        print(json.dumps(row), file=lines, flush=True)
                last[name] = time.monotonic() - start
                print(f"quad {quad} {name} {last[name]:.1f} s cases {sorted(counts)} | {machine()}", flush=True)
            quad += 1
main()
