"""Do coopmat matmuls by expert read activations that were converted to f16 once?

    python vulkan_moe_f16_activations.py --bin BIN --work DIR

MUL_MAT_ID of two quantised types with f32 activations: the matmul must be the pipeline for f16
activations, after a conversion of f32 to f16, and the result must be right.
Exit status: 0 it does, 1 it does not, 3 no such device, 4 nothing was run.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from vulkan_moe import Bench, Row, run_moe_check

# types that have no int8 matmul on any device
CASES = "type_a=(q2_K|iq2_xxs),type_b=f32,n_mats=4,n_used=2,b=0,m=512,n=(32|129),k=256"
# matmul_id_subgroup_quant_f16_f16acc_aligned_2: the type of the activations stands before _f16acc
ACTIVATIONS = re.compile(r"_(f32|f16)(?:_ocp)?(?:_f16acc)?(?:_aligned)?_\d+$")


def measure(bench: Bench) -> list[Row]:
    """A row for each case and each matmul that was dispatched."""
    run = bench.run("MUL_MAT_ID", CASES)
    rows = [judge(each.name) for each in run.products]
    copies = run.named("cpy_f32_f16") + run.named("contig_cpy_f32_f16")
    converted = {"case": "conversions", "passed": len(copies) == len(run.products)}
    return [*rows, converted | {"found": len(copies)}, *run.right]


def judge(name: str) -> Row:
    """Tell whether a pipeline takes f16 activations."""
    found = ACTIVATIONS.search(name)
    return {"case": name, "passed": found is not None and found[1] == "f16"}


if __name__ == "__main__":
    sys.exit(run_moe_check(Path(__file__), __doc__, measure))
