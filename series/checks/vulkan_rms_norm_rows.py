"""Does the norm of a short row take few threads, and the norm of a long one as many as before?

    python vulkan_rms_norm_rows.py --bin BIN --work DIR

RMS_NORM alone and with what is fused into it: rows of up to 128 values by 64 threads, of up to 256
by 128, longer ones by 512. A pipeline without the constant of its threads is upstream's, with 512.
Exit status: 0 it does, 1 it does not, 3 no such device, 4 nothing was run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vulkan_dispatch import Bench, NothingRanError, Row, run_dispatch_check

THREADS, LONG = 3, 512  # the constant; the threads of upstream's shader
# What test-backend-ops has at the parent too.
CASES = (
    ("RMS_NORM", r"ne=\[64,5,4,3\],v=0,eps=0.0001", "rms_norm_f32", 64),
    ("RMS_NORM", r"ne=\[132,5,4,3\],v=0,eps=0.0001", "rms_norm_f32", 128),
    ("RMS_NORM", r"ne=\[260,5,4,3\],v=0,eps=0.0001", "rms_norm_f32", LONG),
    ("RMS_NORM", r"ne=\[1025,5,4,3\],v=0,eps=0.0001", "rms_norm_f32", LONG),
    ("RMS_NORM_MUL_ADD", r"ne=\[64,5,4,3\],eps=0.0001", "rms_norm_mul_f32", 64),
    ("RMS_NORM_MUL_ADD", r"ne=\[64,5,4,3\],eps=0.0001", "rms_norm_mul_add", LONG),
    ("RMS_NORM_MUL_ROPE", r"ne=\[128,4,7,2\]", "rms_norm_mul_rope", 64),
    ("RMS_NORM_MUL_ROPE", r"ne=\[256,1,1,1\]", "rms_norm_set_rows", 128),
    ("RMS_NORM_MUL_ROPE", r"ne=\[768,3,1,1\]", "rms_norm_mul_rope", LONG),
)


def measure(bench: Bench) -> list[Row]:
    """A row for each norm that was dispatched, and for each result."""
    return [row for case in CASES for row in judge(bench, *case)]


def judge(bench: Bench, op: str, parameters: str, pipeline: str, threads: int) -> list[Row]:
    """Run one kind of case: the threads of its norms, and its results."""
    run = bench.run(op, parameters)
    norms = {(each.name, each.constants[THREADS] or LONG) for each in run.named(pipeline)}
    if not norms:
        raise NothingRanError(f"{op} {parameters}: no dispatch of {pipeline}")
    found = [
        {"case": f"{op} {parameters}: {name}", "threads": n, "passed": n == threads}
        for name, n in sorted(norms)
    ]
    return [*found, *run.right]


if __name__ == "__main__":
    sys.exit(run_dispatch_check(Path(__file__), __doc__, measure, path=None))
