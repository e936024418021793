"""`python -m validate.speculation`: what each drafter and draft length is worth, measured."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from upstream.edge import add_common_options, run_command, write_json, write_message, write_text
from upstream.errors import UsageError
from upstream.lab import Lab, open_lab
from validate.comparison import Plan
from validate.sample_store import SampleStore, open_samples
from validate.speculation.acceptance import parse_acceptance, parse_temperatures
from validate.speculation.arms import (
    SpecArm,
    label_drafters,
    list_arms,
    parse_drafter,
    parse_lengths,
    parse_rates,
)
from validate.speculation.contest import Arena, Contest
from validate.speculation.judge import (
    blocks_needed,
    confirm_ranking,
    correct_rankings,
    list_doubted,
    rank,
)
from validate.speculation.matrix import (
    choose_code,
    document_outcome,
    format_matrix,
    hold_all,
    list_contests,
)
from validate.speculation.measure import Recorder, Setting, Taken, measure_blocks
from validate.speculation.page import SPECULATION_PAGE, write_contests, write_runs
from validate.speculation.place import choose_models, find_server
from validate.speculation.sessions import make_key
from validate.speculation.tables import (
    PUBLISHED,
    Run,
    document_run,
    format_devices,
    format_published,
    format_run,
    load_conversations,
    load_published,
)


def main() -> None:
    """Parse the command line and run."""
    run_command(make_parser(), sys.argv[1:])


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m validate.speculation", description=__doc__)
    add_common_options(parser)
    add = parser.add_argument
    add("--server", type=Path, metavar="PATH", help="a llama-server (default: the stack's tip)")
    add("--target", type=Path, metavar="GGUF", help="the model (default: SmolLM2-135M)")
    add(
        "--drafter",
        action="append",
        default=[],
        metavar="TYPE[=GGUF]",
        help="simple=FILE, eagle3=FILE, dflash=FILE, dspark=FILE or mtp; several may be named",
    )
    add("--device", action="append", default=[], metavar="NAME", help="cpu, Vulkan0, ROCm0 ...")
    add("--lengths", default="1,2,3,5,7", metavar="N,N", help="fixed draft lengths")
    add("--no-adaptive", action="store_true", help="leave out the adaptive draft length")
    add("--n-min", type=int, default=0, metavar="N", help="shortest draft")
    add("--spec-synth-rates", default="", metavar="P,P", help="synthetic acceptance by position")
    add(
        "--acceptance",
        action="append",
        default=[],
        metavar="P",
        help="synthetic, of each position (or mtp, all): adaptive against the best fixed length",
    )
    add("--temperatures", default="", metavar="T,T", help="of each slot; T/T: of its questions")
    add("--looks", default="8,14,20", metavar="N,N", help="of --acceptance: quads until a verdict")
    add("--budget", type=float, metavar="S", help="of --acceptance: seconds for a comparison")
    add("--conversation", action="append", default=[], metavar="NAME", help="only these")
    add("--slots", type=int, default=1, metavar="N", help="conversations at the same time")
    add("--blocks", type=int, metavar="N", help="runs of all arms, twice each (default: enough)")
    add("--margin", type=float, default=0.02, metavar="X", help="what does not matter (0.02)")
    add("--n-predict", type=int, default=512, metavar="N", help="longest answer, in tokens")
    add("--context", type=int, default=8192, metavar="N", help="tokens of context of a slot")
    add("--threads", type=int, default=os.cpu_count() or 1, metavar="N")
    add("--port", type=int, metavar="N", help="a port of the server (default: a free one)")
    add("--health-seconds", type=float, default=600.0, metavar="S", help="wait for the server")
    add("--seed", type=int, default=1, metavar="N", help="the order of the arms")
    add("--report", type=Path, metavar="PATH", help="the page (report/speculation.html)")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Measure, print, write the page."""
    require_sizes(args)
    lab = open_lab()
    lengths = parse_lengths(args.lengths)
    drafters = label_drafters([parse_drafter(text) for text in args.drafter])
    acceptances = parse_acceptance(args.acceptance) if args.acceptance else ()
    rates = parse_rates(args.spec_synth_rates, max(lengths))
    talks = load_conversations(args.conversation)
    server = find_server(args, lab)
    target, drafters = choose_models(args.target, drafters, lab, server)
    arms = list_arms(
        drafters, lengths, adaptive=not args.no_adaptive, n_min=args.n_min, rates=rates
    )
    setting = Setting(
        server, target, "cpu", args.threads, args.slots, args.n_predict, args.context,
        args.health_seconds, args.port, parse_temperatures(args.temperatures),
        endless=bool(rates or acceptances),
    )  # fmt: skip
    path = (args.report or lab.root / "report" / SPECULATION_PAGE).absolute()
    devices = [replace(setting, device=device) for device in args.device or ["cpu"]]
    with open_samples(lab) as store:
        if acceptances:
            phases = any(len(slot) > 1 for slot in setting.temperatures)
            contests = list_contests(drafters, acceptances, max(lengths), phases=phases)
            return run_contests(
                args,
                [Arena(each, lab, store, make_plan(args), args.seed) for each in devices],
                contests,
                path,
            )
        runs = [measure(args, each, arms, talks, store, lab) for each in devices]
    if args.json:
        write_json({"runs": [document_run(each) for each in runs], "published": load_published()})
    else:
        side = [format_devices(runs)] if PUBLISHED in talks else []
        write_text("\n".join([*map(format_run, runs), *side, format_published()]))
    write_message(f"report: {write_runs(runs, path)}")
    return 0


def require_sizes(args: argparse.Namespace) -> None:
    """Refuse numbers that make no measurement."""
    numbers = (args.slots, args.n_predict, args.threads, 1 if args.blocks is None else args.blocks)
    if min(numbers) < 1 or args.margin <= 0:
        raise UsageError("slots, blocks, tokens, threads and margin must be above 0")
    if args.acceptance and args.spec_synth_rates:
        raise UsageError(
            "--acceptance makes the rates itself", remedy="leave out --spec-synth-rates"
        )


def make_plan(args: argparse.Namespace) -> Plan:
    """How the contests are compared. Raises UsageError where that could decide nothing."""
    try:
        looks = tuple(int(part) for part in args.looks.split(","))
    except ValueError:
        raise UsageError(f"{args.looks!r} are no numbers of quads", remedy="8,14,20") from None
    return Plan(looks=looks, control_quads=looks[0], budget_seconds=args.budget)


def run_contests(
    args: argparse.Namespace, arenas: list[Arena], contests: list[Contest], path: Path
) -> int:
    """Adaptive against the best fixed length at each acceptance, device by device."""
    outcomes = [each for arena in arenas for each in hold_all(arena, contests)]
    if args.json:
        write_json({"contests": [document_outcome(each) for each in outcomes]})
    else:
        write_text(format_matrix(outcomes))
    write_message(f"report: {write_contests(outcomes, path)}")
    return choose_code(outcomes)


def measure(
    args: argparse.Namespace,
    setting: Setting,
    arms: tuple[SpecArm, ...],
    talks: dict[str, list[str]],
    store: SampleStore,
    lab: Lab,
) -> Run:
    """All arms on one device; where adaptive is SLOWER, those arms a second time."""
    blocks = args.blocks or blocks_needed([arm.name for arm in arms], len(talks))

    def take(arms: Sequence[SpecArm], run: int) -> list[Taken]:
        recorder = Recorder(
            store, store.open_session(make_key(setting, arms, talks, args.seed, run))
        )
        return measure_blocks(
            setting, arms, talks, blocks, args.seed, recorder, lab, swapped=run > 1
        )

    taken = take(arms, 1)
    rankings = correct_rankings([rank(taken, name, args.margin) for name in talks])
    if doubted := list_doubted(rankings):
        write_message(f"once more, to confirm: {', '.join(sorted(doubted))}")
        again = take([arm for arm in arms if arm.name in doubted], 2)
        rankings = [confirm_ranking(each, again, args.margin) for each in rankings]
    return Run(setting, blocks, args.margin, tuple(taken), tuple(rankings))


if __name__ == "__main__":
    main()
