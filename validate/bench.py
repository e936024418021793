"""`nox -s bench`: measure the project's own numbers and, with --write, keep them in the docs."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from upstream import process
from upstream.edge import add_common_options, run_command, write_json, write_message, write_text
from upstream.errors import ExitCode
from upstream.lab import Lab, open_lab
from upstream.provider import open_upstream
from upstream.version import Version
from validate.bench_build import bench_build
from validate.bench_drift import bench_drift
from validate.bench_export import bench_export
from validate.bench_rebase import bench_rebase
from validate.bench_shapes import bench_shapes
from validate.bench_speed import bench_speed
from validate.bench_statistics import list_figures, simulate_models
from validate.figures import Figure, format_figures, store_figures
from validate.method_figure import store_simulation

ROOT = Path(__file__).resolve().parents[1]
LADDER = ROOT / "tests" / "data" / "series-b10566"
LADDER_END = Version(11549)
DOCUMENT = ROOT / "docs" / "performance.md"
METHOD = ROOT / "docs" / "explanation" / "method.md"


def build_parser() -> argparse.ArgumentParser:
    """Which groups of figures to measure; all quick ones by default."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    add_common_options(parser)
    parser.add_argument(
        "--only",
        choices=sorted(GROUPS),
        action="append",
        metavar="GROUP",
        help=f"one of {', '.join(sorted(GROUPS))}; may be repeated "
        "(default: the quick ones; build takes a quarter of an hour, speed hours)",
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=20,
        metavar="N",
        help="of group speed: A/A runs (20)",
    )
    parser.add_argument(
        "--planted",
        type=int,
        default=10,
        metavar="N",
        help="of group speed: runs for each planted slow-down (10)",
    )
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Measure the chosen groups; exit 1 when a figure misses its bound."""
    lab = open_lab()
    chosen = args.only or [name for name in sorted(GROUPS) if name not in SLOW]
    figures = [figure for name in chosen for figure in GROUPS[name](lab, args)]
    if args.write:
        store_figures(DOCUMENT, figures)
        write_message(f"wrote {DOCUMENT.relative_to(ROOT)}")
    if args.json:
        write_json([{**vars(figure), "met": figure.met} for figure in figures])
    else:
        write_text(format_figures(figures))
    return ExitCode.OK if all(figure.met for figure in figures) else ExitCode.GATE_FAILED


def measure_rebase(lab: Lab, args: argparse.Namespace) -> list[Figure]:
    """The ladder's series, ours against git's."""
    upstream = open_upstream(lab, args.upstream, args.remote)
    return bench_rebase(lab, upstream, LADDER, LADDER_END)


def measure_nothing_to_do(lab: Lab, args: argparse.Namespace) -> list[Figure]:
    """`python -m series rebase` on a stack that stands where it should, whole process."""
    command = (
        sys.executable,
        "-m",
        "series",
        "rebase",
        "--series",
        str(args.series),
        "--upstream",
        args.upstream,
    )
    process.run(command, cwd=ROOT)
    times = []
    for _ in range(5):
        done = process.run(command, cwd=ROOT)
        assert "nothing to do" in done.text, done.text
        times.append(done.seconds)
    return [
        Figure(
            "rebase with nothing to do",
            sorted(times)[2],
            "s",
            2.0,
            detail="whole process, median of 5, warm",
        )
    ]


def measure_import(lab: Lab, args: argparse.Namespace) -> list[Figure]:
    """Import the newest snapshot into an empty lab from the downloaded archive."""
    version = open_upstream(lab, "snapshots", None).head()
    process.run(
        (sys.executable, "-m", "upstream", "fetch", "--upstream", "snapshots", str(version)),
        cwd=ROOT,
    )
    with tempfile.TemporaryDirectory(dir=lab.scratch) as folder:
        (Path(folder) / "downloads").symlink_to(lab.downloads)
        code = IMPORT.format(version=version)
        env = {**os.environ, "LAB_DIR": folder}
        started = time.monotonic()
        done = process.run((sys.executable, "-c", code), cwd=ROOT, env=env)
        seconds = time.monotonic() - started
    what = f"{version} from its downloaded archive, whole process"
    return [
        Figure("import of a downloaded snapshot", seconds, "s", 15.0, detail=what),
        Figure(
            "peak memory of that import",
            float(done.text),
            "MB",
            500.0,
            detail="largest process, git fast-import included",
        ),
    ]


IMPORT = """
import resource
from upstream.lab import open_lab
from upstream.provider import open_upstream
from upstream.version import parse_version
open_upstream(open_lab(), "snapshots", None).provide(parse_version("{version}"))
who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
print(max(resource.getrusage(one).ru_maxrss for one in who) / 1000)
"""


def measure_build(lab: Lab, args: argparse.Namespace) -> list[Figure]:
    """All steps on an empty cache against one clean build of the base."""
    return bench_build(lab, args)


def measure_statistics(lab: Lab, args: argparse.Namespace) -> list[Figure]:
    """The errors of the method on simulated machines; with --write the picture of method.md too."""
    outcomes = simulate_models()
    if args.write:
        store_simulation(METHOD, outcomes)
    return list_figures(outcomes)


def measure_drift(lab: Lab, args: argparse.Namespace) -> list[Figure]:
    """The drift map of the shipped and the ladder's series, and of synthetic patches."""
    return bench_drift(lab, open_upstream(lab, "snapshots", None), args.series, LADDER)


GROUPS: dict[str, Callable[[Lab, argparse.Namespace], list[Figure]]] = {
    "build": measure_build,
    "drift": measure_drift,
    "export": bench_export,
    "import": measure_import,
    "noop": measure_nothing_to_do,
    "rebase": measure_rebase,
    "shapes": bench_shapes,
    "speed": bench_speed,
    "statistics": measure_statistics,
}
SLOW = ("build", "speed")


if __name__ == "__main__":
    run_command(build_parser(), sys.argv[1:])
