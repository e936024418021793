"""Does the IQ4_XS float mat-vec of a llama.cpp tree spill registers on RDNA3.5?

    python vulkan_iq4_xs_spill.py --source TREE --root TOOLCHAIN_ROOT --work DIR

Compiles what AMD devices run (subgroup reduction without shared memory, 64 invocations) with
RADV's own compiler, for 1 to 8 columns and 2 and 4 rows, and looks at the register statistics.
Exit status: 0 nothing spills, 1 something spills, 2 a tool failed, 3 the root is missing,
4 nothing was compiled.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mat_vec_spill import MatVec, run_spill_check

WANTED = MatVec(
    "mul_mat_vec_iq4_xs.comp",
    (
        "mul_mat_vec_iq4_xs_f32_f32_subgroup_no_shmem",
        "mul_mat_vec_iq4_xs_f16_f32_subgroup_no_shmem",
    ),
)


if __name__ == "__main__":
    sys.exit(run_spill_check(Path(__file__), __doc__, WANTED))
