"""`python -m validate.speculation`: what each drafter and draft length is worth, measured."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path

from upstream.download import hash_file
from upstream.edge import add_common_options, run_command, write_json, write_message, write_text
from upstream.errors import UsageError
from upstream.lab import Lab, open_lab
from validate.machine import machine_fingerprint
from validate.models import open_model
from validate.sample_store import SampleStore, SessionKey, open_samples
from validate.speculation.arms import (
    SpecArm,
    label_drafters,
    list_arms,
    parse_drafter,
    parse_lengths,
    parse_rates,
)
from validate.speculation.judge import rank
from validate.speculation.measure import Recorder, Setting, measure_blocks
from validate.speculation.page import SPECULATION_PAGE, write_runs
from validate.speculation.place import choose_models, find_server
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
from validate.statistics import quads_needed

BLOCKS = quads_needed(0.05)  # fewer give no interval


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
    add("--conversation", action="append", default=[], metavar="NAME", help="only these")
    add("--slots", type=int, default=1, metavar="N", help="conversations at the same time")
    add("--blocks", type=int, default=BLOCKS, metavar="N", help="runs of all arms, twice each")
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
    if min(args.slots, args.blocks, args.n_predict, args.threads) < 1 or args.margin <= 0:
        raise UsageError("slots, blocks, tokens, threads and margin must be above 0")
    lab = open_lab()
    lengths = parse_lengths(args.lengths)
    rates = parse_rates(args.spec_synth_rates, max(lengths))
    drafters = label_drafters([parse_drafter(text) for text in args.drafter])
    conversations = load_conversations(args.conversation)
    server = find_server(args, lab)
    target, drafters = choose_models(args.target, drafters, lab, server)
    arms = list_arms(
        drafters, lengths, adaptive=not args.no_adaptive, n_min=args.n_min, rates=rates
    )
    setting = Setting(
        server, target, "cpu", args.threads, args.slots, args.n_predict, args.context,
        args.health_seconds, args.port,
    )  # fmt: skip
    with open_samples(lab) as store:
        runs = [
            measure(args, replace(setting, device=device), arms, conversations, store, lab)
            for device in args.device or ["cpu"]
        ]
    if args.json:
        write_json({"runs": [document_run(each) for each in runs], "published": load_published()})
    else:
        side = [format_devices(runs)] if PUBLISHED in conversations else []
        write_text("\n".join([*map(format_run, runs), *side, format_published()]))
    path = args.report or lab.root / "report" / SPECULATION_PAGE
    write_message(f"report: {write_runs(runs, path.absolute())}")
    return 0


def measure(
    args: argparse.Namespace,
    setting: Setting,
    arms: tuple[SpecArm, ...],
    conversations: dict[str, list[str]],
    store: SampleStore,
    lab: Lab,
) -> Run:
    """All arms on one device."""
    session = store.open_session(make_key(setting, arms, conversations, args.seed))
    recorder = Recorder(store, session)
    taken = measure_blocks(setting, arms, conversations, args.blocks, args.seed, recorder, lab)
    rankings = tuple(rank(taken, name, args.margin) for name in conversations)
    return Run(setting, args.blocks, args.margin, tuple(taken), rankings)


def make_key(
    setting: Setting, arms: tuple[SpecArm, ...], conversations: dict[str, list[str]], seed: int
) -> SessionKey:
    """What decides the numbers of a run."""
    files = sorted(p for p in setting.server.resolve().parent.glob("*.so*") if p.is_file())
    server = " ".join(hash_file(path) for path in [setting.server, *files])
    shared = asdict(setting) | {"server": "", "target": "", "port": None, "health_seconds": 0}
    drafters = {arm.drafter.path for arm in arms if arm.drafter and arm.drafter.path}
    what = [shared, conversations, [asdict(arm) for arm in arms]]
    return SessionKey(
        parent="llama-server",
        step="speculation",
        binaries=(server, ""),
        toolchain="",
        machine=machine_fingerprint(),
        model=" ".join(open_model(p).sha256 for p in [setting.target, *sorted(drafters)]),
        setting=json.dumps(what, default=str),
        seed=seed,
    )


if __name__ == "__main__":
    main()
