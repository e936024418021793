"""How fast shape models are written, and that memory does not grow with them."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from upstream import process
from upstream.lab import Lab, require_space
from validate.figures import Figure

ROOT = Path(__file__).resolve().parents[1]
PRESET, FEW, MANY = "moe-128", 1, 8
MEGABYTES = 4000
WRITE = """
import json, os, resource, sys
from pathlib import Path
from validate.shape_models.choices import Choice, make_recipe
from validate.shape_models.writer import write_model
recipe = make_recipe(sys.argv[1], Choice(n_layer=int(sys.argv[2])))
done = write_model(recipe, Path(sys.argv[3]), os.cpu_count() or 1)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
print(json.dumps([done.size, done.seconds, peak]))
"""


def bench_shapes(lab: Lab, args: argparse.Namespace) -> list[Figure]:
    """Write a mixture of experts of one layer and of eight, in the lab."""
    require_space(lab, MEGABYTES, f"{MANY} layers of {PRESET}")
    small = _write(lab, FEW)
    size, seconds, peak = _write(lab, MANY)
    what = f"python -m validate.shape_models write {PRESET} FILE --layers {MANY}"
    return [
        Figure(
            "shape models written in a minute", 60e-9 * size / seconds, "GB", 2.0, True,
            f"{what}: {size / 1e9:.1f} GB, q4_K, {os.cpu_count()} threads, not synced",
        ),
        Figure("peak memory of that", peak, "MB", 500.0, detail=what),
        Figure(
            f"the same, {size / small[0]:.1f} times the size", peak / small[2], "times", 1.2,
            detail=f"{small[2]:.0f} MB with {FEW} layer, {peak:.0f} MB with {MANY}",
        ),
    ]  # fmt: skip


def _write(lab: Lab, layers: int) -> tuple[float, float, float]:
    """Bytes, seconds and peak memory in MB."""
    with tempfile.TemporaryDirectory(dir=lab.scratch) as folder:
        words = (PRESET, str(layers), str(Path(folder) / "x.gguf"))
        done = process.run((sys.executable, "-c", WRITE, *words), cwd=ROOT)
    size, seconds, peak = json.loads(done.text)
    return size, seconds, peak
