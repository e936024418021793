"""What the drift map costs: the shipped patches and the ladder's, and 40 synthetic ones.

The synthetic patches are one-line changes of 40 source files that an old snapshot has, in ten
topics of four. Time and memory are those of whole processes.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from series.landing.alone import Alone, isolate_stack
from series.manifest import load_series
from series.merge import NOBODY
from series.model import Series, Stack, Step, Topic
from series.stack import scratch_folder
from upstream import process
from upstream.edge import write_json
from upstream.errors import InvalidMeasurement
from upstream.git import Git, Stage
from upstream.lab import Lab, open_lab
from upstream.provider import Upstream, open_upstream
from validate.drift.gather import gather_versions
from validate.drift.model import Carried, Known
from validate.drift.survey import survey
from validate.figures import Figure

ROOT = Path(__file__).resolve().parents[1]
PATCHES, FEW, TOPIC = 40, 10, 4
VERSIONS = 13  # snapshots that must be at hand for the figures to mean what they say
BASE = 8  # of these, the ninth: versions on both sides
RUNS = 3


def bench_drift(lab: Lab, upstream: Upstream, series: Path, ladder: Path) -> list[Figure]:
    """Seconds of the real map, whole process and warm; seconds and peak memory of the large one."""
    held = len(upstream.imported())
    if held < VERSIONS:
        raise InvalidMeasurement(
            f"{held} snapshots are imported, the figures are about {VERSIONS}",
            remedy="nox -s fetch -- --all",
        )
    return [*_bench_real(series, ladder), *_bench_synthetic()]


def _bench_real(series: Path, ladder: Path) -> Iterator[Figure]:
    name = "drift map of the series"
    which = ("--series", str(series))
    yield from _time_map(name, 5.0, *which)
    yield from _time_map(f"{name} and the ladder's", None, *which, "--also", str(ladder))


def _time_map(name: str, bound: float | None, *which: str) -> list[Figure]:
    command = (sys.executable, "-m", "validate.drift", "--upstream", "snapshots", "--json", *which)
    runs = [process.run(command, cwd=ROOT, ok=(0, 1)) for _ in range(RUNS + 1)][1:]
    document = json.loads(runs[0].stdout)
    seconds = sorted(each.seconds for each in runs)[RUNS // 2]
    size = f"{len(document['patches'])} patches x {len(document['versions'])} versions"
    cell = f"{1000 * seconds / document['cells']:.0f} ms a cell"
    what = f"{size}, {cell}, static facts included, whole process, median of {RUNS}, warm"
    return [Figure(name, seconds, "s", bound, detail=what)]


def _bench_synthetic() -> Iterator[Figure]:
    few, many = (_run_child(count) for count in (FEW, PATCHES))
    what = f"{PATCHES} one-line patches in topics of {TOPIC} x {many['versions']:g} versions"
    yield Figure("drift map of synthetic patches", many["seconds"], "s", 30.0, detail=what)
    per_cell = [1000 * each["seconds"] / each["cells"] for each in (few, many)]
    yield Figure("cost of a cell of it, synthetic", per_cell[1], "ms",
                 detail=f"{per_cell[0]:.0f} ms with {FEW} patches")  # fmt: skip
    yield Figure("peak memory, four times the patches", many["memory"] / few["memory"], "times",
                 1.5, detail=f"{few['memory']:.0f} MB with {FEW}, {many['memory']:.0f} MB with "
                 f"{PATCHES}; children of git included")  # fmt: skip


def _run_child(count: int) -> dict[str, float]:
    done = process.run((sys.executable, "-m", "validate.bench_drift", str(count)), cwd=ROOT)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def run_synthetic(count: int) -> dict[str, float]:
    """The map of `count` synthetic patches on all imported snapshots."""
    lab = open_lab()
    upstream = open_upstream(lab, "snapshots", None)
    git, held = upstream.git, upstream.imported()
    known, _ = gather_versions(upstream, [str(v) for v in held][:VERSIONS], [], fetch=False)
    base = known[BASE]
    with scratch_folder(lab) as scratch:
        series, alone = make_patches(git, base, count, scratch)
        drift = survey(git, [Carried(series, each) for each in alone], known)
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    memory = max(resource.getrusage(one).ru_maxrss for one in who) / 1000
    size = {"cells": drift.cells, "versions": len(known)}
    return {"seconds": drift.seconds, "memory": memory, **size}


def make_patches(git: Git, base: Known, count: int, scratch: Path) -> tuple[Series, list[Alone]]:
    """One-line changes of `count` source files of a version, as a series in memory."""
    names = [f"{number:02}.patch" for number in range(count)]
    steps: list[Step] = []
    parent, tree = base.commit, base.tree
    for name, path in zip(names, _choose_files(git, base.tree, count), strict=True):
        content = (git.read_blob(f"{tree}:{path}") or b"").split(b"\n")
        content[len(content) // 2] += b"  // measured"
        entry = Stage("100644", git.write_blob(b"\n".join(content)), 0, path)
        tree = git.edit_tree(tree, [entry], scratch)
        parent = git.write_commit(tree, (parent,), NOBODY, f"{path} : measure\n")
        steps.append(Step(f"topic-{len(steps) // TOPIC}", name, parent, tree))
    topics = tuple(
        Topic(f"topic-{at // TOPIC}", "synthetic", (), tuple(names[at : at + TOPIC]))
        for at in range(0, count, TOPIC)
    )
    series = replace(load_series(ROOT / "series"), base=base.version, topics=topics, landed=())
    return series, isolate_stack(
        git, series, Stack(base.version, base.commit, base.tree, tuple(steps))
    )


def _choose_files(git: Git, tree: str, count: int) -> list[str]:
    """Source files spread over the tree, the same ones every time."""
    listed = git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree).text.split("\0")
    sources = [path for path in listed if path.endswith((".cpp", ".h", ".comp"))]
    sources = [path for path in sources if not path.startswith("vendor/")]
    return sorted(sources, key=lambda path: hashlib.sha256(path.encode()).hexdigest())[:count]


if __name__ == "__main__":
    write_json(run_synthetic(int(sys.argv[1])))
