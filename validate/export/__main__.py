"""`python -m validate.export`: every topic as a branch of its own, with the evidence upstream asks
for. Nothing is pushed or posted."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from series.commands import Bench, open_bench
from upstream.edge import add_common_options, run_command, write_json, write_message, write_text
from upstream.errors import ExitCode, UsageError
from validate.export.report import Summary, document_summary, format_summary
from validate.export.run import Options, export_topics
from validate.export.search import PullRequestSearch
from validate.guards import NO_DEVICE
from validate.vulkan.options import add_vulkan_options


def build_parser() -> argparse.ArgumentParser:
    """All options; docs/reference/commands.md lists them."""
    parser = argparse.ArgumentParser(prog="export", description=__doc__)
    add_common_options(parser)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="default: every topic")
    parser.add_argument("--onto", default="HEAD", metavar="VERSION", help="default: HEAD")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: export/ in the lab")
    parser.add_argument(
        "--build",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="build and judge every topic alone (default)",
    )
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 when a topic is not READY"
    )
    parser.add_argument(
        "--offline", action="store_true", help="do not search upstream's pull requests"
    )
    parser.add_argument(
        "--author", default="", metavar="LOGIN", help="your name on GitHub, for newcomers' rules"
    )
    _add_trial_options(parser)
    parser.set_defaults(run=run)
    return parser


def _add_trial_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-j", "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="compilers at once"
    )
    parser.add_argument(
        "-t", "--threads", type=int, default=2, metavar="N", help="threads of the programs (2)"
    )
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="a toolchain folder for the patches' own checks"
    )
    parser.add_argument(
        "--profile",
        default="none",
        metavar="NAME",
        help="measure speed too: quick, full (none: only what the store has)",
    )
    add_vulkan_options(parser)
    # What `validate` has options for and a trial takes as it is.
    parser.set_defaults(budget=None, seed=1, device=NO_DEVICE, ops="", ops_parameters="")


def run(args: argparse.Namespace) -> int:
    """Export under the series' lock; 1 when a gate said no, with --check when one is not READY."""
    with open_bench(args) as bench:
        output = (args.output or bench.lab.root / "export" / bench.series.id).absolute()
        refuse_checkout(output)
        summary, backup = export_topics(bench, read_options(args, bench, output))
    if args.json:
        write_json(document_summary(summary))
    else:
        write_text(format_summary(summary))
    if backup:
        write_message(f"branches that stood elsewhere are kept as {backup}")
    return exit_code(summary, strict=args.check)


def exit_code(summary: Summary, *, strict: bool) -> ExitCode:
    """0, or 1 for what a gate refused; with `strict` also for what only waits for a person."""
    states = [each.readiness for each in summary.exported]
    bad = any(state.failed or (strict and not state.ready) for state in states)
    return ExitCode.GATE_FAILED if bad else ExitCode.OK


def read_options(args: argparse.Namespace, bench: Bench, output: Path) -> Options:
    """What the command line asks for. What builds is imported only when something is built."""
    onto = bench.upstream.resolve(args.onto)
    lookup = None if args.offline else PullRequestSearch()
    options = Options(onto, tuple(args.topics), output, None, lookup, args.author)
    if not args.build:
        return options
    from validate.export.trial import Workshop
    from validate.profiles import find_profile

    workshop = Workshop(bench.lab, bench.git, bench.series, args, find_profile(args.profile))
    return replace(options, trial=workshop.try_alone)


def refuse_checkout(output: Path) -> None:
    """The output is not a git checkout: what is there would mix with a person's work."""
    if (output / ".git").exists():
        raise UsageError(
            f"{output} is a git checkout; the export writes into none",
            remedy="name a folder beside it: --output DIR",
        )


if __name__ == "__main__":
    run_command(build_parser(), sys.argv[1:])
