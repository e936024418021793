"""RMS_NORM and GATED_DELTA_NET against the CPU, counted, and a profile of each model: norms.py KEEP MODELS OUT GPU"""
import json
import os
import re
import subprocess
import sys

KHR = {"GGML_VK_DISABLE_COOPMAT2": "1"}
keep, models, out, gpu = sys.argv[1:5]
with open(f"{out}/norm-numerics.jsonl", "a") as lines:
    for arm in ("nn", "head"):
        for op in ("RMS_NORM", "RMS_NORM_MUL_ADD", "RMS_NORM_MUL_ROPE", "GATED_DELTA_NET"):
            command = [f"{keep}/{arm}/test-backend-ops", "test", "-b", f"Vulkan{gpu}", "-o", op, "-j", "4"]
            done = subprocess.run(command, env=os.environ | KHR, text=True, capture_output=True, timeout=60)
            text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
            passed, total = next(((int(a), int(b)) for a, b in re.findall(r"(\d+)/(\d+) tests passed", text)), (0, 0))
            row = {"arm": arm, "op": op, "run": total, "passed": passed, "rc": done.returncode, "failed": re.findall(r"^.*FAIL.*$", text, re.M)[:10]}
            print(json.dumps(row), file=lines, flush=True)
            print(row, flush=True)
for arm in ("nn",):
    for model in ("moe-128", "moe-512", "dense-27b"):
        command = [f"{keep}/{arm}/llama-bench", "-m", f"{models}/{model}.gguf", "-p", "2048", "-n", "0", "-b", "2048", "-ub", "2048", "-r", "3",
                   "-dev", f"Vulkan{gpu}", "-ngl", "999", "-fa", "1", "-t", "2", "-o", "jsonl"]
        done = subprocess.run(command, env=os.environ | KHR | {"GGML_VK_PERF_LOGGER": "1"}, text=True, capture_output=True, timeout=90)
        last = done.stderr.split("Vulkan Timings:")[-1]
        with open(f"{out}/profile-{arm}-{model}.txt", "w") as file:
            file.write(last)
        print(arm, model, re.findall(r"^(?:RMS_NORM.*|GATED.*|Total.*)$", last, re.M), flush=True)
