"""Does the IQ3_S float mat-vec of a llama.cpp tree spill registers on RDNA3.5?

    python vulkan_iq3_s_spill.py --source TREE --root TOOLCHAIN_ROOT --work DIR

Compiles what AMD devices run (subgroup reduction without shared memory, 64 invocations) with
RADV's own compiler, for 1 to 8 columns and 2 and 4 rows, and looks at the register statistics.
Exit status: 0 nothing spills, 1 something spills, 2 a tool failed, 3 the root is missing,
4 nothing was compiled.
"""

from __future__ import annotations

import sys
from pathlib import Path

from isa_toolchain import Compiled, Pipeline, RootMissingError, Toolchain, report, run_check

CHECK = "vulkan_iq3_s_spill"
SOURCE = "mul_mat_vec_iq3_s.comp"
VARIANTS = (
    "mul_mat_vec_iq3_s_f32_f32_subgroup_no_shmem",
    "mul_mat_vec_iq3_s_f16_f32_subgroup_no_shmem",
)
SUBGROUP = 64
ROWS = (2, 4)
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


def pipelines(shaders: list[Path]) -> list[Pipeline]:
    """Every mat-vec pipeline to compile: variants x rows x columns."""
    specs = [{0: SUBGROUP, 1: rows, 2: columns} for rows in ROWS for columns in COLUMNS]
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


def measure(toolchain: Toolchain | None, tree: Path) -> int:
    """Compile, report, and return the exit status."""
    if toolchain is None:
        raise RootMissingError("needs a toolchain root: nox -s toolchain")
    wanted = pipelines(toolchain.shaders(tree, SOURCE, VARIANTS))
    answers = toolchain.compile_all(wanted)
    rows = [row(pipeline, answer) for pipeline, answer in zip(wanted, answers, strict=True)]
    return report(CHECK, rows, answers)


if __name__ == "__main__":
    sys.exit(run_check(Path(__file__), __doc__, measure))
