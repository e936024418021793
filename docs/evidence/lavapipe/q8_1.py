"""KL divergence of the q8_1 mat-vec from the float one, type by type, on software Vulkan.

    LAB_DIR=LAB python docs/evidence/lavapipe/q8_1.py STEP QUANTISED OUT [TYPE:COLUMNS[:CHUNKS] ...]

STEP is a folder with llama-perplexity, built with Vulkan from the series up to vulkan-mmvq-iq3;
QUANTISED holds TYPE.gguf; LAB has the toolchain roots (nox -s toolchain). Both arms are the same
program on the same file, with the integer dot product reported as accelerated
(validate/vulkan/integer_dot.c). The first has GGML_VK_DISABLE_MMVQ=1 and multiplies by float
activations, the second as upstream chooses, or, for a type it would not choose it for on this
vendor (q6_K), with GGML_VK_FORCE_MMVQ=1. Batches of COLUMNS tokens: every matrix product has that
many columns. Which pipelines ran is counted; an arm that ran another is refused. One JSON line for
each is added to OUT; what OUT has is not run again.
"""

import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, os.fspath(Path(__file__).parents[3]))

from upstream import process
from upstream.lab import open_lab
from validate.corpus import open_corpus
from validate.quant_evidence.quality import read_quality
from validate.room import Launch, clean
from validate.toolchain import find_toolchain
from validate.vulkan.device import software_launch
from validate.vulkan.integer_dot import COUNTS, SHIM, build_shim, count_pipelines, take_quantised
from validate.vulkan.lane import find_kit

CONTEXT, CHUNKS = 128, 2
FORCED = ("Q6_K",)
FLOAT, CHOSEN = {"GGML_VK_DISABLE_MMVQ": "1"}, {}


def run(step: Path, launch: Launch, log: Path, *args: str) -> tuple[str, dict[str, int], float]:
    """What the program says, which mat-vec pipelines it bound how often, and its CPU seconds."""
    log.unlink(missing_ok=True)
    env = {**clean(os.environ), **launch.variables, COUNTS: os.fspath(log)}
    before = os.times()
    command = (*launch.start, os.fspath(step / "llama-perplexity"), *args)
    done = process.run(command, env=env, timeout=7200)
    after = os.times()
    bound = {k: v for k, v in count_pipelines(log.read_text()).items() if "mul_mat_vec" in k}
    seconds = after.children_user - before.children_user
    return done.text + done.stderr.decode("utf-8", "replace"), bound, seconds


def measure(step: Path, launch: Launch, model: Path, columns: int, chunks: int, work: Path) -> dict:
    logits, log = work / "logits", work / "pipelines"
    common = ("-m", os.fspath(model), "-f", os.fspath(open_corpus().path), "-c", str(CONTEXT))
    common += ("-b", str(columns), "-ub", str(columns), "--chunks", str(chunks), "-t", "1")
    common += ("-ngl", "99", "-dev", "Vulkan0", "-fa", "off", "--no-warmup")
    common += ("--kl-divergence-base", os.fspath(logits))
    chosen = {"GGML_VK_FORCE_MMVQ": "1"} if model.stem in FORCED else CHOSEN
    lines = {}
    started = time.monotonic()
    _, lines["float"], cpu_float = run(step, with_(launch, FLOAT), log, *common)
    said, lines["q8_1"], cpu = run(step, with_(launch, chosen), log, *common, "--kl-divergence")
    if take_quantised(lines["float"]) or not take_quantised(lines["q8_1"]):
        raise SystemExit(f"{model.stem}, {columns} columns: not the pipelines to compare: {lines}")
    return {
        "type": model.stem,
        "columns": columns,
        "quality": asdict(read_quality(said)),
        "tokens": chunks * CONTEXT,
        "positions": chunks * (CONTEXT - 1 - CONTEXT // 2),
        "bound": lines,
        "cpu_seconds": [round(cpu_float), round(cpu)],
        "seconds": round(time.monotonic() - started),
    }


def with_(launch: Launch, variables: dict[str, str]) -> Launch:
    return replace(launch, variables={**launch.variables, **variables})


def main() -> None:
    step, models, out = map(Path, sys.argv[1:4])
    lab = open_lab()
    kit = find_kit(lab)
    assert kit is not None
    shim = build_shim(kit, find_toolchain().c)
    names = {SHIM: os.fspath(shim), "GGML_VK_DEBUG_MARKERS": "1"}
    launch = with_(software_launch(kit), names)
    known = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(each["type"], each["columns"]) for each in known}
    for word in sys.argv[4:]:
        name, columns, chunks = (*word.split(":"), str(CHUNKS))[:3]
        if (name, int(columns)) in done:
            continue
        model = models / f"{name}.gguf"
        with tempfile.TemporaryDirectory(dir=lab.scratch) as work:
            found = measure(step, launch, model, int(columns), int(chunks), Path(work))
        with out.open("a") as file:
            file.write(json.dumps(found) + "\n")
        mean, seconds = found["quality"]["mean"], found["seconds"]
        sys.stderr.write(f"{name} {columns} {mean} {seconds} s\n")


if __name__ == "__main__":
    main()
