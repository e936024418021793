"""`python -m validate build|run`: build every step of the stack and judge it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from series.manifest import load_series
from series.model import Series, Stack
from series.stack import load_stack
from upstream.edge import (
    add_common_options,
    run_command,
    write_json,
    write_text,
)
from upstream.errors import ExitCode, UsageError
from upstream.git import Git, require_git
from upstream.lab import Lab, open_lab
from validate.build import Builder, build_stack
from validate.checks import Validation, validate_stack
from validate.models import provide_model
from validate.recipe import llama_recipe
from validate.report import (
    document_builds,
    document_verdicts,
    tabulate_builds,
    tabulate_verdicts,
)
from validate.room import Room
from validate.shader_root import SUITES, find_root, make_root
from validate.source_tree import open_check_tree
from validate.toolchain import find_toolchain
from validate.verdict import exit_code


def main() -> None:
    """Parse the command line and run one command."""
    run_command(make_parser(), sys.argv[1:])


def make_parser() -> argparse.ArgumentParser:
    """The command line of the package."""
    parser = argparse.ArgumentParser(prog="python -m validate", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="build the base and every step, keep the binaries")
    _add_build_options(build)
    build.set_defaults(run=run_build)
    run = commands.add_parser("run", help="judge every step against its parent")
    _add_build_options(run)
    run.add_argument(
        "--root", type=Path, metavar="DIR", help="a toolchain folder for the patches' own checks"
    )
    run.add_argument(
        "-t", "--threads", type=int, default=2, metavar="N", help="threads of the programs (2)"
    )
    run.set_defaults(run=run_checks)
    toolchain = commands.add_parser("toolchain", help="make the root for checks of shaders")
    toolchain.add_argument("--suite", choices=SUITES, default=SUITES[0], help="Debian suite")
    toolchain.set_defaults(run=run_toolchain)
    return parser


def _add_build_options(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument(
        "-j", "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="compilers at once"
    )
    parser.add_argument(
        "--keep-going",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="build the steps after one that fails (default)",
    )


def run_build(args: argparse.Namespace) -> int:
    """`build`: one row a step; 1 when a step does not compile."""
    lab = open_lab()
    _, stack = load(args, lab)
    steps = build_stack(make_builder(args, lab, stack), stack, keep_going=args.keep_going)
    if args.json:
        write_json({"steps": document_builds(steps)})
    else:
        write_text(tabulate_builds(steps))
    failed = any(step.state == "failed" for step in steps)
    return ExitCode.GATE_FAILED if failed else ExitCode.OK


def run_checks(args: argparse.Namespace) -> int:
    """`run`: build what is missing, then one verdict a step."""
    lab = open_lab()
    series, stack = load(args, lab)
    builder = make_builder(args, lab, stack)
    builds = build_stack(builder, stack, keep_going=args.keep_going)
    room = Room(lab, provide_model(lab), threads=args.threads)
    source = open_check_tree(lab, builder.git)
    steps = validate_stack(Validation(room, series, source, args.root or find_root(lab)), builds)
    if args.json:
        write_json({"upstream": str(stack.version), "steps": document_verdicts(steps)})
    else:
        write_text(tabulate_verdicts(steps))
    return exit_code(steps)


def run_toolchain(args: argparse.Namespace) -> int:
    """`toolchain`: the folder of the root, made when missing."""
    write_text(str(make_root(open_lab(), args.suite)))
    return ExitCode.OK


def make_builder(args: argparse.Namespace, lab: Lab, stack: Stack) -> Builder:
    """The builder for the real llama.cpp."""
    recipe = llama_recipe(stack.version)
    return Builder(lab, Git(lab.repository), recipe, find_toolchain(), max(1, args.jobs))


def load(args: argparse.Namespace, lab: Lab) -> tuple[Series, Stack]:
    """The series of --series and its stack. Raises UsageError when it was never applied."""
    require_git()
    series = load_series(args.series)
    git = Git(lab.repository)
    git.create()
    stack = load_stack(git, series)
    if stack is None:
        raise UsageError(
            f"{args.series} has no stack yet: its patches were not applied to {series.base}",
            remedy="run: nox -s rebase",
        )
    return series, stack


if __name__ == "__main__":
    main()
