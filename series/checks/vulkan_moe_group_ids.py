"""Are expert ids grouped once for all the matmuls that share them?

    python vulkan_moe_group_ids.py --bin BIN --work DIR

Upstream's MUL_MAT_ID_FUSION has three products of the same ids in one graph, MUL_MAT_ID_SHARED two.
The ids must be grouped (count_experts) once a graph, and again in each graph of MUL_MAT_ID. The
results must be right.
Exit status: 0 they are, 1 they are not, 3 no such device, 4 nothing was run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vulkan_moe import Bench, Row, run_moe_check

GROUPING = "count_experts"
# operation, parameters, matmuls in its graph
CASES = (
    ("MUL_MAT_ID_FUSION", "type_a=f16,.*n_mats=16,n_used=16,b=0,m=32,n=32,k=32,o=3", 3),
    ("MUL_MAT_ID_SHARED", "type=q4_K,n=9$", 2),
    ("MUL_MAT_ID", "type_a=f16,type_b=f32,n_mats=8,n_used=2,b=0,m=512,n=(32|129),k=256", 1),
)


def measure(bench: Bench) -> list[Row]:
    """A row for each operation and each case."""
    return [row for case in CASES for row in judge(bench, *case)]


def judge(bench: Bench, op: str, parameters: str, products: int) -> list[Row]:
    """Run one operation: how often its ids were grouped, and its results."""
    run = bench.run(op, parameters)
    graphs, grouped = len(run.cases), len(run.named(GROUPING))
    found = {"grouped": grouped, "products": len(run.products), "graphs": graphs}
    passed = grouped == graphs and len(run.products) == products * graphs
    return [{"case": op, "passed": passed, **found}, *run.right]


if __name__ == "__main__":
    sys.exit(run_moe_check(Path(__file__), __doc__, measure))
