"""What building every step costs on an empty cache, beside one clean build of the base."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from upstream import process
from upstream.git import Git
from upstream.lab import Lab
from validate.figures import Figure

ROOT = Path(__file__).resolve().parents[1]


def bench_build(lab: Lab, args: argparse.Namespace) -> list[Figure]:
    """Build the stack in an empty lab (ccache off), then once more with nothing changed.

    The base is the first thing built, from nothing: its seconds are one clean build.
    """
    with tempfile.TemporaryDirectory(dir=lab.scratch) as folder:
        borrow_objects(lab, Path(folder))
        env = {**os.environ, "LAB_DIR": folder, "CCACHE_DISABLE": "1"}
        stack = ("--series", str(args.series), "--upstream", args.upstream)
        process.run((sys.executable, "-m", "series", "rebase", *stack), cwd=ROOT, env=env)
        command = (sys.executable, "-m", "validate", "build", "--json", *stack)
        first, again = (process.run(command, cwd=ROOT, env=env) for _ in range(2))
    steps = json.loads(first.stdout)["steps"]
    assert steps[0]["state"] == "built", steps[0]
    assert len(steps) > 1, "a stack without steps measures nothing"
    base = float(steps[0]["seconds"])
    what = f"base and {len(steps) - 1} steps, empty cache, no ccache, {os.cpu_count()} jobs"
    return [
        Figure("clean build of the base", base, "s", detail=what),
        Figure(
            "all steps / clean build of the base", first.seconds / base, "times", 2.0, detail=what
        ),
        Figure("build with nothing changed", again.seconds, "s", 10.0, detail="whole process"),
    ]


def borrow_objects(lab: Lab, folder: Path) -> None:
    """A lab in `folder` with the imported versions of `lab`, by link."""
    own = Git(folder / "lab.git")
    own.create()
    alternates = own.directory / "objects" / "info" / "alternates"
    alternates.write_text(f"{lab.repository / 'objects'}\n")
    tags = Git(lab.repository).list_refs("refs/tags/upstream")
    script = "".join(f"create {ref} {commit}\n" for ref, commit in tags.items())
    own.run("update-ref", "--stdin", stdin=script.encode())
