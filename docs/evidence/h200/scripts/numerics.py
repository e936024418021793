"""Runs of `test-backend-ops test`, counted: numerics.py iq3s|pad KEEP OUT.jsonl SECONDS

One JSON line a run: cases run and passed, cases not supported, failures, the exit code, the matrix cores in use and
the warnings. A run of no case is a failure of the measurement.
"""
import json
import os
import re
import subprocess
import sys
import time

IQ3S = "type_a=iq3_s,"
PAD = r"type_a=(f16|q2_K|iq3_s|q4_0),.*,n=(9|[1-9][0-9]+),"  # from 9 columns up mul_mm runs
ONE = r"type_a=f16,type_b=f32,m=64,n=45,k=128,"
KHR = {"GGML_VK_DISABLE_COOPMAT2": "1"}
TIMEOUT = 100

# Upstream has no case of q2_K or iq3_s that reaches the medium and large tiles (m and n above 32, above 64), so these
# go through --test-file: GGML_OP_MUL_MAT of b11549 is 29, the types are ggml's ids.
MUL_MAT = 29
TYPES = {"f16": 1, "q4_0": 2, "q2_K": 10, "iq3_s": 21}
SHAPES = [(m, n, k) for m, n in ((32, 32), (64, 64), (65, 33), (128, 128), (129, 127), (512, 512), (1000, 509), (4096, 512))
          for k in (256, 512, 2048) if m * n * k <= 4096 * 512 * 512]


def tiles(path):
    with open(path, "w") as cases:
        for name, type_a in TYPES.items():
            for m, n, k in SHAPES:
                print(MUL_MAT, 0, m, n, 1, 1, 0, 2, type_a, k, m, 1, 1, "0 0 0 0", 0, k, n, 1, 1, "0 0 0 0",
                      f"{name}_m{m}_n{n}_k{k}", file=cases)
    return ["--test-file", path]


def plan(which, keep):
    if which == "iq3s":
        filters = ["-o", "MUL_MAT", "-p", IQ3S]
        yield "b10566-base", filters, {}
        for _ in range(3):
            for env in ({}, KHR):
                yield "b10566-tip", filters, env
        return
    for pad in ("3", "abc", "18", "", "-2", "4x", "16"):  # refused, but for the last
        yield "b11549-tip", ["-o", "MUL_MAT", "-p", ONE], KHR | {"GGML_VK_MUL_MM_PAD": pad}
    few = tiles(f"{keep}/tiles.txt")
    yield "b11549-base", few, KHR
    for filters in (few, ["-o", "MUL_MAT", "-p", PAD], ["-o", "MUL_MAT_ID", "-p", PAD]):
        for pad in (None, "0", "2", "4", "6", "8"):
            yield "b11549-tip", filters, KHR | ({} if pad is None else {"GGML_VK_MUL_MM_PAD": pad})


def run(keep, arm, filters, env):
    command = [f"{keep}/{arm}/test-backend-ops", "test", "-b", "Vulkan0", *filters, "-j", "8"]
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=os.environ | env, text=True, capture_output=True, timeout=TIMEOUT)
        rc, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        rc, out, err = "timeout", str(late.stdout or ""), str(late.stderr or "")
    out = re.sub(r"\x1b\[[0-9;]*m", "", out)
    passed, total = next(((int(a), int(b)) for a, b in re.findall(r"(\d+)/(\d+) tests passed", out)), (0, 0))
    return {
        "arm": arm, "filters": filters, "env": env, "passed": passed, "run": total, "rc": rc,
        "unsupported": len(re.findall(r"not supported \[", out)),
        "failed": sorted(set(re.findall(r"^  (MUL_MAT\S*\(.*\)): .*FAIL", out, re.M))),
        "matrix_cores": sorted(set(re.findall(r"matrix cores: (\S+)", out + err))),
        "ignored": sorted(set(re.findall(r"Ignoring GGML_VK_MUL_MM_PAD.*", out + err))),
        "cases": sorted(set(re.findall(r"^  (MUL_MAT\S*\(.*?\)): ", out, re.M))),
        "seconds": round(time.monotonic() - start, 1), "stderr": err[-300:] if rc else "",
    }


def main():
    which, keep, out, seconds = sys.argv[1:]
    end = time.monotonic() + float(seconds)
    with open(out, "w") as lines:
        for arm, filters, env in plan(which, keep):
            if time.monotonic() > end:
                print("NOT RUN, no time left:", arm, filters, env, flush=True)
                continue
            row = run(keep, arm, filters, env)
            print(json.dumps(row), file=lines, flush=True)
            print(arm, filters[-1][-40:], filters[1], " ".join(f"{k[9:]}={v}" for k, v in env.items()), f"| {row['passed']}/{row['run']}",
                  f"unsupported {row['unsupported']} rc {row['rc']} {row['seconds']} s", row["matrix_cores"], row["ignored"],
                  row["failed"][:4], flush=True)


main()
