"""Are there mat-vec shaders for the other ROCmFPx types, and do they fit RDNA3.5?

    python vulkan_rocmfpx.py --source TREE --root TOOLCHAIN_ROOT --work DIR

Compiles the float mat-vec and the q8_1 one (subgroup reduction without shared memory, 64
invocations) with RADV's own compiler, for 1 to 8 columns and 2 and 4 rows (q8_1: 1 row too). A type
without such a shader fails.
Exit status: 0 nothing spills, 1 something spills or is absent, 2 a tool failed, 3 the root is
missing, 4 nothing was compiled.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mat_vec_spill import MatVec, run_spill_check

TYPES = ("q6_0_rocmfpx", "q8_0_rocmfpx", "q3_0_rocmfpx", "q2_0_rocmfpx")
FLOAT = MatVec(
    "mul_mat_vec.comp",
    tuple(f"mul_mat_vec_{each}_f32_f32_subgroup_no_shmem" for each in TYPES),
)
Q8_1 = MatVec(
    "mul_mat_vecq.comp",
    tuple(f"mul_mat_vec_{each}_q8_1_f32_subgroup_no_shmem" for each in TYPES),
    rows=(1, 2, 4),
    defines=("GGML_VULKAN_INTEGER_DOT_GLSLC_SUPPORT",),
)


if __name__ == "__main__":
    sys.exit(run_spill_check(Path(__file__), __doc__, FLOAT, Q8_1))
