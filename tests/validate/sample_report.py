"""SAMPLE DATA, made up: a report as a run on two topics could give it, with one of everything.

`python -m tests.validate.sample_report PATH` writes it as a page to look at.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from validate.cells import Cell, Judged, Speed
from validate.html_report import write_report
from validate.report_model import (
    BuildReport,
    Comparison,
    Count,
    Header,
    Report,
    Skipped,
    StepReport,
    TopicReport,
)
from validate.verdict import CheckResult, Verdict

PP = Cell("llama-bench", "pp512", "t/s", 0.02)
PP_DEEP = Cell("llama-bench", "pp512 @ d4096", "t/s", 0.02)
TG = Cell("llama-bench", "tg128", "t/s", 0.02)
TG_DEEP = Cell("llama-bench", "tg128 @ d4096", "t/s", 0.02)
MUL_MAT = Cell("test-backend-ops", "MUL_MAT(q4_1,f32,m=4096,n=8,k=14336)", "us", 0.03)
HEADER = Header(
    upstream="b11549",
    provider="snapshot llama-cpp-source 0.11549.0",
    tip_tree="7c3ae1c10530fe50227e4009f30cbdde9dd0b98a",
    date="2026-11-30 03:18 UTC",
    machine={
        "processor": "2 x AMD EPYC 9B14",
        "system": "Linux 6.8.0-1021",
        "memory": "7.8 GiB",
        "device": "CPU",
        "Python": "3.11.9",
        "git": "2.39.5",
    },
    toolchain={
        "C compiler": "gcc (Debian 12.2.0-14+deb12u1) 12.2.0",
        "C++ compiler": "g++ (Debian 12.2.0-14+deb12u1) 12.2.0",
        "cmake": "cmake version 4.4.5",
        "flags": "-march=znver4 -mavx512f -mavx512bf16 -mavx512vnni",
        "options": "CMAKE_BUILD_TYPE=Release, BUILD_SHARED_LIBS=ON, GGML_CCACHE=OFF",
        "fingerprint": "sha256 2b1f0c6f4a9d",
    },
    sample=True,
)


def judged(cell: Cell, verdict: Speed, center: float, half: float, **more: object) -> Judged:
    """A cell with an interval around its centre, all in per cent."""
    low, high = (center - half) / 100, (center + half) / 100
    cells = Judged(cell, verdict, center / 100, low, high, quads=12, margin=cell.minimum, p=0.42)
    return replace(cells, **more)  # type: ignore[arg-type]


def identical(cell: Cell) -> Judged:
    return Judged(cell, Speed.IDENTICAL, low=0.0, high=0.0)


def make_check(name: str, verdict: Verdict, detail: str = "", **facts: object) -> CheckResult:
    return CheckResult(name, verdict, detail, facts)


DRAFT = StepReport(
    patch="speculative-honour-draft-length.patch",
    parent="base",
    verdict=Verdict.INCONCLUSIVE,
    claims={"cpu": "bit-exact"},
    build=BuildReport(
        "built",
        "39e72f469bc38cfd0fe7d4c80eb4cf7360f6e984",
        "5248ac54",
        seconds=212.4,
        identical=11,
        changed=("libllama-common.so", "llama-cli", "llama-server"),
        log=Path("/home/ada/.cache/llama-series-lab/logs/build-speculative.patch.log"),
    ),
    checks=(
        make_check("own check", Verdict.PASS, "18 cases, red on the parent", step={"cases": 18}),
        make_check(
            "archs", Verdict.PASS, "130 archs", executed=130, passed=["llama CPU Dense"] * 130
        ),
        make_check("results", Verdict.PASS, "bit-exact: same bytes", nmse=0.0, equal=True),
        make_check("bench", Verdict.INFORMATION, "one sample: pp64 43.2 t/s (parent 43.1)"),
    ),
    speed=Comparison(
        "speculative-honour-draft-length.patch",
        "base",
        (
            judged(PP, Speed.SAME, 0.1, 0.8),
            judged(PP_DEEP, Speed.SAME, -0.4, 1.1),
            judged(TG, Speed.SAME, 0.3, 0.6),
            judged(
                TG_DEEP, Speed.INCONCLUSIVE, -1.4, 2.2, reason="could hide up to 3.5 %", quads=24
            ),
        ),
    ),
)
COUNT = replace(
    DRAFT,
    patch="speculative-count-accepted.patch",
    parent=DRAFT.patch,
    verdict=Verdict.PASS,
    speed=Comparison(
        "speculative-count-accepted.patch",
        DRAFT.patch,
        (
            judged(PP, Speed.SAME, -0.2, 0.7),
            judged(PP_DEEP, Speed.SAME, 0.1, 0.9),
            judged(TG, Speed.SAME, 0.0, 0.5),
            judged(TG_DEEP, Speed.SAME, 0.4, 1.1),
        ),
    ),
)
PAD = StepReport(
    patch="vulkan-mul-mm-pad.patch",
    parent="speculative-count-accepted.patch",
    verdict=Verdict.NOT_RUN,
    claims={"cpu": "bit-exact", "vulkan": "bit-exact"},
    build=BuildReport(
        "cached", "6de9cba26b5f9dee03402c318a53a833fb01bb14", "ae8c82b8", identical=14
    ),
    checks=(
        make_check(
            "own check", Verdict.NOT_RUN, "no toolchain root: run nox -s toolchain, then name it"
        ),
        make_check("archs", Verdict.IDENTICAL),
        make_check("results", Verdict.IDENTICAL),
        make_check("bench", Verdict.IDENTICAL),
    ),
    speed=Comparison(
        "vulkan-mul-mm-pad.patch",
        "speculative-count-accepted.patch",
        (identical(PP), identical(PP_DEEP), identical(TG), identical(TG_DEEP)),
    ),
)
NORM = StepReport(
    patch="cpu-fused-norm-with-a-name-that-tells-the-whole-story-of-what-it-does.patch",
    parent="vulkan-mul-mm-pad.patch",
    verdict=Verdict.FAIL,
    claims={"cpu": "nmse"},
    build=BuildReport(
        "built",
        "aa49b41535a265a16f2cdd40fe0f28fd6e96319b",
        "f806c3c4",
        187.0,
        12,
        ("libggml-cpu.so",),
    ),
    checks=(
        make_check("own check", Verdict.PASS, "12 cases, red on the parent"),
        make_check(
            "archs", Verdict.INVALID, "does not run gemma3n CPU Dense, mamba2 CPU Dense and 4 more"
        ),
        make_check("results", Verdict.FAIL, "nmse: NMSE 6.113e-04", nmse=6.113e-4, equal=False),
        make_check("bench", Verdict.INFORMATION, "one sample: pp64 41.0 t/s (parent 43.2)"),
    ),
    speed=Comparison(
        "cpu-fused-norm-with-a-name-that-tells-the-whole-story-of-what-it-does.patch",
        "vulkan-mul-mm-pad.patch",
        (
            judged(PP, Speed.FASTER, 4.6, 0.9, p=0.000488),
            judged(PP_DEEP, Speed.FASTER, 3.4, 1.0, p=0.000488),
            judged(TG, Speed.SLOWER, -6.2, 1.4, p=0.000488, reason="a second run agreed"),
            judged(TG_DEEP, Speed.SLOWER, -14.8, 2.0, p=0.000488, reason="a second run agreed"),
            Judged(
                MUL_MAT,
                Speed.INVALID,
                reason="the device of arm B is another one: llvmpipe, not CPU",
            ),
        ),
        (Skipped("pp512 @ d16384", "the quick profile leaves it out"),),
    ),
)
BROKEN = StepReport(
    patch="cpu-repack-q2.patch",
    parent="cpu-fused-norm-with-a-name-that-tells-the-whole-story-of-what-it-does.patch",
    verdict=Verdict.FAIL,
    claims={"cpu": "bit-exact"},
    build=BuildReport(
        "failed",
        "23f24d8a659a1affd8aa91d20435db07961e6fcc",
        "7c3ae1c1",
        41.0,
        error="ggml/src/ggml-cpu/repack.cpp:1204: 'block_q2_Kx8' was not declared in this scope",
        log=Path("/home/ada/.cache/llama-series-lab/logs/build-cpu-repack-q2.patch.log"),
    ),
    checks=(
        make_check(
            "build",
            Verdict.FAIL,
            "does not build: ggml/src/ggml-cpu/repack.cpp:1204: 'block_q2_Kx8' was not declared",
            log="/home/ada/.cache/llama-series-lab/logs/build-cpu-repack-q2.patch.log",
        ),
    ),
)
SAMPLE = Report(
    header=HEADER,
    topics=(
        TopicReport(
            "spec-adaptive",
            "Speculative decoding: draft length that follows measured acceptance",
            (DRAFT, COUNT),
        ),
        TopicReport(
            "vulkan-lds-pad",
            "Vulkan: shared-memory padding of cooperative-matrix tiles as the host's choice",
            (PAD,),
        ),
        TopicReport("cpu-norm", "CPU: fused norms and repacked weights", (NORM, BROKEN)),
        TopicReport(
            "vulkan-mmv-spill",
            "Vulkan: mat-vec shaders that fit into the register file",
            (),
            (
                "vulkan-iq3-s-register-spill.patch: upstream has it since b10809 "
                "(ggml-org/llama.cpp#27449)",
            ),
        ),
    ),
    base=BuildReport("built", "f0e1d2c3b4a5968778695a4b3c2d1e0f00112233", "aabbccdd", 1604.0),
    counts=(
        Count("builds", run=5, cached=1),
        Count("checks", run=12, identical=3, skipped=1, invalid=1),
        Count("speed cells", run=16, identical=4, skipped=1, invalid=1),
    ),
    verdict=Verdict.FAIL,
    skipped=(
        Skipped("vulkan-mul-mm-pad.patch: own check", "no toolchain root"),
        Skipped("cpu-fused-norm: pp512 @ d16384", "the quick profile leaves it out"),
    ),
    not_measured=(
        "vulkan-mul-mm-pad.patch claims bit-exact on vulkan; this run executed on cpu only.",
        "Any time on gfx1151.",
    ),
    tip=Comparison(
        "tip",
        "base",
        (
            judged(PP, Speed.FASTER, 4.8, 1.1, p=0.000488),
            judged(PP_DEEP, Speed.FASTER, 3.1, 1.0, p=0.000977),
            judged(TG, Speed.SLOWER, -5.9, 1.2, p=0.000488, reason="a second run agreed"),
            judged(TG_DEEP, Speed.SLOWER, -16.0, 2.4, p=0.000488, reason="a second run agreed"),
        ),
    ),
    pr_text=(
        "| model                          |       size |     params | backend    | threads |\n"
        "| ------------------------------ | ---------: | ---------: | ---------- | ------: |\n"
        "| llama 256M Q4_1                |  92.10 MiB |   134.52 M | CPU        |       2 |"
    ),
)


if __name__ == "__main__":
    write_report(SAMPLE, Path(sys.argv[1]))
