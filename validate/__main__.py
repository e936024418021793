"""`python -m validate build|run`: build every step of the stack and judge it."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

from series.manifest import load_series
from series.model import Series, Stack
from series.stack import load_stack
from upstream.edge import (
    add_common_options,
    run_command,
    write_json,
    write_message,
    write_text,
)
from upstream.errors import EnvironmentFault, ExitCode, UsageError
from upstream.git import Git, require_git
from upstream.lab import Lab, hold_lock, open_lab
from validate.build import Builder, build_stack
from validate.checks import Validation, validate_stack
from validate.corpus import open_corpus
from validate.fingerprint import describe_run
from validate.guards import NO_DEVICE, Placement
from validate.html_report import write_report
from validate.ledger.check import LedgerBook, met_versions
from validate.markdown_tables import format_all
from validate.models import open_model, provide_model
from validate.profiles import NONE, PROFILES, Profile, find_profile
from validate.recipe import llama_recipe
from validate.report import (
    document_builds,
    document_verdicts,
    list_not_run,
    tabulate_builds,
    tabulate_verdicts,
)
from validate.report_build import Findings, make_report
from validate.room import Room
from validate.sample_store import open_samples
from validate.shader_root import HIP_SUITE, SUITES, find_root, make_root
from validate.source_tree import open_check_tree
from validate.speed import Bench
from validate.speed_stack import (
    add_speed,
    compare_stack,
    list_pairings,
    measure_stack,
    require_measurable,
)
from validate.toolchain import find_toolchain
from validate.verdict import exit_code
from validate.vulkan.kit import REMEDY
from validate.vulkan.lane import Lane, find_kit, open_lane
from validate.vulkan.options import add_vulkan_options


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
    run.add_argument(
        "--report",
        type=Path,
        metavar="PATH",
        help="where the HTML report goes (report/index.html in the lab)",
    )
    _add_speed_options(run)
    add_vulkan_options(run)
    run.set_defaults(run=run_checks)
    samples = commands.add_parser("samples", help="every stored sample of speed, as JSON lines")
    samples.set_defaults(run=run_samples)
    toolchain = commands.add_parser("toolchain", help="make the root for checks of shaders")
    toolchain.add_argument(
        "--suite", choices=(*SUITES, HIP_SUITE), default=SUITES[0], help="Debian suite"
    )
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


def _add_speed_options(parser: argparse.ArgumentParser) -> None:
    names = ", ".join((*PROFILES, NONE))
    parser.add_argument(
        "--profile", default="quick", metavar="NAME", help=f"how much speed to measure: {names}"
    )
    parser.add_argument(
        "--strict", action="store_true", help="an inconclusive speed is a no (exit code 1)"
    )
    parser.add_argument(
        "--model", type=Path, metavar="PATH", help="another GGUF file than SmolLM2-135M"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="another one measures speed anew (1)"
    )
    parser.add_argument(
        "--budget", type=_seconds, metavar="SECONDS", help="for the speed of the whole stack"
    )
    parser.add_argument(
        "--device", default="none", metavar="NAME", help="as --list-devices names it (none: CPU)"
    )
    parser.add_argument(
        "--ops", default="", metavar="OP,...", help="operators for test-backend-ops perf"
    )
    parser.add_argument(
        "--ops-parameters", default="", metavar="REGEX", help="which of their cases (all)"
    )


def _seconds(text: str) -> float:
    """An argument in seconds."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


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
    profile = find_profile(args.profile)
    chosen = open_model(args.model) if args.model else None
    series, stack = load(args, lab)
    builder = make_builder(args, lab, stack)
    builds = build_stack(builder, stack, keep_going=args.keep_going)
    room = Room(lab, chosen or provide_model(lab), threads=args.threads)
    source = open_check_tree(lab, builder.git)
    if profile and (args.model or args.device != NO_DEVICE):
        require_measurable(room, builds, Placement(1, args.device), profile)
    book = LedgerBook(lab, builder.git, series, stack, met_versions(builder.git, series, stack))
    root = args.root or find_root(lab)
    lane = make_lane(args, builder, stack, room)
    validation = Validation(room, series, source, root, book, open_corpus(), lane)
    found = Findings(validate_stack(validation, builds), builds)
    if profile:
        found = measure(args, profile, room, builder, found)
    code = exit_code(found.steps, strict=args.strict)
    if args.json:
        document = document_verdicts(found.steps, found.speeds)
        write_json({"upstream": str(stack.version), "steps": document})
    else:
        write_text(tabulate_verdicts(found.steps, found.speeds))
    for line in (*list_not_run(found.steps), *(lane.not_measured if lane else ())):
        write_message(line)
    header = describe_run(builder, stack, room)
    if lane:
        header = lane.describe(header)
        found = replace(found, not_measured=(*found.not_measured, *lane.not_measured))
    report = make_report(header, series, found)
    path = write_report(report, (args.report or lab.root / "report" / "index.html").absolute())
    write_message(f"report: {path}")
    return code


def measure(
    args: argparse.Namespace,
    profile: Profile,
    room: Room,
    builder: Builder,
    found: Findings,
) -> Findings:
    """What was found with the speed's verdicts, its comparisons and tables for a pull request."""
    pairings = list_pairings(found.builds)
    with hold_lock(room.lab, "validate"), open_samples(room.lab) as store:
        bench = Bench(
            room=room,
            profile=profile,
            store=store,
            toolchain=hashlib.sha256(builder.toolchain.identity.encode()).hexdigest(),
            budget=args.budget or profile.seconds,
            seed=args.seed,
            placement=Placement(profile.threads or room.threads, args.device),
            ops=tuple(filter(None, args.ops.split(","))),
            ops_parameters=args.ops_parameters,
        )
        measured = measure_stack(bench, pairings)
    speeds = compare_stack(pairings, measured)
    text = format_all(speeds, {name: each.samples for name, each in measured.items()})
    steps = add_speed(found.steps, pairings, measured)
    return Findings(steps, found.builds, speeds, pr_text=text)


def make_lane(args: argparse.Namespace, builder: Builder, stack: Stack, room: Room) -> Lane | None:
    """The Vulkan lane as --vulkan asks for it. Raises EnvironmentFault for `on` without tools."""
    if args.vulkan == "off":
        return None
    kit = find_kit(room.lab, args.root)
    if kit is None and args.vulkan == "on":
        raise EnvironmentFault("no glslc, headers and loader for Vulkan here", remedy=REMEDY)
    limit, device = max(1, args.vulkan_cases), args.vulkan_device
    return open_lane(builder, stack, room, kit, limit=limit, device=device)


def run_samples(args: argparse.Namespace) -> int:
    """`samples`: one line of JSON a sample, with the key of its session."""
    with open_samples(open_lab()) as store:
        for line in store.export():
            write_text(line)
    return ExitCode.OK


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
