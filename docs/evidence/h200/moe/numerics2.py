"""MUL_MAT_ID against the CPU, counted: numerics2.py KEEP OUT.jsonl SECONDS PART PARTS

One JSON line a run: planned, run, passed, skipped, failures; 0 cases run is a failure of the measurement. Each type is a
run of its own with a limit of its own, so that a slow one does not take the others with it. Both candidates on the KHR
path (where a changes the grid) and on NVIDIA's own (where it must not), b11549 beside them.
"""
import json
import os
import re
import subprocess
import sys
import time

KHR = {"GGML_VK_DISABLE_COOPMAT2": "1"}
SCALAR = KHR | {"GGML_VK_DISABLE_COOPMAT": "1"}
TYPES = ("q4_K", "q4_0", "q8_0", "iq4_xs", "f16", "bf16", "mxfp4", "iq2_xs", "q6_K", "f32")
PLAN = [(arm, env, kind) for arm, env in (("f5", KHR), ("f5", {}), ("f5", SCALAR), ("head", KHR)) for kind in TYPES]


def run(keep, arm, env, kind, gpu, limit):
    command = [f"{keep}/{arm}/test-backend-ops", "test", "-b", f"Vulkan{gpu}", "-o", "MUL_MAT_ID", "-p", f"type_a={kind},", "-j", "8"]
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=os.environ | env, text=True, capture_output=True, timeout=limit)
        rc, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        rc, out, err = "timeout", (late.stdout or b"").decode(errors="replace"), (late.stderr or b"").decode(errors="replace")
    out = re.sub(r"\x1b\[[0-9;]*m", "", out)
    passed, total = next(((int(a), int(b)) for a, b in re.findall(r"(\d+)/(\d+) tests passed", out)), (0, 0))
    skipped = len(re.findall(r"not supported \[", out))
    return {"arm": arm, "env": env, "type": kind, "planned": total + skipped, "run": total, "passed": passed, "skipped": skipped,
            "rc": rc, "failed": re.findall(r"^.*FAIL.*$", out, re.M)[:20], "seconds": round(time.monotonic() - start, 1),
            "cores": sorted(set(re.findall(rf"ggml_vulkan: {gpu} = .*matrix cores: (\S+)", err)))}


keep, path, seconds, part, parts = sys.argv[1:6]
end = time.monotonic() + float(seconds)
with open(path, "a") as lines:
    for arm, env, kind in PLAN[int(part)::int(parts)]:
        left = end - time.monotonic()
        if left < 5:
            print("NOT RUN, no time left:", arm, env, kind, flush=True)
            continue
        row = run(keep, arm, env, kind, part, min(left, 40))
        print(json.dumps(row), file=lines, flush=True)
        print(arm, kind, row["cores"], f"run {row['run']} passed {row['passed']} skipped {row['skipped']} rc {row['rc']} {row['seconds']} s", row["failed"][:2], flush=True)
