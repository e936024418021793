"""Tiles of the MoE matmuls, chosen at run time by the x build: explore.py BIN MODELS OUT GPU MODEL"""
import json
import os
import subprocess
import sys
import time

KHR = {"GGML_VK_DISABLE_COOPMAT2": "1"}
FULL = {"LAB_ROWS": "1", "LAB_B16": "1"}
TILES = ["128,128,64,32,64,32", "128,128,64,64,64,32", "256,128,64,32,32,32", "256,128,64,64,32,32", "128,64,64,64,32,32",
         "128,128,32,32,32,32", "128,128,32,64,32,32", "256,256,64,32,64,32", "256,128,32,64,32,16"]
PLAN = [("none", {}), ("rows", {"LAB_ROWS": "1"}), ("b16", {"LAB_B16": "1"}), ("rows+b16", FULL), ("none", {}),
        *((tile, FULL | {"LAB_TILE": tile}) for tile in TILES), ("none", {})]
binary, models, out, gpu, model = sys.argv[1:6]
with open(f"{out}/explore-{gpu}.jsonl", "a") as lines:
    for name, env in PLAN:
        start = time.time()
        command = [f"{binary}/llama-bench", "-m", f"{models}/{model}.gguf", "-p", "512,2048", "-n", "0", "-b", "2048", "-ub", "512,2048", "-r", "4",
                   "-dev", f"Vulkan{gpu}", "-ngl", "999", "-fa", "1", "-t", "2", "-o", "jsonl"]
        try:
            done = subprocess.run(command, env=os.environ | KHR | env, text=True, capture_output=True, timeout=60)
        except subprocess.TimeoutExpired:
            print(model, name, "timeout", flush=True)
            continue
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or len(rows) != 4:
            print(model, name, done.returncode, done.stderr[-300:], flush=True)
            continue
        speeds = {f"{r['n_prompt']}@{r['n_ubatch']}": round(r["avg_ts"]) for r in rows}
        print(json.dumps({"model": model, "name": name, "speeds": speeds}), file=lines, flush=True)
        print(model, name, speeds, f"{time.time() - start:.1f} s", flush=True)
