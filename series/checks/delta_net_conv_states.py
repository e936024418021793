"""Check that as many convolution states are written as delta-net states, and that a rollback holds.

A tiny random Qwen3.5 of test-llama-archs, upstream's own test of rollbacks, and the graphs that
GGML_SCHED_DEBUG prints: each copy into the cache with its size. A ubatch of one token leaves one
state of a layer to go back to; without the patch nine convolution states are written for it.
Exit status: 0 holds, 1 does not hold, 3 no compiler, library or test, 4 nothing was measured.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from backend_outputs import Missing, NotCompiled, build, read_arguments, report
from spec_draft_length import FAIL, NO_ENVIRONMENT, NOT_MEASURED, PASS

CHECK: Final = "delta-net-conv-states"
ARCH: Final = "qwen35"
TEST: Final = "tests/test-recurrent-state-rollback.cpp"
GRAPH: Final = "## SPLIT #0"
# The size of a view is its extent. Without gaps are views of the cache of a convolution, and what
# is copied of a delta net. From a megabyte on the kilobytes are not printed.
COPY: Final = re.compile(
    r"CPY\): cache_(?P<kind>r_l\d+ |s_l\d+ [^\n]*?c=\d:).*?\( *(?P<size>\d+)(?P<unit>[KM])\)"
)
KINDS: Final = "rs"
ENOUGH: Final = 50  # graphs

Graph: TypeAlias = dict[
    str, list[int]
]  # kilobytes of each copy, r of convolutions, s of delta nets


class NotMeasured(Exception):
    """There were no graphs."""


def write_model(folder: Path, work: Path) -> Path:
    """Let the step's test-llama-archs write the model."""
    program = folder / "test-llama-archs"
    if not os.access(program, os.X_OK):
        raise Missing(f"{program} is missing")
    subprocess.run([program, "-a", ARCH, "-o", work], capture_output=True)
    found = sorted(work.glob(f"{ARCH}-*.gguf"))
    if not found:
        raise NotMeasured(f"test-llama-archs wrote no {ARCH}")
    return found[0]


def read_graphs(log: str) -> Iterator[Graph]:
    """Give the copies into the caches of each graph that stores states."""
    for part in log.split(GRAPH)[1:]:
        copies = [each for each in COPY.finditer(part) if each["size"] != "0"]
        graph = {
            kind: [int(each["size"]) for each in copies if each["kind"][0] == kind]
            for kind in KINDS
        }
        if all(graph.values()) and all(each["unit"] == "K" for each in copies):
            yield graph


def count_wrong(graphs: list[Graph]) -> Counter[str]:
    """Count graphs that do not write as many states of both kinds, by how many they write."""
    unit = {kind: min(min(each[kind]) for each in graphs) for kind in KINDS}
    states = [[sum(each[kind]) / unit[kind] for kind in KINDS] for each in graphs]
    return Counter(f"{r:g} and {s:g}" for r, s in states if r != s)


def main() -> int:
    """Run the check."""
    folder, source, work = read_arguments()
    try:
        model, program = write_model(folder, work), build(folder, source, work, source / TEST)
    except Missing as error:
        return report(NO_ENVIRONMENT, 0, check=CHECK, reason=str(error))
    except (NotCompiled, NotMeasured) as error:
        return report(NOT_MEASURED, 0, check=CHECK, reason=str(error))
    done = subprocess.run(
        [program, "-m", model, "-lv", "5"],
        env=os.environ | {"GGML_SCHED_DEBUG": "2"}, capture_output=True, text=True,
    )  # fmt: skip
    graphs = list(read_graphs(done.stdout + done.stderr))
    if len(graphs) < ENOUGH:
        return report(NOT_MEASURED, 0, check=CHECK, reason=f"{len(graphs)} graphs copy states")
    wrong = count_wrong(graphs)
    detail = {"rollback": done.returncode, "states, convolution and delta net": dict(wrong)}
    held = not wrong and done.returncode == 0
    return report(PASS if held else FAIL, len(graphs), check=CHECK, detail=detail)


if __name__ == "__main__":
    sys.exit(main())
