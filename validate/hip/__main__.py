"""`python -m validate.hip`: what each step does to ggml-cuda's kernels on Strix Halo.

`nox -s isa` shows the same beside the shaders; here is the HIP half alone, and any file by name.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from series.manifest import load_series
from series.model import Stack
from series.stack import load_stack
from upstream.edge import add_common_options, run_command, write_json, write_text
from upstream.errors import UsageError
from upstream.git import Git, require_git
from upstream.lab import Lab, open_lab
from upstream.provider import open_upstream
from validate.hip.compile import HipBench
from validate.hip.compiler import HipCompiler, find_hip_compiler
from validate.hip.run import measure_hip
from validate.hip.survey import (
    document_survey,
    format_survey,
    format_survey_markdown,
    survey_exit_code,
    survey_files,
)
from validate.hip.tables import document_hip, format_hip, hip_exit_code
from validate.isa.judge import TIP
from validate.isa.workshop import Workshop, open_workshop


def main() -> None:
    """Parse the command line and run."""
    run_command(make_parser(), sys.argv[1:])


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m validate.hip", description=__doc__)
    add_common_options(parser)
    parser.add_argument(
        "--all",
        nargs="*",
        metavar="FILE",
        help="show these files of ggml-cuda (none named: all of them), changed or not",
    )
    parser.add_argument(
        "--at", metavar="VERSION", help="with --all: this upstream version, not the stack's tip"
    )
    parser.add_argument("--markdown", action="store_true", help="with --all: a Markdown table")
    parser.add_argument("--root", type=Path, metavar="DIR", help="another root than the lab's")
    parser.add_argument(
        "-j", "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="compilers at once"
    )
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Compile, judge, print; 1: the gate says no, 4: a file has no numbers."""
    if args.all is None and (args.at or args.markdown):
        raise UsageError("--at and --markdown go with --all", remedy="add: --all FILE...")
    require_git()
    lab = open_lab()
    git = Git(lab.repository)
    git.create()
    with open_workshop(lab, git, args.jobs) as shop:

        def find() -> HipCompiler:
            return find_hip_compiler(lab, shop.folder, args.root)

        return _show_steps(args, shop, find) if args.all is None else _show(args, lab, shop, find)


def _show_steps(args: argparse.Namespace, shop: Workshop, find: Callable[[], HipCompiler]) -> int:
    series = load_series(args.series)
    found = measure_hip(shop, series, _load_stack(args, shop.git), find, bar=True)
    if args.json:
        write_json(document_hip(found))
    else:
        write_text(format_hip(found))
    return hip_exit_code(found)


def _show(
    args: argparse.Namespace, lab: Lab, shop: Workshop, find: Callable[[], HipCompiler]
) -> int:
    name, tree = _choose_tree(args, lab, shop.git)
    found = survey_files(HipBench(shop, find(), bar=True), tree, name, args.all)
    if args.json:
        write_json(document_survey(found))
    else:
        write_text((format_survey_markdown if args.markdown else format_survey)(found))
    return survey_exit_code(found)


def _choose_tree(args: argparse.Namespace, lab: Lab, git: Git) -> tuple[str, str]:
    if args.at is None:
        return TIP, _load_stack(args, git).tip_tree
    upstream = open_upstream(lab, args.upstream, args.remote)
    version = upstream.resolve(args.at)
    return str(version), git.tree_of(upstream.provide(version))


def _load_stack(args: argparse.Namespace, git: Git) -> Stack:
    stack = load_stack(git, load_series(args.series))
    if stack is None:
        raise UsageError(f"{args.series} has no stack yet", remedy="run: nox -s rebase")
    return stack


if __name__ == "__main__":
    main()
