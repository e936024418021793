"""A planted slow-down: what the speed measurement is tried on."""

from __future__ import annotations

from series.model import Stack, Step
from upstream.errors import InvalidMeasurement
from upstream.git import Git, Person, Stage
from upstream.lab import Lab

CONTEXT = "src/llama-context.cpp"
LINE = "    auto status = ggml_backend_sched_graph_compute_async(sched.get(), gf);\n"
# The hot loop of every token: as long again as a share of what the graph took.
SLOW = (
    "    const int64_t lab_start = ggml_time_us();\n"
    f"{LINE}"
    "    const int64_t lab_end = ggml_time_us();\n"
    "    while (ggml_time_us() - lab_end < (lab_end - lab_start) * %d / 100) {}\n"
)
WRITER = Person("llama-series-lab", "lab@localhost", "1700000000 +0000")


def plant_slow_down(git: Git, lab: Lab, stack: Stack, percent: int) -> Step:
    """A step on the stack's base in which every graph takes `percent` longer.

    Raises InvalidMeasurement when the source has no such place any more.
    """
    text = git.read_blob(f"{stack.commit}:{CONTEXT}") or b""
    if text.count(LINE.encode()) != 1:
        raise InvalidMeasurement(f"{CONTEXT} of {stack.version} has no place for a slow-down")
    blob = git.write_blob(text.replace(LINE.encode(), (SLOW % percent).encode()))
    tree = git.edit_tree(stack.tree, [Stage("100644", blob, 0, CONTEXT)], lab.scratch)
    commit = git.write_commit(tree, (stack.commit,), WRITER, f"slower by {percent} %\n")
    return Step("planted", f"slow-{percent}.patch", commit, tree)
