"""Are there integer-dot mat-vec shaders for IQ3_XXS and IQ3_S, and do they fit RDNA3.5?

    python vulkan_mmvq_iq3.py --source TREE --root TOOLCHAIN_ROOT --work DIR

Compiles the q8_1 mat-vec (subgroup reduction without shared memory, 64 invocations) with RADV's own
compiler, for 1 to 8 columns and 4 rows. A type without such a shader fails.
Exit status: 0 nothing spills, 1 something spills or is absent, 2 a tool failed, 3 the root is
missing, 4 nothing was compiled.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mat_vec_spill import MatVec, run_spill_check

WANTED = MatVec(
    "mul_mat_vecq.comp",
    (
        "mul_mat_vec_iq3_xxs_q8_1_f32_subgroup_no_shmem",
        "mul_mat_vec_iq3_s_q8_1_f32_subgroup_no_shmem",
    ),
    rows=(4,),
    defines=("GGML_VULKAN_INTEGER_DOT_GLSLC_SUPPORT",),
)


if __name__ == "__main__":
    sys.exit(run_spill_check(Path(__file__), __doc__, WANTED))
