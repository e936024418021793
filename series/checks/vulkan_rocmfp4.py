"""Are there mat-vec shaders for the ROCmFP4 types, and do they fit RDNA3.5?

    python vulkan_rocmfp4.py --source TREE --root TOOLCHAIN_ROOT --work DIR

Compiles the float mat-vec (subgroup reduction without shared memory, 64 invocations) with RADV's
own compiler, for 1 to 8 columns and 2 and 4 rows. A type without such a shader fails.
Exit status: 0 nothing spills, 1 something spills or is absent, 2 a tool failed, 3 the root is
missing, 4 nothing was compiled.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mat_vec_spill import MatVec, run_spill_check

WANTED = MatVec(
    "mul_mat_vec.comp",
    (
        "mul_mat_vec_q4_0_rocmfp4_f32_f32_subgroup_no_shmem",
        "mul_mat_vec_q4_0_rocmfp4_fast_f32_f32_subgroup_no_shmem",
    ),
)


if __name__ == "__main__":
    sys.exit(run_spill_check(Path(__file__), __doc__, WANTED))
