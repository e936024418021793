"""Do matmuls by expert launch workgroups only for tiles that can have work?

    python vulkan_moe_grid.py --bin BIN --work DIR

MUL_MAT_ID of several shapes, up to 1024 experts with 10 used: beside the tiles of rows, at most
floor(all rows / columns of a tile) + experts groups may be launched, however the rows fall. A grid
of all tiles for each expert has more. Results must be right, also with row ids of one expert only.
Exit status: 0 they do, 1 they launch more, 3 no such device, 4 nothing was run.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from vulkan_moe import Bench, Dispatch, NothingRanError, Row, run_moe_check

CASES = (
    "type_a=q4_K,type_b=f32,n_mats=8,n_used=1,b=0,m=512,n=129,k=256",
    "type_a=q4_K,type_b=f32,n_mats=8,n_used=2,b=1,m=512,n=129,k=256",
    "type_a=f16,type_b=f32,n_mats=8,n_used=2,b=0,m=512,n=129,k=256",
    "type_a=q4_0,type_b=f32,n_mats=(512|1024),n_used=10,b=0,m=256,n=300,k=128",
)
NUMBERS = re.compile(r"\b(n_mats|n_used|n)=(\d+)")


def measure(bench: Bench) -> list[Row]:
    """A row for each matmul and each case."""
    return [row for case in CASES for row in judge(bench, case)]


def judge(bench: Bench, case: str) -> list[Row]:
    """Run one case, or several: each has one matmul, in the same order."""
    run = bench.run("MUL_MAT_ID", case)
    if len(run.cases) != len(run.products):
        raise NothingRanError(f"{len(run.products)} matmuls for {len(run.cases)} cases of {case}")
    pairs = zip(run.cases, run.products, strict=True)
    return [*(count(name, each) for name, each in pairs), *run.right]


def count(case: str, product: Dispatch) -> Row:
    """The groups for columns and experts, and how many there may be."""
    numbers = {name: int(value) for name, value in NUMBERS.findall(case)}
    experts, rows = numbers["n_mats"], numbers["n_used"] * numbers["n"]
    groups, most = product.groups[1] * product.groups[2], rows // product.columns + experts
    name = f"groups of {case}"
    return {"case": name, "passed": groups <= most, "groups": groups, "most": most}


if __name__ == "__main__":
    sys.exit(run_moe_check(Path(__file__), __doc__, measure))
