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

    python docs/evidence/lavapipe/q8_1.py --table OUT

prints the table of q8_1.md.
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
from upstream.lab import Lab, open_lab
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


def launch_reporting(lab: Lab) -> Launch:
    """lavapipe with the library that makes it report the property and counts pipelines."""
    kit = find_kit(lab)
    assert kit is not None
    shim = build_shim(kit, find_toolchain().c)
    names = {SHIM: os.fspath(shim), "GGML_VK_DEBUG_MARKERS": "1"}
    return with_(software_launch(kit), names)


def start(launch: Launch, program: Path, log: Path, *args: str) -> tuple[str, int, dict, float]:
    """What a program says, its exit code, which mat-vec pipelines it bound how often, and its CPU seconds."""
    env = {**clean(os.environ), **launch.variables, COUNTS: os.fspath(log)}
    before = os.times()
    done = process.run((*launch.start, os.fspath(program), *args), env=env, timeout=7200, ok=(0, 1))
    seconds = os.times().children_user - before.children_user
    text = log.read_text() if log.exists() else ""
    log.unlink(missing_ok=True)
    bound = {name: n for name, n in count_pipelines(text).items() if "mul_mat_vec" in name}
    return done.text + done.stderr.decode("utf-8", "replace"), done.code, bound, seconds


def measure(step: Path, launch: Launch, model: Path, columns: int, chunks: int, work: Path) -> dict:
    logits, log = work / "logits", work / "pipelines"
    common = ("-m", os.fspath(model), "-f", os.fspath(open_corpus().path), "-c", str(CONTEXT))
    common += ("-b", str(columns), "-ub", str(columns), "--chunks", str(chunks), "-t", "1")
    common += ("-ngl", "99", "-dev", "Vulkan0", "-fa", "off", "--no-warmup")
    common += ("--kl-divergence-base", os.fspath(logits))
    chosen = {"GGML_VK_FORCE_MMVQ": "1"} if model.stem in FORCED else CHOSEN
    lines = {}
    started = time.monotonic()
    program = step / "llama-perplexity"
    _, _, lines["float"], cpu_float = start(with_(launch, FLOAT), program, log, *common)
    common += ("--kl-divergence",)
    said, _, lines["q8_1"], cpu = start(with_(launch, chosen), program, log, *common)
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


def tabulate(lines: list[dict]) -> str:
    """Markdown; intervals of 95 %, over positions; the 99.9 % quantile: from the 99 % one to the
    largest value.
    """
    head = "| type | columns | perplexity, float | mean KLD | 99.9 % | largest | same top % |"
    rows = [head, "|---|--:|--:|--:|--:|--:|--:|"]
    for line in lines:
        found = line["quality"]
        found["same_top"]["high"] = min(100.0, found["same_top"]["high"])
        mean, top, tail = (
            f"{each['value']:{form}} [{each['low']:{form}}, {each['high']:{form}}]"
            for each, form in (
                (found["mean"], ".2e"),
                (found["same_top"], ".1f"),
                (found["p999"], ".1e"),
            )
        )
        ppl = f"{found['reference_perplexity']['value']:.1f}"
        cells = (line["type"], line["columns"], ppl, mean, tail, f"{found['maximum']:.1e}", top)
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    if sys.argv[1] == "--table":
        text = "".join(Path(name).read_text() for name in sys.argv[2:])
        sys.stdout.write(tabulate([json.loads(line) for line in text.splitlines()]))
        return
    step, models, out = map(Path, sys.argv[1:4])
    lab = open_lab()
    launch = launch_reporting(lab)
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
