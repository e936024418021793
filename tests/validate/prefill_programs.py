"""Fakes (labelled) of llama-bench for prefill: they print what b11549 prints, with planned speeds.

A Vulkan device is listed; with GGML_VK_DISABLE_COOPMAT2 it says KHR_coopmat, with
GGML_VK_PERF_LOGGER it prints the timings of its graphs. Every call is noted beside the program.
"""

from __future__ import annotations

import json
from pathlib import Path

from script_programs import make_step

BENCH = """
import os
words = dict(zip(sys.argv[1:], sys.argv[2:]))
khr = "GGML_VK_DISABLE_COOPMAT2" in os.environ
open(__file__ + ".calls", "a").write("x")
device = "  Vulkan0: a card (a fake) (90000 MiB, {free} MiB free)"
if "--list-devices" in sys.argv:
    print("Available devices:\\n" + device)
    sys.exit(0)
on = words["-dev"] != "none"
if "-v" in sys.argv:
    cores = {khr!r} if khr else {cores!r}
    print(f"ggml_vulkan: 0 = a card (a fake) | fp16: 1 | matrix cores: {{cores}}", file=sys.stderr)
    print("load_tensors: " + ("offloaded 9/9 layers to GPU" if on else ""), file=sys.stderr)
    print("sched_reserve: graph: nodes = 9, splits = 1, x", file=sys.stderr)
count = int(words["-r"])
for depth in map(int, words["-d"].split(",")) if "-d" in words else [0]:
    for ubatch in map(int, words["-ub"].split(",")):
        for prompt in map(int, words["-p"].split(",")):
            speed = {speed} * (2 if ubatch == 512 else 1)
            if "GGML_VK_PERF_LOGGER" in os.environ:
                for graph in range(-(-prompt // ubatch)):
                    print("----------------\\nVulkan Timings:", file=sys.stderr)
                    print("MUL_MAT_ID q4_K m=768 n=4 k=2048 n_expert=128: 2 x 30 us = 60 us "
                          "(12.5 GFLOPS/s)\\nADD: 1 x 20 us = 20 us\\nTotal time: 80 us.",
                          file=sys.stderr)
            row = dict(
                build_commit="lab", build_number={number}, cpu_info="a fake", gpu_info="",
                backends="Vulkan", model_size=1, model_n_params=1, n_batch=2048,
                n_threads=int(words["-t"]), type_k="f16", type_v="f16",
                n_gpu_layers=int(words["-ngl"]), flash_attn=int(words["-fa"]),
                devices=words["-dev"], load_mode="mmap", n_prompt=prompt, n_gen=0,
                n_ubatch=ubatch, n_depth=depth,
                samples_ns=[prompt / speed * 1e9] * count,
            )
            print(str(row).replace("'", '"'))
"""


def make_bench(
    folder: Path,
    speed: float,
    *,
    cores: str = "NV_coopmat2",
    khr: str = "KHR_coopmat",
    number: int = 1,
    free: int = 80000,
) -> Path:
    """A folder with the fake program: `speed` in tokens/s (far beyond any real one)."""
    body = BENCH.format(speed=speed, cores=cores, khr=khr, number=number, free=free)
    make_step(folder, {"llama-bench": body}, "-IS")
    return folder


def count_calls(folder: Path) -> int:
    """How often the program of a folder ran, and its copies by other names."""
    path = folder / "llama-bench.calls"
    return path.stat().st_size if path.exists() else 0


def edit_row(line: str, **changes: object) -> str:
    """A printed row with other values."""
    return json.dumps(json.loads(line) | changes)
