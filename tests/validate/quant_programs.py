"""Fakes (labelled) of what quant-evidence runs: llama-quantize, llama-perplexity, llama-bench.

They print what b11549 prints, and their numbers follow from the model's file: a file type has the
divergence and speed that stand in TYPES.
"""

from __future__ import annotations

from pathlib import Path

from script_programs import make_step

from upstream.lab import Lab
from validate.artifacts import StepBinaries
from validate.room import Model

TYPES = {"F16": 0.0, "q4_0": 0.06, "iq4_nl": 0.04, "nvfp4": 0.05, "mxfp4": 0.08, "q4_K": 0.03}
LISTED = "Q4_0 IQ4_NL IQ4_XS Q4_K_S MXFP4_MOE F16"
QUANTIZE = """
listed = {listed!r}.split()
if "--help" in sys.argv:
    print("allowed quantization types\\n")
    for number, name in enumerate(listed):
        print(f"  {{number:2d}}  or  {{name:7s}} : something")
    sys.exit(0)
words = [each for each in sys.argv[1:] if not each.startswith(("--", ".="))]
source, target, kind, threads = words
if open(source, "rb").read(4) != b"GGUF" or "cut off" in open(source).read():
    print("gguf_init_from_file: tensor data is not within the file bounds", file=sys.stderr)
    sys.exit(1)
into = "nvfp4" if ".=nvfp4" in sys.argv else kind.lower().replace("mxfp4_moe", "mxfp4")
into = into.replace("q4_k_s", "q4_K").replace("f16", "F16")
open(target, "w").write(f"GGUF {{into}} {mark}" if into == "nvfp4" else f"GGUF {{into}}")
print("[   1/   2] token_embd.weight - [   576,  49152,      1,      1], type =    f16, "
      f"converting to {{into}} .. size =    54.00 MiB ->    15.19 MiB")
print("[   2/   2] output_norm.weight - [   576,      1,      1,      1], type =    f32, size = 0")
print("llama_model_quantize_impl: quant size  =    72.27 MiB (4.51 BPW)", file=sys.stderr)
"""
PERPLEXITY = """
import struct
open(__file__ + ".calls", "a").write("x")
model = sys.argv[sys.argv.index("-m") + 1]
chunks = int(sys.argv[sys.argv.index("--chunks") + 1])
path = sys.argv[sys.argv.index("--kl-divergence-base") + 1]
kind = open(model).read().split()[1]
if "--kl-divergence" not in sys.argv:
    body = bytes(4 * chunks * 512) + bytes(2 * chunks * 255 * 6)
    open(path, "wb").write(struct.pack("<8sIii", b"_logits_", 512, 2, chunks) + body)
    print("Final estimate: PPL = 10.0 +/- 1.0", file=sys.stderr)
    sys.exit(0)
mean = {types!r}[kind]
total = 0.0
print("chunk  PPL  ln(PPL(Q)/PPL(base))  KL Divergence  Dp RMS  Same top p")
for chunk in range(1, chunks + 1):
    total += mean + 0.001 * (chunk % 3)
    print(f"{{chunk:4d}}    {{10.5:9.4f}} ± {{1.0:9.4f}}    {{0.05:10.5f}} ± {{0.01:10.5f}}"
          f"    {{total / chunk:10.5f}} ± {{0.002:10.5f}}    {{9.0:6.3f}} ± {{0.5:6.3f}} %"
          f"    {{90.0:6.3f}} ± {{1.0:6.3f}} %")
print("Mean PPL(Q)                   :  10.500000 ±   1.000000")
print("Mean PPL(base)                :  10.000000 ±   1.000000")
print("Mean ln(PPL(Q)/PPL(base))     :   0.050000 ±   0.010000")
print(f"Mean    KLD: {{total / chunks:10.6f}} ± {{0.002:10.6f}}\\nMaximum KLD:   2.090149")
print("99.9%   KLD:   1.863514\\n99.0%   KLD:   1.334733\\nSame top p: 90.000 ± 1.000 %")
"""
BENCH = """
import json
model = sys.argv[sys.argv.index("-m") + 1]
repack = sys.argv[sys.argv.index("--repack") + 1] == "1"
kind = open(model).read().split()[1]
if "-v" in sys.argv:
    if kind == "q4_0" and repack:
        print("load_tensors:   CPU_REPACK model buffer size =    12.81 MiB", file=sys.stderr)
    sys.exit(0)
open(__file__ + ".calls", "a").write("x")
speed = 1e6 * (1 + {types!r}[kind]) * (2 if repack and kind == "q4_0" else 1)
for prompt, generate in ((512, 0), (0, 128)):
    print(json.dumps({{
        "build_commit": "lab", "n_prompt": prompt, "n_gen": generate, "n_depth": 0,
        "n_threads": 1, "devices": "none", "n_gpu_layers": 0, "flash_attn": 0, "load_mode": "mmap",
        "type_k": "f16", "type_v": "f16", "n_batch": 2048, "n_ubatch": 512, "repack": repack,
        "samples_ns": [(prompt + generate) / speed * 1e9]}}))
"""


def make_programs(folder: Path, mark: str = "upstream", listed: str = LISTED) -> StepBinaries:
    """A build of the three; `mark` is what its encoder of NVFP4 writes."""
    fill = {"types": TYPES, "listed": listed, "mark": mark}
    programs = {
        "llama-quantize": QUANTIZE.format(**fill),
        "llama-perplexity": PERPLEXITY.format(**fill),
        "llama-bench": BENCH.format(**fill),
    }
    return make_step(folder, programs)


def make_model(lab: Lab, content: str = "GGUF q4_1") -> Model:
    """A model file that only the fakes read."""
    folder = lab.root / "models"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.gguf").write_text(content)
    return Model(folder, "tiny.gguf", "0" * 64)
