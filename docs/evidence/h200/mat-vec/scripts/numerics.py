"""Runs of `test-backend-ops test`, counted: numerics.py KEEP OUT.jsonl SECONDS (0 cases is a failure)."""
import json, os, re, subprocess, sys, time
NEW = "type_a=(iq3_s|iq3_xxs|iq2_xxs|iq2_xs|iq2_s|iq4_nl|nvfp4|iq1_m|iq4_xs),type_b=f32"
ERR = "type_a=(iq3_s|iq3_xxs|iq2_xxs|iq2_xs|iq2_s|iq4_nl|nvfp4|iq1_m|iq1_s|iq4_xs|q4_K|q4_0|mxfp4),type_b=f32,m=16,n=8,k=4096"
TILES = "type_a=(f16|q2_K|iq3_s),.*,n=(9|[1-9][0-9]+),"
NOMMVQ = {"GGML_VK_DISABLE_MMVQ": "1"}
KHR = {"GGML_VK_DISABLE_COOPMAT2": "1"}
def plan():
    yield "tip", "MUL_MAT", ERR, {"SHOW_ERR": "1"}
    yield "tip", "MUL_MAT", ERR, {"SHOW_ERR": "1"} | NOMMVQ
    yield "tip", "MUL_MAT", NEW + ",.*n=[1-8],", {}
    yield "tip", "MUL_MAT_ID", "type_a=(iq3_s|iq3_xxs|iq2_xxs|iq2_xs|iq2_s|iq4_nl|nvfp4),.*,n=[1-8],", {}
    yield "tip", "MUL_MAT", NEW + ",.*n=[1-8],", NOMMVQ
    for pad in ("2", "6", None, "0", "8"):
        yield "tip", "MUL_MAT", TILES, KHR | ({} if pad is None else {"GGML_VK_MUL_MM_PAD": pad})
def run(keep, arm, op, pattern, env):
    command = [f"{keep}/{arm}/test-backend-ops", "test", "-b", "Vulkan0", "-o", op, "-p", pattern, "-j", "6"]
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=os.environ | env, text=True, capture_output=True, timeout=60)
        rc, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        rc, out, err = "timeout", str(late.stdout or ""), str(late.stderr or "")
    out = re.sub(r"\x1b\[[0-9;]*m", "", out)
    passed, total = next(((int(a), int(b)) for a, b in re.findall(r"(\d+)/(\d+) tests passed", out)), (0, 0))
    return {"arm": arm, "op": op, "pattern": pattern, "env": env, "passed": passed, "run": total, "rc": rc,
            "unsupported": len(re.findall(r"not supported \[", out)),
            "failed": re.findall(r"^.*FAIL.*$", out, re.M)[:20],
            "errors": re.findall(r"^.*ERRIS.*$", out, re.M) if "SHOW_ERR" in env else [],
            "matrix_cores": sorted(set(re.findall(r"matrix cores: (\S+)", out + err))),
            "seconds": round(time.monotonic() - start, 1), "stderr": err[-300:] if rc else ""}
keep, path, seconds = sys.argv[1:]
end = time.monotonic() + float(seconds)
with open(path, "w") as lines:
    for arm, op, pattern, env in plan():
        if time.monotonic() > end:
            print("NOT RUN, no time left:", op, env, flush=True); continue
        row = run(keep, arm, op, pattern, env)
        print(json.dumps(row), file=lines, flush=True)
        print(arm, op, env, f"| {row['passed']}/{row['run']} unsupported {row['unsupported']} rc {row['rc']} {row['seconds']} s", row["matrix_cores"], row["failed"][:3], flush=True)
