"""`python -m validate.prefill`: what upstream's versions and our patches give to prompts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from upstream.edge import add_common_options, run_command, write_json, write_message, write_text
from upstream.errors import InvalidMeasurement, UsageError
from upstream.lab import open_lab
from validate.prefill.grid import GRIDS, Grid, choose_grid, parse_sizes
from validate.prefill.lanes import WAYS, Lane, drop_doubles, list_lanes, look
from validate.prefill.measure import Arena, Outcome, Walked, measure_all, open_arena
from validate.prefill.models import count_experts, head_of, provide_models
from validate.prefill.ops import measure_ops
from validate.prefill.page import PREFILL_PAGE, write_prefill
from validate.prefill.place import Builds, first_binaries
from validate.prefill.points import list_legs
from validate.prefill.shares import Shares, measure_shares
from validate.prefill.tables import Report, choose_code, document_report, format_report
from validate.room import Model, Room
from validate.sample_store import SampleStore, open_samples
from validate.schedule import Plan
from validate.shape_models.choices import Choice

MODEL = "moe-128/2"
OPS_SHARE = 0.25  # of the time, where operators are measured too


def main() -> None:
    """Parse the command line and run."""
    run_command(make_parser(), sys.argv[1:])


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m validate.prefill", description=__doc__)
    add_common_options(parser)
    add = parser.add_argument
    add(
        "--model",
        action="append",
        default=[],
        metavar="GGUF|PRESET[/LAYERS]",
        help=f"a file, or a shape model that is made when missing ({MODEL}); may be repeated",
    )
    add("--type", default="q4_K", metavar="TYPE", help="of a shape model's tensors (q4_K)")
    add("--mix", metavar="NAME", help="in place of --type: Q4_K_M ... of upstream's schema")
    add("--skew", type=float, default=0.0, metavar="X", help="unequal experts (0.1 to 0.5)")
    _add_builds(parser)
    _add_sizes(parser)
    add("--ops", action="store_true", help="test-backend-ops perf at the model's sizes, too")
    add(
        "--shares",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="runs of their own with ggml-vulkan's timestamps (default; Vulkan only)",
    )
    add("--report", type=Path, metavar="PATH", help=f"the page (report/{PREFILL_PAGE})")
    parser.set_defaults(run=run)
    return parser


def _add_builds(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--base", action="append", default=[], metavar="VERSION", help="an older upstream version")
    add("--steps", default="all", metavar="NAME,NAME", help="all, none, or these patches")
    add(
        "--prebuilt",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="programs built elsewhere, in the order of the chain, in place of all these",
    )
    add("--device", action="append", default=[], metavar="NAME", help="cpu (default), Vulkan0 ...")
    add("--path", action="append", choices=WAYS, help="of a Vulkan device (default: both)")
    add("--software", action="store_true", help="a Vulkan driver in software, to try the command")
    add("--root", type=Path, metavar="DIR", help="the toolchain root to build with")
    add("-j", "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="compilers")


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--profile", default="quick", metavar="NAME", help=f"{' or '.join(GRIDS)} (quick)")
    add("--prompts", metavar="N,N", help="tokens of the prompts")
    add("--ubatches", metavar="N,N", help="tokens of a micro-batch")
    add("--depths", metavar="N,N", help="tokens of context before the prompt")
    add("--repetitions", type=int, metavar="N", help="prompts a sample (1; on a device 3)")
    add("--no-flash", action="store_true", help="without flash attention")
    add("--looks", metavar="N,N", help="quads until a verdict (8,14,20)")
    add("--margin", type=float, metavar="X", help="what does not matter (0.02: 2 %%)")
    add("--budget", type=float, metavar="S", help="seconds for everything that is timed")
    add("--limit", type=float, metavar="S", help="seconds for one process")
    add("-t", "--threads", type=int, default=os.cpu_count() or 1, metavar="N")
    add("--seed", type=int, default=1, metavar="N", help="another one measures anew (1)")


def run(args: argparse.Namespace) -> int:
    """Build, measure, print, write the page."""
    grid = make_grid(args)
    lanes = list_lanes(args.device or ["cpu"], args.path or WAYS, args.threads)
    lab = open_lab()
    models = provide_models(
        lab, args.model or [MODEL], Choice(kind=args.type, mix=args.mix, skew=args.skew)
    )
    builds = Builds(args, lab)
    with open_samples(lab) as store:
        arenas = [
            arena
            for model in models
            for arena in open_arenas(args, grid, lanes, builds, model, store)
        ]
        report = measure(args, arenas, grid.seconds)
    if args.json:
        write_json(document_report(report))
    else:
        write_text(format_report(report))
    path = (args.report or lab.root / "report" / PREFILL_PAGE).absolute()
    write_message(f"report: {write_prefill(report, path)}")
    return choose_code(report.outcomes)


def make_grid(args: argparse.Namespace) -> Grid:
    """The profile with what the command line says. Raises UsageError for what makes no sense."""
    grid = choose_grid(args.profile, args.prompts, args.ubatches, args.depths)
    given = (args.threads, args.repetitions, args.margin, args.budget, args.limit)
    if any(number is not None and number <= 0 for number in given) or args.skew < 0:
        raise UsageError("threads, repetitions, margin, budget and limit must be above 0")
    if args.looks:
        looks = parse_sizes(args.looks, "--looks")
        plan = Plan(looks, control_quads=min(looks[0], grid.control_quads))  # refuses too few
        grid = replace(grid, looks=looks, control_quads=plan.control_quads)
    return replace(
        grid,
        flash=not args.no_flash,
        minimum=args.margin or grid.minimum,
        seconds=args.budget or grid.seconds,
        limit=args.limit or grid.limit,
    )


def open_arenas(
    args: argparse.Namespace, grid: Grid, lanes: Sequence[Lane], builds: Builds, model: Model,
    store: SampleStore,
) -> list[Arena]:  # fmt: skip
    """The lanes of a model: each was looked at, none twice."""
    looked = [look_at(lane, grid, builds, model) for lane in lanes]
    kept = drop_doubles(looked, write_message)
    return [_open(args, grid, lane, builds, model, store) for lane in kept]


def _open(
    args: argparse.Namespace, grid: Grid, lane: Lane, builds: Builds, model: Model,
    store: SampleStore,
) -> Arena:  # fmt: skip
    sizes = replace(grid, repetitions=args.repetitions or (3 if lane.vulkan else 1))
    points, room = builds.points(lane), Room(builds.lab, model)
    legs = list_legs(points)
    return open_arena(lane, sizes, room, store, points, legs, builds.toolchain, args.seed)


def look_at(lane: Lane, grid: Grid, builds: Builds, model: Model) -> Lane:
    """The lane as it is: how programs start there, and which path they take.

    A khr lane on another path stays: its cells come out INVALID, with the reason.
    """
    points = builds.points(lane)
    room = Room(builds.lab, model, threads=lane.threads, launch=lane.launch)
    placed = builds.place(lane, room)
    room = replace(room, launch=placed.launch)
    try:
        return look(placed, room, first_binaries(points), grid.limit)
    except InvalidMeasurement as error:
        if placed.way != "khr" or "is the path" not in error.what:
            raise
        write_message(f"{placed.name}: {error.what}")
        return placed


def measure(args: argparse.Namespace, arenas: Sequence[Arena], seconds: float) -> Report:
    """Prompts, then the shares, then the operators."""
    share = OPS_SHARE if args.ops else 0.0
    outcomes = measure_all(arenas, (1 - share) * seconds)
    shares = tuple(take_shares(arena) for arena in arenas) if args.shares else ()
    ops = take_ops(outcomes, share * seconds) if args.ops else ()
    return Report(tuple(outcomes), shares, ops, tuple(dict.fromkeys(list_notes(arenas, shares))))


def take_shares(arena: Arena) -> tuple[Shares, ...]:
    """The shares of an arena; a build whose logger fails has none, and a message says so."""
    try:
        return tuple(measure_shares(arena))
    except InvalidMeasurement as error:
        write_message(f"no shares of {arena.model} on {arena.lane.name}: {error.what}")
        return ()


def take_ops(outcomes: Sequence[Outcome], seconds: float) -> tuple[tuple[Walked, ...], ...]:
    """The operators of every leg."""
    count = max(1, sum(len(outcome.arena.legs) for outcome in outcomes))
    return tuple(
        tuple(
            measure_ops(outcome.arena, outcome.arena.bench.room.lab, leg, seconds / count)
            for leg in outcome.arena.legs
        )
        for outcome in outcomes
    )


def list_notes(arenas: Sequence[Arena], shares: Sequence[tuple[Shares, ...]]) -> list[str]:
    """What a reader could miss: what was not measured, and where rows per expert are told."""
    notes = []
    for index, arena in enumerate(arenas):
        if shares and not shares[index]:
            why = "its logger failed" if arena.lane.vulkan else "ggml-cpu has no logger of them"
            notes.append(f"per-op shares on {arena.lane.name}: none, {why}")
        count, used = count_experts(head_of(arena.bench.room.model))
        if count:
            path = arena.bench.room.model.folder / arena.bench.room.model.name
            size = max(arena.grid.ubatches)
            notes.append(
                f"{arena.model}: {used} of {count} experts a token; rows of each: "
                f"nox -s shape-model -- rows {path} --tokens {size}"
            )
        for point in arena.points:
            if point.error:
                notes.append(f"{point.name}: {point.error}")
    return notes


if __name__ == "__main__":
    main()
