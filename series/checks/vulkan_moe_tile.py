"""Do matmuls by expert take a tile for the rows that an expert gets, not for the whole batch?

    python vulkan_moe_tile.py --bin BIN --work DIR

MUL_MAT_ID of 129 tokens: with 8 experts and 2 used an expert gets 33 rows, so no tile may be wider
than 64 columns; with all 4 of 4 experts used it gets 129, and the large tile must stay. On AMD
upstream has no wider tile for them, so there is nothing to choose.
Exit status: 0 they do, 1 they do not, 3 no such device, 4 nothing was run.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from vulkan_dispatch import Bench, NotThereError, Row, run_dispatch_check

SHAPE = "b=0,m=512,n=129,k=256"
TYPES = ("q4_K", "f16")
FEW, ALL = "n_mats=8,n_used=2", "n_mats=4,n_used=4"
COLUMNS, MEDIUM = 2, 64  # the constant of a matmul's columns, those of the medium tile
NARROW = re.compile("AMD|Radeon|RADV")


def measure(bench: Bench) -> list[Row]:
    """A row for each matmul and each case."""
    rows: list[Row] = []
    for kind in TYPES:
        rows += judge(bench, kind, FEW, wide=False)
        rows += judge(bench, kind, ALL, wide=True)
    return rows


def judge(bench: Bench, kind: str, experts: str, *, wide: bool) -> list[Row]:
    """Run one case: its tiles, and its result."""
    run = bench.run("MUL_MAT_ID", f"type_a={kind},type_b=f32,{experts},{SHAPE}")
    if NARROW.search(run.device):
        raise NotThereError(f"no large tile for MUL_MAT_ID on this device: {run.device}")
    tiles = [
        {
            "case": f"{experts}: {each.name}",
            "columns": each.constants[COLUMNS],
            "passed": (each.constants[COLUMNS] > MEDIUM) == wide,
        }
        for each in run.named("matmul_id_")
    ]
    return [*tiles, *run.right]


if __name__ == "__main__":
    sys.exit(run_dispatch_check(Path(__file__), __doc__, measure))
