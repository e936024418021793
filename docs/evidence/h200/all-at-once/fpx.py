"""Times of the ROCmFPx types beside upstream's, pairs within one process: fpx.py BIN OUT END BACKEND NAME COLUMNS [ENV=VALUE]"""
import json
import os
import re
import subprocess
import sys
import time

binary, out, end, backend, name, columns, *extra = sys.argv[1:]
env = os.environ | {"LD_PRELOAD": os.environ["SHIM"], "LAB_REPEAT": "1"} | dict(each.split("=") for each in extra)
kinds = "q4_0_rocmfp4|q4_0_rocmfp4_fast|q6_0_rocmfpx|q8_0_rocmfpx|q3_0_rocmfpx|q2_0_rocmfpx|q4_0|iq4_nl|mxfp4|nvfp4|q6_K|q8_0|q3_K|q2_K"
cases = f"type_a=({kinds}),type_b=f32,m=4096,n=({columns}),k=14336,"
took, number = 20.0, 0
with open(f"{out}/fpx.jsonl", "a") as lines:
    while time.time() + took * 1.05 < float(end):
        start = time.time()
        command = [f"{binary}/test-backend-ops", "perf", "-b", backend, "-o", "MUL_MAT", "-p", cases, "--output", "sql"]
        try:
            done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=120)
        except subprocess.TimeoutExpired:
            print(name, "timeout", flush=True)
            break
        keys = re.findall(r"^  (\w+) (?:TEXT|INTEGER|REAL)", done.stdout, re.M)
        rows = [dict(zip(keys, values.split("', '"))) for values in re.findall(r"VALUES \('(.*)'\);", done.stdout)]
        rows = [row for row in rows if float(row["time_us"]) > 0]
        took = time.time() - start
        for row in rows:
            case = re.sub(r",(bs|amax)=.*", "", row["op_params"])
            print(json.dumps({"name": name, "process": number, "backend": backend, "case": case, "us": float(row["time_us"])}), file=lines, flush=True)
        print(name, number, len(rows), f"{took:.1f} s", done.returncode, done.stderr[-200:] if not rows else "", flush=True)
        number += 1
        if not rows or number >= 8:
            break
