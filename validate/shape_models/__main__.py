"""`python -m validate.shape_models`: GGUF files of published shapes with random weights."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from upstream.edge import run_command, write_json, write_message, write_text
from upstream.errors import UsageError
from upstream.lab import open_lab
from validate.shape_models.choices import GENERATED, Choice, make_recipe
from validate.shape_models.files import read_head
from validate.shape_models.recipe import Recipe
from validate.shape_models.routing import count_rows, format_histogram, measure_rows, summarise
from validate.shape_models.sets import SETS, list_set
from validate.shape_models.shapes import PRESETS
from validate.shape_models.writer import Written, check_model, data_size, plan_parts, write_model


def main() -> None:
    """Parse the command line and run."""
    run_command(make_parser(), sys.argv[1:])


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m validate.shape_models", description=__doc__)
    commands = parser.add_subparsers(required=True)
    _add_list(commands)
    for name, run, purpose in (
        ("write", run_write, "write a model"),
        ("check", run_check, "compare every byte of a model with its recipe"),
    ):
        command = commands.add_parser(name, help=purpose)
        command.add_argument("preset", metavar="PRESET", help="one of `list`")
        command.add_argument("path", type=Path, metavar="FILE.gguf")
        _add_choices(command)
        command.add_argument(
            "--for", dest="target", type=Path, metavar="GGUF", help="a drafter for this target"
        )
        command.set_defaults(run=run)
    _add_set(commands)
    _add_rows(commands)
    return parser


def _add_list(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("list", help="the presets and their sizes")
    command.add_argument("--type", default="q4_K", metavar="TYPE", help="of all tensors (q4_K)")
    command.add_argument("--json", action="store_true", help="one JSON document on stdout")
    command.set_defaults(run=run_list)


def _add_set(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("set", help="a target with an MTP head and drafters for it")
    command.add_argument("name", metavar="NAME", help=f"one of {', '.join(SETS)}")
    command.add_argument("folder", type=Path, metavar="DIR")
    _add_choices(command)
    command.set_defaults(run=run_set, target=None)


def _add_rows(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("rows", help="rows per expert: how even the routing is")
    add = command.add_argument
    add("path", type=Path, metavar="FILE.gguf")
    add("--tokens", type=int, default=512, metavar="N", help="in one batch (512)")
    add("--imatrix", type=Path, metavar="PROGRAM", help="measure with this llama-imatrix")
    add("--text", type=Path, metavar="FILE", help="what it evaluates (validate/data/corpus.txt)")
    add("--json", action="store_true", help="one JSON document on stdout")
    command.set_defaults(run=run_rows)


def _add_choices(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--seed", type=int, default=1, metavar="N", help="another one makes other bytes")
    add("--layers", type=int, metavar="N", help="fewer layers, each as wide as before")
    add("--type", default="q4_K", metavar="TYPE", help="of all tensors (q4_K)")
    add("--mix", metavar="NAME", help="in place of --type: Q4_K_M ... of upstream's schema")
    add("--schema", type=Path, metavar="FILE", help="the schema (default: upstream's, in the lab)")
    add("--tokenizer", default="generated", metavar="WHICH", help="smollm2, or a GGUF file")
    add("--vocab", type=int, metavar="N", help="another number of tokens than the preset's")
    add("--skew", type=float, default=0.0, metavar="X", help="unequal experts (0.1 to 0.5)")
    add("--endless", action="store_true", help="never write an end of generation")
    add("--threads", type=int, default=os.cpu_count() or 1, metavar="N")
    add("--json", action="store_true", help="one JSON document on stdout")
    add("--replace", action="store_true", help="write over a file that is there")
    add("-v", "--verbose", action="store_true", help="say more on stderr")


def run_list(args: argparse.Namespace) -> int:
    """The presets."""
    rows = [_describe(preset, make_recipe(preset, Choice(kind=args.type))) for preset in PRESETS]
    if args.json:
        write_json([asdict(row) for row in rows])
    else:
        write_text("\n".join(map(_format_row, rows)))
    return 0


@dataclass(frozen=True)
class Row:
    """A preset in the list; `layers` with those of an MTP head."""

    preset: str
    architecture: str
    layers: int
    parameters: int
    bytes: int


def _describe(preset: str, recipe: Recipe) -> Row:
    parts = plan_parts(recipe)
    layers = recipe.shape.n_layer + recipe.shape.n_mtp
    elements = sum(part.tensor.elements for part in parts)
    return Row(preset, recipe.shape.arch, layers, elements, data_size(parts))


def _format_row(row: Row) -> str:
    return (
        f"{row.preset:14} {row.architecture:9} {row.layers:>3} layers "
        f"{row.parameters / 1e9:9.3f} G parameters {row.bytes / 1e9:9.3f} GB"
    )


def run_write(args: argparse.Namespace) -> int:
    """Write one model."""
    recipe = make_recipe(args.preset, choose(args))
    _tell(args, [write_model(recipe, args.path.absolute(), args.threads, replace=args.replace)])
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Compare a model with its recipe."""
    size = check_model(make_recipe(args.preset, choose(args)), args.path.absolute(), args.threads)
    if args.json:
        write_json({"path": str(args.path), "bytes": size})
    else:
        write_text(f"{args.path}: {size} bytes as the recipe makes them")
    return 0


def run_set(args: argparse.Namespace) -> int:
    """Write a target and its drafters; they must not end a generation."""
    written = []
    for recipe, path in list_set(args.name, args.folder.absolute(), choose(args)):
        path.parent.mkdir(parents=True, exist_ok=True)
        written.append(write_model(recipe, path, args.threads, replace=args.replace))
    _tell(args, written)
    return 0


def run_rows(args: argparse.Namespace) -> int:
    """Computed, or measured with a program."""
    if args.tokens < 1:
        raise UsageError("at least one token is needed")
    path = args.path.absolute()
    rows, used = count_rows(read_head(path), args.tokens)
    if args.imatrix:
        rows = measure_rows(path, args.imatrix, args.tokens, args.text, open_lab())
    histogram = summarise(rows, used, "measured" if args.imatrix else "computed")
    if args.json:
        write_json(asdict(histogram))
    else:
        write_text(format_histogram(histogram))
    return 0


def choose(args: argparse.Namespace) -> Choice:
    """The choices of the command line. Raises UsageError for what makes no sense."""
    if args.threads < 1 or args.skew < 0:
        raise UsageError("threads must be at least 1 and the skew not below 0")
    if args.target and (args.tokenizer != GENERATED or args.vocab):
        raise UsageError(
            "a drafter has the vocabulary of its target", remedy="leave out --tokenizer and --vocab"
        )
    return Choice(
        args.seed, args.layers, args.type, args.mix, args.schema, args.tokenizer, args.vocab,
        args.target, args.skew, args.endless,
    )  # fmt: skip


def _tell(args: argparse.Namespace, written: list[Written]) -> None:
    if args.json:
        keys = ("size", "seconds", "reused")
        rows = [{"path": str(w.path)} | {key: getattr(w, key) for key in keys} for w in written]
        write_json({"files": rows})
        return
    for each in written:
        write_text(str(each.path))
        speed = "was there already" if each.reused else f"{each.gigabytes_per_minute:.1f} GB/min"
        write_message(f"{each.path.name}: {each.size / 1e9:.3f} GB, {speed}")


if __name__ == "__main__":
    main()
