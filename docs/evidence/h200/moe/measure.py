"""Interleaved llama-bench samples of MoE prefill: moe.py KEEP MODELS OUT SECONDS GPU EXPERIMENT[,...]

A sample is one process; a quad is a random order of the arms followed by its reverse. The first quad of an
experiment warms up and is not evaluated.
"""
import json, os, random, subprocess, sys, time
KHR = {"GGML_VK_DISABLE_COOPMAT2": "1"}
ARMS = ["head", "m1", "m2", "m3"]
def experiments():
    for model in ("moe-128", "moe-512"):
        for path, env in (("khr", KHR), ("cm2", {})):
            yield f"{model}-{path}", model, env, ARMS
    for path, env in (("khr", KHR), ("cm2", {})):
        for model in ("moe-128", "moe-512", "dense"):
            yield f"history-{model}-{path}", model, env, ["b10566f", "head", "m3"]
def sample(keep, model, env, arm, gpu):
    command = [f"{keep}/{arm}/llama-bench", "-m", model, "-p", "512,2048", "-n", "0", "-b", "2048", "-ub", "512,2048", "-r", "3",
               "-ngl", "99", "-fa", "1", "-t", "4", "-dev", "Vulkan0", "-o", "jsonl"]
    done = subprocess.run(command, env=os.environ | env | {"GGML_VK_VISIBLE_DEVICES": gpu}, text=True, capture_output=True, timeout=120)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(rows) != 4:
        print("INVALID", done.returncode, len(rows), done.stderr[-600:], flush=True)
    return rows
def main():
    keep, models, out, seconds, gpu, names = sys.argv[1:7]
    end, quad, took, order_of = time.monotonic() + float(seconds), 0, {}, random.Random(int(gpu) + 7)
    todo = [e for n in names.split(",") for e in experiments() if e[0] == n]
    with open(f"{out}/moe-{gpu}.jsonl", "a") as lines:
        while True:
            for name, model, env, arms in todo:
                if time.monotonic() + took.get(name, 40) > end: return
                start, order = time.monotonic(), order_of.sample(arms, len(arms))
                for position, arm in enumerate(order + order[::-1]):
                    for row in sample(keep, f"{models}/{model}.gguf", env, arm, gpu):
                        print(json.dumps({"experiment": name, "arm": arm, "env": env, "gpu": gpu, "quad": quad, "warm": quad == 0, "position": position,
                            "n_prompt": row["n_prompt"], "n_ubatch": row["n_ubatch"], "ns": row["samples_ns"], "backends": row["backends"], "gpu_info": row["gpu_info"]}), file=lines, flush=True)
                took[name] = time.monotonic() - start
                print(f"gpu {gpu} quad {quad} {name} {took[name]:.1f} s", flush=True)
            quad += 1
main()
