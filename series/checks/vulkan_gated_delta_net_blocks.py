"""Does GATED_DELTA_NET read the tokens of a prompt in blocks, and few tokens as before?

    python vulkan_gated_delta_net_blocks.py --bin BIN --work DIR

By the dispatches of heads of 128 values: many tokens take the pipeline of blocks, 1 and 4 tokens
take upstream's. The results of all these cases have to be right. Upstream tests such heads with 4
tokens at most: a test-backend-ops without the patch's cases fails the check.
Exit status: 0 it does, 1 it does not, 3 no such device, 4 nothing was run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vulkan_dispatch import Bench, NothingRanError, Row, run_dispatch_check

OP, PIPELINE, BLOCKS = "GATED_DELTA_NET", "gated_delta_net_", "_block"
FEW = r"head_size=128,n_seq_tokens=[14],"
# More than a block and no multiple of it: a decay for each head, for each row, and snapshots.
MANY = (
    r"head_size=128,n_seq_tokens=\d\d+,.*kda=0,K=1",
    r"head_size=128,n_seq_tokens=\d\d+,.*kda=1,K=1",
    r"head_size=128,n_seq_tokens=\d\d+,.*K=[34]",
)


def measure(bench: Bench) -> list[Row]:
    """A row for each pipeline that was dispatched in a case, and for each result."""
    found = judge(bench, FEW, blocks=False)
    try:
        return [*found, *(row for each in MANY for row in judge(bench, each, blocks=True))]
    except NothingRanError as error:
        return [*found, {"case": str(error), "passed": False}]


def judge(bench: Bench, parameters: str, *, blocks: bool) -> list[Row]:
    """Run one kind of case: the pipelines that it took, and its results."""
    run = bench.run(OP, parameters)
    names = {each.name for each in run.named(PIPELINE)}
    if not names:
        raise NothingRanError(f"{parameters}: no dispatch of {PIPELINE}*")
    rows: list[Row] = [
        {"case": f"{parameters}: {name}", "passed": (BLOCKS in name) == blocks}
        for name in sorted(names)
    ]
    return [*rows, *run.right]


if __name__ == "__main__":
    sys.exit(run_dispatch_check(Path(__file__), __doc__, measure, path=None))
