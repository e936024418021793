"""Times of the ROCmFPx types beside upstream's, one process a type and round: fpx.py BIN OUT END BACKEND NAME COLUMNS [ENV=VALUE]"""
import json
import os
import re
import subprocess
import sys
import time

binary, out, end, backend, name, columns, *extra = sys.argv[1:]
env = os.environ | {"LD_PRELOAD": os.environ["SHIM"], "LAB_REPEAT": "1"} | dict(each.split("=") for each in extra)
KINDS = tuple(os.environ.get("KINDS", "").split()) or ("q4_0", "q4_0_rocmfp4", "mxfp4", "q4_0_rocmfp4_fast", "iq4_nl", "nvfp4", "q6_0_rocmfpx", "q6_K", "q8_0_rocmfpx", "q8_0",
         "q3_0_rocmfpx", "q3_K", "q2_0_rocmfpx", "q2_K")
with open(f"{out}/fpx.jsonl", "a") as lines:
    for number in range(int(os.environ.get("ROUNDS", "8"))):
        for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
            if time.time() + 8 > float(end):
                sys.exit()
            start = time.time()
            cases = f"type_a={kind},type_b=f32,m=4096,n=({columns}),k=14336,"
            command = [f"{binary}/test-backend-ops", "perf", "-b", backend, "-o", "MUL_MAT", "-p", cases, "--output", "sql"]
            try:
                done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=60)
            except subprocess.TimeoutExpired:
                print(name, kind, "timeout", flush=True)
                continue
            keys = re.findall(r"^  (\w+) (?:TEXT|INTEGER|REAL)", done.stdout, re.M)
            rows = [dict(zip(keys, values.split("', '"))) for values in re.findall(r"VALUES \('(.*)'\);", done.stdout)]
            rows = [row for row in rows if float(row["time_us"]) > 0]
            for row in rows:
                case = re.sub(r",(bs|amax)=.*", "", row["op_params"])
                print(json.dumps({"name": name, "process": number, "backend": backend, "case": case, "us": float(row["time_us"])}), file=lines, flush=True)
            print(name, number, kind, len(rows), f"{time.time() - start:.1f} s", done.returncode, done.stderr[-200:] if not rows else "", flush=True)
