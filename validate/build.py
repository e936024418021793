"""Build every step of a stack in one build folder and keep the binaries of each."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from series.model import Stack
from upstream.errors import CommandError, EnvironmentFault
from upstream.git import Git
from upstream.lab import Lab, hold_lock, require_space
from upstream.progress import show_progress
from validate import ninja
from validate.artifacts import ArtifactStore, Difference, StepBinaries, compare_binaries
from validate.compile_error import CompileError, find_compile_error, find_machine_fault
from validate.recipe import Recipe
from validate.source_tree import SourceTree, open_source_tree
from validate.toolchain import Toolchain, step_key

LOGGER = logging.getLogger("lab")
BASE = "base"


@dataclass(frozen=True)
class Plan:
    """One tree to build: the base's or a patch's. `key` names the result."""

    name: str
    tree: str
    key: str


@dataclass(frozen=True)
class StepBuild:
    """How building a step went.

    `seconds` is 0 for what was there already. `difference` is against the parent, None for the
    base and where either of the two did not build.
    """

    plan: Plan
    state: Literal["built", "cached", "failed"]
    seconds: float = 0.0
    binaries: StepBinaries | None = None
    difference: Difference | None = None
    error: CompileError | None = None
    log: Path | None = None

    @property
    def name(self) -> str:
        return self.plan.name


@dataclass(frozen=True)
class Builder:
    """All that building a step takes."""

    lab: Lab
    git: Git
    recipe: Recipe
    toolchain: Toolchain
    jobs: int

    @property
    def store(self) -> ArtifactStore:
        return ArtifactStore(self.lab)

    def plan(self, stack: Stack) -> tuple[Plan, ...]:
        """The base and every step, in order."""
        trees = [(BASE, stack.tree), *((step.patch, step.tree) for step in stack.steps)]
        keys = (step_key(tree, self.toolchain, self.recipe) for _, tree in trees)
        return tuple(Plan(name, tree, key) for (name, tree), key in zip(trees, keys, strict=True))


def build_stack(builder: Builder, stack: Stack, *, keep_going: bool = True) -> list[StepBuild]:
    """Build the base and every step; finished ones are taken from the store.

    A step that does not compile is `failed` and the next is built on its own tree; with
    `keep_going` false it is the last. Raises EnvironmentFault when the machine is at fault
    (disk, memory, a missing tool, another build).
    """
    return _compare(build_plans(builder, builder.plan(stack), keep_going=keep_going))


def build_plans(
    builder: Builder, plans: tuple[Plan, ...], *, keep_going: bool = True
) -> list[StepBuild]:
    """Build some trees, without a comparison; raises what build_stack raises."""
    found = [builder.store.load(plan.key) for plan in plans]
    if all(found):
        pairs = zip(plans, found, strict=True)
        return [StepBuild(plan, "cached", binaries=kept) for plan, kept in pairs]
    with hold_lock(builder.lab, "build"):
        return list(_build_all(builder, plans, keep_going))


def _build_all(builder: Builder, plans: tuple[Plan, ...], keep_going: bool) -> Iterator[StepBuild]:
    source = open_source_tree(builder.lab, builder.git)
    tree = ninja.open_build_tree(builder.lab, source.folder, builder.toolchain, builder.recipe)
    ninja.await_orphans(tree)
    for number, plan in enumerate(plans, 1):
        # Read again: an earlier step of this run may have the same tree.
        if (found := builder.store.load(plan.key)) is not None:
            yield StepBuild(plan, "cached", binaries=found)
            continue
        LOGGER.info("%s: building (%d of %d)", plan.name, number, len(plans))
        step = _build_step(builder, source, tree, plan)
        yield step
        if step.state == "failed" and not keep_going:
            return


def _build_step(
    builder: Builder, source: SourceTree, tree: ninja.BuildTree, plan: Plan
) -> StepBuild:
    needed = builder.recipe.megabytes
    # After the first build only what a step changes is written again.
    require_space(builder.lab, needed // 4 if tree.binaries.exists() else needed, "the build")
    log = builder.lab.log(f"build-{plan.name}")
    started = time.monotonic()
    try:
        source.move(plan.tree)
        kept = _compile_and_keep(builder, tree, plan, log)
    except CommandError as failure:
        error = blame_step(failure, source.folder)
        seconds, log = time.monotonic() - started, failure.failure.log or log
        LOGGER.error("%s: does not build: %s\n    log: %s", plan.name, error, log)
        return StepBuild(plan, "failed", seconds, error=error, log=log)
    return StepBuild(plan, "built", time.monotonic() - started, kept, log=log)


def _compile_and_keep(
    builder: Builder, tree: ninja.BuildTree, plan: Plan, log: Path
) -> StepBinaries:
    ninja.configure(tree, builder.recipe, builder.lab.log(f"configure-{plan.name}"))
    known = ninja.list_targets(tree)
    targets = [target for target in builder.recipe.targets if target in known]
    absent = [target for target in builder.recipe.targets if target not in known]
    if not targets:
        raise EnvironmentFault(
            f"{plan.name}: the source has none of the targets {', '.join(absent)}",
            remedy="check that the stack is one of llama.cpp",
        )
    if absent:
        LOGGER.warning("%s: the source has no target %s", plan.name, ", ".join(absent))
    with show_progress(plan.name, 1) as meter:
        ninja.compile_targets(tree, targets, builder.jobs, log, meter.update)
    uses = {target: ninja.list_binaries(tree, target) for target in targets}
    return builder.store.keep(plan.key, tree.binaries, uses, absent)


def blame_step(failure: CommandError, source: Path) -> CompileError:
    """The compile error in the log of a failed build command.

    Raises EnvironmentFault when the log shows none: then something else went wrong.
    """
    text = ninja.read_log(failure)
    if (fault := find_machine_fault(text)) is not None:
        raise EnvironmentFault(
            f"the machine stopped the build: {fault}\n    log: {failure.failure.log}",
            remedy="free disk space or memory (or lower --jobs), then run the same command again",
        ) from failure
    error = find_compile_error(text, source) if failure.failure.code > 0 else None
    if error is None:
        raise failure
    return error


def _compare(steps: list[StepBuild]) -> list[StepBuild]:
    """Add the difference to the parent where both are built."""
    return steps[:1] + [_compare_one(step, parent) for parent, step in pairwise(steps)]


def _compare_one(step: StepBuild, parent: StepBuild) -> StepBuild:
    if step.binaries is None or parent.binaries is None:
        return step
    difference = compare_binaries(step.binaries, parent.binaries)
    return replace(step, difference=difference)
