"""Where the server and the models come from when the user names none."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from series.manifest import load_series
from series.model import Stack
from series.stack import load_stack
from upstream import process
from upstream.errors import EnvironmentFault, UsageError
from upstream.git import Git
from upstream.lab import Lab
from validate.build import Builder
from validate.models import open_model, provide_model
from validate.recipe import llama_recipe
from validate.speculation.arms import Drafter
from validate.toolchain import find_toolchain

SERVER = "llama-server"
QUANTIZER = "llama-quantize"
OWN_DRAFTERS = ("Q2_K", "Q8_0")
SECONDS = 600.0


def find_server(args: argparse.Namespace, lab: Lab) -> Path:
    """The server named, or the one that was built last for the stack's tip."""
    if args.server:
        path: Path = args.server.absolute()
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise UsageError(f"there is no program {path}", remedy="name a llama-server")
        return path
    stack = find_stack(args.series, lab)
    builder = Builder(lab, Git(lab.repository), llama_recipe(stack.version), find_toolchain(), 1)
    tip = builder.plan(stack)[-1]
    kept = builder.store.load(tip.key)
    if kept is None or SERVER not in kept.uses:
        raise EnvironmentFault(
            f"no {SERVER} of the stack's tip, {tip.name}, is kept",
            remedy="build the steps: nox -s validate; or name one: --server PATH",
        )
    return kept.folder / SERVER


def find_stack(directory: Path, lab: Lab) -> Stack:
    """The stack of a series. Raises UsageError where there is none."""
    git = Git(lab.repository)
    git.create()
    stack = load_stack(git, load_series(directory))
    if stack is None:
        raise UsageError(f"{directory} has no stack yet", remedy="run: nox -s rebase")
    return stack


def choose_models(
    target: Path | None, drafters: Sequence[Drafter], lab: Lab, server: Path
) -> tuple[Path, list[Drafter]]:
    """What was named; without a target SmolLM2, without a drafter too the target requantised."""
    for path in (target, *(drafter.path for drafter in drafters)):
        if path is not None:
            open_model(path)
    if target is not None:
        return target.absolute(), list(drafters)
    model = provide_model(lab)
    path = model.folder / model.name
    return path, list(drafters) or [requantise(path, each, server) for each in OWN_DRAFTERS]


def requantise(model: Path, kind: str, server: Path) -> Drafter:
    """The model itself in another type, as its own drafter, made by the server's neighbour."""
    path = model.with_name(f"{model.stem}.draft-{kind}.gguf")
    if not path.exists():
        program = server.parent / QUANTIZER
        if not program.exists():
            raise EnvironmentFault(
                f"{program} is needed to make the drafter {path.name}",
                remedy="build it beside the server, or name a drafter: --drafter simple=FILE",
            )
        half = path.with_name(f".{path.name}.{os.getpid()}")
        command: list[str | os.PathLike[str]] = [program, "--allow-requantize", model, half, kind]
        try:
            process.run(command, timeout=SECONDS)
            half.replace(path)
        finally:
            half.unlink(missing_ok=True)
    return Drafter("draft-simple", path, kind)
