"""Runs of `test-backend-ops test`, counted: numerics.py KEEP OUT.jsonl SECONDS [PART PARTS]

One JSON line a run: planned (cases that the filter names), run, passed, skipped (not supported), failures. 0 cases run
is a failure of the measurement. PART of PARTS takes every PARTS-th run of the plan; a run that OUT.jsonl holds is not
repeated, unless it did not come to its end.
"""
import json
import os
import re
import subprocess
import sys
import time

TYPES = "type_a=(iq3_s|iq3_xxs|iq4_nl|nvfp4|iq1_m|iq4_xs),"
ERRORS = "type_a=(iq3_s|iq3_xxs|iq4_nl|nvfp4|iq1_m|iq1_s|iq4_xs|q4_K|q4_0|mxfp4),type_b=f32,m=16,n=[1-8],k=4096"
TILES = "type_a=(f16|q2_K|iq3_s),.*,n=(9|[1-9][0-9]+),"
NOMMVQ = {"GGML_VK_DISABLE_MMVQ": "1"}
KHR = {"GGML_VK_DISABLE_COOPMAT2": "1"}
TIMEOUT = 150


def plan():
    for arm in ("tip", "b11549"):
        yield arm, "MUL_MAT", ERRORS, {"SHOW_ERR": "1"}
    for arm in ("tip", "b11549", "tip", "tip"):
        for env in ({}, NOMMVQ, KHR):
            if arm == "tip" or env == {}:
                yield arm, "MUL_MAT", TYPES, env
                yield arm, "MUL_MAT_ID", TYPES, env
        for pad in ("2", "6", "0", "8", None) if arm == "tip" else ():
            yield arm, "MUL_MAT", TILES, KHR | ({} if pad is None else {"GGML_VK_MUL_MM_PAD": pad})


def run(keep, arm, op, pattern, env, limit):
    command = [f"{keep}/{arm}/test-backend-ops", "test", "-b", "Vulkan0", "-o", op, "-p", pattern, "-j", "8"]
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=os.environ | env, text=True, capture_output=True, timeout=limit)
        rc, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        rc, out, err = "timeout", (late.stdout or b"").decode(errors="replace"), (late.stderr or b"").decode(errors="replace")
    except OSError as fault:
        rc, out, err = str(fault), "", ""
    out = re.sub(r"\x1b\[[0-9;]*m", "", out)
    passed, total = next(((int(a), int(b)) for a, b in re.findall(r"(\d+)/(\d+) tests passed", out)), (0, 0))
    skipped = len(re.findall(r"not supported \[", out))
    return {"arm": arm, "op": op, "pattern": pattern, "env": env, "planned": total + skipped, "run": total,
            "passed": passed, "skipped": skipped, "rc": rc,
            "failed": re.findall(r"^.*FAIL.*$", out, re.M)[:20],
            "errors": re.findall(r"^.*ERRIS.*$", out, re.M) if "SHOW_ERR" in env else [],
            "matrix_cores": sorted(set(re.findall(r"matrix cores: (\w+)", out + err))),
            "seconds": round(time.monotonic() - start, 1), "stderr": err[-300:] if rc else ""}


keep, path, seconds = sys.argv[1:4]
part, parts = map(int, sys.argv[4:6] or (0, 1))
end = time.monotonic() + float(seconds)
done = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
done = [[row["arm"], row["op"], row["pattern"], row["env"]] for row in done if row["run"]]
with open(path, "a") as lines:
    for arm, op, pattern, env in list(plan())[part::parts]:
        if [arm, op, pattern, env] in done:
            done.remove([arm, op, pattern, env])
            continue
        left = end - time.monotonic()
        if left < 8:
            print("NOT RUN, no time left:", arm, op, env, flush=True)
            continue
        row = run(keep, arm, op, pattern, env, min(left - 4, TIMEOUT))
        print(json.dumps(row), file=lines, flush=True)
        print(arm, op, env, f"| planned {row['planned']} run {row['run']} passed {row['passed']} skipped {row['skipped']}",
              f"rc {row['rc']} {row['seconds']} s", row["matrix_cores"], row["failed"][:2], flush=True)
