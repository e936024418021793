"""`python -m validate.quant_evidence`: the tables that upstream asks for a quantisation type."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from series.manifest import load_series
from series.model import Stack
from series.stack import load_stack
from upstream.edge import (
    add_common_options,
    run_command,
    write_json,
    write_message,
    write_text,
)
from upstream.errors import ExitCode, UsageError
from upstream.git import Git, require_git
from upstream.lab import Lab, hold_lock, open_lab
from validate.build import Builder
from validate.corpus import open_corpus
from validate.fingerprint import describe_toolchain
from validate.guards import Placement
from validate.machine import describe_machine
from validate.models import open_model, provide_model
from validate.quant_evidence.card import write_folder
from validate.quant_evidence.cpu_speed import require_rounds
from validate.quant_evidence.document import Document
from validate.quant_evidence.kept import keep, write_tables
from validate.quant_evidence.place import MODELS, Builds, build_ends, find_model
from validate.quant_evidence.run import Plan, measure_model, measure_weights
from validate.quant_evidence.schemes import choose, list_known, require_names
from validate.quant_evidence.tables import format_documents
from validate.recipe import llama_recipe
from validate.room import Model, Room
from validate.toolchain import find_toolchain

NONE = "none"


def main() -> None:
    """Parse the command line and run."""
    run_command(make_parser(), sys.argv[1:])


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m validate.quant_evidence", description=__doc__)
    add_common_options(parser)
    parser.add_argument(
        "--models",
        default=",".join(MODELS),
        metavar="NAME,...",
        help=f"packaged models, or none: {', '.join(MODELS)} (both)",
    )
    parser.add_argument(
        "--model", type=Path, action="append", default=[], metavar="PATH", help="a GGUF file more"
    )
    parser.add_argument(
        "--types", default="", metavar="NAME,...", help="file types (all that the step knows)"
    )
    parser.add_argument(
        "--chunks", type=_natural, default=16, metavar="N", help="chunks of 512 tokens (16)"
    )
    parser.add_argument(
        "--rounds", type=int, default=8, metavar="N", help="rounds of speed, 0: none (8)"
    )
    parser.add_argument(
        "--no-repacked", action="store_true", help="leave out speeds with repacked weights"
    )
    parser.add_argument("--no-weights", action="store_true", help="leave out the weight errors")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another order of speed")
    parser.add_argument(
        "-t", "--threads", type=_natural, default=1, metavar="N", help="of quantising and KLD (1)"
    )
    parser.add_argument(
        "--speed-threads", type=_natural, default=1, metavar="N", help="of llama-bench (1)"
    )
    parser.add_argument(
        "-j", "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="compilers at once"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="write the documents and their tables there"
    )
    parser.add_argument(
        "--tables", type=Path, metavar="DIR", help="only make the tables of kept documents again"
    )
    parser.add_argument(
        "--upload",
        nargs=2,
        metavar=("TYPE", "DIR"),
        help="also write the first model's file of a type and a card, for a person to upload",
    )
    parser.set_defaults(run=run)
    return parser


def _natural(text: str) -> int:
    """An argument of at least 1."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def run(args: argparse.Namespace) -> int:
    """Measure and print; 4: the machine was not fit for the speeds."""
    if args.tables:
        write_text(write_tables(args.tables))
        return ExitCode.OK
    lab = open_lab()
    with hold_lock(lab, "validate"):
        documents = list(measure(args, lab))
    if args.json:
        write_json({"documents": documents})
    else:
        write_text(format_documents(documents))
    if args.upload:
        scheme, folder = args.upload
        path = write_folder(lab, documents[0], scheme, Path(folder).absolute())
        write_message(f"for a person to read and upload: {path}")
    unfit = [each for document in documents for each in document.get("speed invalid", [])]
    return ExitCode.INVALID if unfit else ExitCode.OK


def measure(args: argparse.Namespace, lab: Lab) -> Iterator[Document]:
    """The documents one after the other, each written to --keep as soon as it is there."""
    require_names(list_types(args))
    if args.rounds:
        require_rounds(args.rounds)
    models = list_models(args, lab)
    git, stack = load(args, lab)
    recipe = llama_recipe(stack.version)
    builder = Builder(lab, git, recipe, find_toolchain(), max(1, args.jobs))
    builds = build_ends(builder, stack)
    plan = make_plan(args, builder, stack, builds, Room(lab, models[0], args.threads))
    for model in models:
        yield _keep(args, measure_model(lab, model, plan, args.threads))
    if not args.no_weights:
        yield _keep(args, measure_weights(lab, plan))


def _keep(args: argparse.Namespace, document: Document) -> Document:
    if args.keep:
        write_message(f"kept: {keep(document, args.keep)}")
    return document


def list_models(args: argparse.Namespace, lab: Lab) -> list[Model]:
    """The packaged models and the user's own. Raises UsageError for none or an unknown one."""
    names = [name for name in args.models.split(",") if name not in ("", NONE)]
    packaged = [find_model(name) for name in names]
    own = [open_model(path) for path in args.model]
    if not (packaged or own):
        raise UsageError("there is no model to measure", remedy="name some with --models")
    return [*(provide_model(lab, each) for each in packaged), *own]


def list_types(args: argparse.Namespace) -> list[str]:
    """The file types that --types names; none: all."""
    return [name for name in args.types.split(",") if name]


def make_plan(
    args: argparse.Namespace, builder: Builder, stack: Stack, builds: Builds, room: Room
) -> Plan:
    """What is measured, and with what."""
    schemes, left_out = choose(list_types(args), list_known(room, builds.tip))
    for scheme in left_out:
        write_message(f"left out: the step's llama-quantize does not know {scheme.name}")
    facts = {
        "upstream": str(stack.version),
        "tip": stack.tip_tree,
        "patches": [step.patch for step in stack.steps],
        "machine": describe_machine(),
        "toolchain": describe_toolchain(builder),
    }
    return Plan(
        builds=builds,
        schemes=schemes,
        native=list_known(room, builds.base),
        corpus=replace(open_corpus(), chunks=args.chunks),
        rounds=args.rounds,
        placement=Placement(args.speed_threads),
        seed=args.seed,
        facts=facts,
        repacked=not args.no_repacked,
    )


def load(args: argparse.Namespace, lab: Lab) -> tuple[Git, Stack]:
    """The repository and the stack of --series. Raises UsageError when it was never applied."""
    require_git()
    series = load_series(args.series)
    git = Git(lab.repository)
    git.create()
    stack = load_stack(git, series)
    if stack is None:
        raise UsageError(f"{args.series} has no stack yet", remedy="run: nox -s rebase")
    return git, stack


if __name__ == "__main__":
    main()
