"""`python -m validate.isa`: what each step does to registers, spills, LDS and cost on AMD."""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from series.manifest import load_series
from series.stack import load_stack
from upstream.edge import (
    add_common_options,
    run_command,
    write_json,
    write_message,
    write_text,
)
from upstream.errors import UsageError
from upstream.git import Git, require_git
from upstream.lab import Lab, open_lab
from validate.hip.compiler import HipCompiler, find_hip_compiler
from validate.hip.run import compare_planned, plan_hip
from validate.html_report import ISA_PAGE
from validate.isa.compilers import find_compilers
from validate.isa.judge import exit_code
from validate.isa.page import write_run
from validate.isa.recording import open_bench
from validate.isa.run import IsaRun, Scope, add_hip, run_isa
from validate.isa.tables import document_run, format_run
from validate.isa.workshop import open_workshop


def main() -> None:
    """Parse the command line and run."""
    run_command(make_parser(), sys.argv[1:])


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m validate.isa", description=__doc__)
    add_common_options(parser)
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--changed",
        dest="scope",
        action="store_const",
        const=Scope.CHANGED,
        help="compile only what differs between a step and its parent",
    )
    scope.add_argument(
        "--mat-vec",
        dest="scope",
        action="store_const",
        const=Scope.MAT_VEC,
        help="compile every mat-vec of base and tip too (a quarter of an hour on two cores)",
    )
    scope.add_argument(
        "--all",
        dest="scope",
        action="store_const",
        const=Scope.ALL,
        help="compile every matrix pipeline of base and tip (half an hour on two cores)",
    )
    parser.add_argument(
        "--root",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a toolchain root other than the lab's; several may be named",
    )
    parser.add_argument(
        "--hip-root", type=Path, metavar="DIR", help="the root with clang for HIP, if not the lab's"
    )
    parser.add_argument(
        "-j", "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="compilers at once"
    )
    parser.add_argument(
        "--report", type=Path, metavar="PATH", help="the page (report/isa.html in the lab)"
    )
    parser.set_defaults(run=run, scope=Scope.USUAL)
    return parser


def run(args: argparse.Namespace) -> int:
    """Record, compile, judge, print; 1: the gate says no, 4: a pipeline has no numbers."""
    require_git()
    lab = open_lab()
    found = measure(args, lab)
    if args.json:
        write_json(document_run(found))
    else:
        write_text(format_run(found))
    path = write_run(found, (args.report or lab.root / "report" / ISA_PAGE).absolute())
    write_message(f"report: {path}")
    return exit_code(found.steps)


def measure(args: argparse.Namespace, lab: Lab) -> IsaRun:
    """The outcome for the series that the command line names."""
    series = load_series(args.series)
    git = Git(lab.repository)
    git.create()
    stack = load_stack(git, series)
    if stack is None:
        raise UsageError(f"{args.series} has no stack yet", remedy="run: nox -s rebase")
    with open_workshop(lab, git, args.jobs) as shop:

        def find() -> HipCompiler:
            return find_hip_compiler(lab, shop.folder, args.hip_root)

        # One waits for kernels, one for pipelines; both leave the work to the workshop's pool.
        with ThreadPoolExecutor(1) as beside:
            plan = beside.submit(plan_hip, shop, series, stack, find)
            compilers = find_compilers(lab, shop.folder, args.root)
            bench = open_bench(shop, compilers)
            hip = beside.submit(compare_planned, plan.result())  # or no root for HIP: no start
            try:
                return add_hip(run_isa(bench, compilers, series, stack, args.scope), hip.result())
            except BaseException:
                shop.close()  # nobody waits for the rest
                raise


if __name__ == "__main__":
    main()
