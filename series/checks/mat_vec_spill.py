"""Compile mat-vec shaders with RADV for what AMD devices run, and look for register spills.

Subgroup reduction without shared memory, 64 invocations, 1 to 8 columns. For the checks beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from isa_toolchain import Compiled, Pipeline, RootMissingError, Toolchain, report, run_check

SUBGROUP = 64
COLUMNS = range(1, 9)
PUSH_CONSTANTS = 13 * 4
BINDINGS = 5
SPILLS = {
    "spilled_vgprs": "Spilled VGPRs",
    "spilled_sgprs": "Spilled SGPRs",
    "scratch": "Scratch size",
}
OTHERS = {
    "vgprs": "VGPRs",
    "subgroups_per_simd": "Subgroups per SIMD",
    "instructions": "Instructions",
    "latency": "Latency",
    "inverse_throughput": "Inverse Throughput",
}


@dataclass(frozen=True)
class MatVec:
    """Which variants of one mat-vec shader have to compile without a spill."""

    source: str
    variants: tuple[str, ...]
    rows: tuple[int, ...] = (2, 4)
    defines: tuple[str, ...] = ()


def pipelines(shaders: Iterable[Path], row_counts: Iterable[int]) -> list[Pipeline]:
    """Every mat-vec pipeline to compile: variants x rows x columns."""
    specs = [{0: SUBGROUP, 1: rows, 2: columns} for rows in row_counts for columns in COLUMNS]
    pairs = [(path, spec) for path in shaders for spec in specs]
    return [Pipeline(path, spec, SUBGROUP, PUSH_CONSTANTS, BINDINGS) for path, spec in pairs]


def row(pipeline: Pipeline, compiled: Compiled) -> dict[str, object]:
    """One line of the report."""
    statistics = compiled.statistics
    spills = {key: statistics[name] for key, name in SPILLS.items()}
    result: dict[str, object] = {"shader": pipeline.spirv.stem}
    result |= {"rows": pipeline.spec[1], "columns": pipeline.spec[2]}
    result |= {"passed": not any(spills.values()), **spills}
    return result | {key: statistics[name] for key, name in OTHERS.items()}


def absent(wanted: MatVec, shaders: Iterable[Path]) -> list[dict[str, object]]:
    """A failed line for each variant that the tree's generator does not make."""
    made = {path.stem for path in shaders}
    return [
        {"shader": name, "passed": False, "absent": True}
        for name in wanted.variants
        if name not in made
    ]


def compile_variants(
    wanted: MatVec, toolchain: Toolchain, tree: Path
) -> tuple[list[dict[str, object]], list[Compiled]]:
    """Compile one shader's variants: the lines of the report, and what the driver said."""
    shaders = toolchain.shaders(tree, wanted.source, wanted.variants, wanted.defines)
    asked = pipelines(shaders, wanted.rows)
    answers = toolchain.compile_all(asked)
    rows = [row(pipeline, answer) for pipeline, answer in zip(asked, answers, strict=True)]
    return [*rows, *absent(wanted, shaders)], answers


def look_for_spills(
    check: str, wanted: Iterable[MatVec], toolchain: Toolchain | None, tree: Path
) -> int:
    """Compile, report, and return the exit status."""
    if toolchain is None:
        raise RootMissingError("needs a toolchain root: nox -s toolchain")
    parts = [compile_variants(each, toolchain, tree) for each in wanted]
    rows = [line for lines, _ in parts for line in lines]
    return report(check, rows, [answer for _, answers in parts for answer in answers])


def run_spill_check(script: Path, purpose: str, *wanted: MatVec) -> int:
    """Read the command line of a check named after its script, run it, return the exit status."""

    def measure(toolchain: Toolchain | None, tree: Path) -> int:
        return look_for_spills(script.stem, wanted, toolchain, tree)

    return run_check(script, purpose, measure)
