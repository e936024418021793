"""The drop-check: the patch's own check on plain upstream, and on the version before the landing.

It passes on plain upstream only when the patch is not needed there, provided that it can fail: so
it must fail on the version before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from series.model import Series, Stack
from upstream.errors import EnvironmentFault, ExitCode, InvalidMeasurement, UsageError
from upstream.git import Git
from upstream.lab import Lab, hold_lock
from validate.artifacts import StepBinaries
from validate.build import Builder, Plan, build_stack
from validate.drift.model import Known
from validate.landing.signals import DROP_CHECK, Sign
from validate.recipe import llama_recipe
from validate.room import Model, Room
from validate.shader_root import find_root
from validate.source_tree import open_check_tree
from validate.teeth import DOES_NOT, HOLDS, Bite, OwnCheck, Tree, bite, find_script
from validate.toolchain import find_toolchain
from validate.vulkan.lane import build_plain, find_kit
from validate.vulkan.programs import VARIABLE as VULKAN
from validate.vulkan.programs import VulkanPrograms

NOT_ASKED = "not run: --run-checks runs it"


@dataclass(frozen=True)
class Kennel:
    """Where drop-checks run; `jobs` compilers at once where one needs the programs."""

    lab: Lab
    git: Git
    jobs: int
    root: Path | None = None

    def run(self, script: Path, version: Known) -> Bite:
        """The answer of a check for the plain tree of a version."""
        own = OwnCheck(
            script, open_check_tree(self.lab, self.git), self.root or find_root(self.lab)
        )
        room = Room(self.lab, Model(self.lab.scratch, "", ""))  # a check brings its own model
        tree = self._build(version) if needs_programs(script) else self._bare(version)
        if needs_vulkan(script):
            tree = replace(tree, vulkan=self._build_vulkan(room, version))
        with hold_lock(self.lab, "validate"):
            return bite(room, own, tree)[0]

    def _builder(self, version: Known) -> Builder:
        recipe = llama_recipe(version.version)
        return Builder(self.lab, self.git, recipe, find_toolchain(), max(1, self.jobs))

    def _build_vulkan(self, room: Room, version: Known) -> VulkanPrograms | None:
        """The version built with Vulkan; None where this machine cannot, which the check says."""
        kit = find_kit(self.lab, self.root)
        stack = Stack(version.version, version.commit, version.tree, ())
        return build_plain(self._builder(version), stack, room, kit) if kit else None

    def _build(self, version: Known) -> Tree:
        builder = self._builder(version)
        (plain,) = build_stack(builder, Stack(version.version, version.commit, version.tree, ()))
        if plain.binaries is None:
            raise InvalidMeasurement(f"plain {version.version} does not build: {plain.error}")
        return Tree(plain.plan, plain.binaries)

    def _bare(self, version: Known) -> Tree:
        folder = self.lab.root / "no-programs"
        folder.mkdir(exist_ok=True)
        key = f"source-{version.tree}"
        binaries = StepBinaries(key, folder, {}, {}, ())
        return Tree(Plan(f"plain {version.version}", version.tree, key), binaries)


def check_drop(
    kennel: Kennel, series: Series, patch: str, version: Known, before: Known | None
) -> Sign:
    """The third sign. What the machine lacks makes it say nothing, with the reason."""
    name = series.claim(patch).check
    if not name:
        return Sign(DROP_CHECK, None, "not run: the patch has no check")
    try:
        return _judge(kennel, find_script(series.directory, name), version, before)
    except (EnvironmentFault, InvalidMeasurement, UsageError) as error:
        return Sign(DROP_CHECK, None, f"not run: {error.what.splitlines()[0]}")


def _judge(kennel: Kennel, script: Path, version: Known, before: Known | None) -> Sign:
    now = kennel.run(script, version)
    if now.code == DOES_NOT:
        return Sign(DROP_CHECK, False, f"{script.name} fails on plain {version.version}")
    if now.code != HOLDS:
        return Sign(DROP_CHECK, None, _say(now, script, version))
    passes = f"{script.name} passes on plain {version.version} ({now.cases} cases)"
    if before is None:
        return Sign(DROP_CHECK, None, f"{passes}; no older version is at hand to fail on")
    then = kennel.run(script, before)
    if then.code == DOES_NOT:
        return Sign(DROP_CHECK, True, f"{passes}, fails on {before.version}")
    if then.code == HOLDS:
        return Sign(DROP_CHECK, None, f"{passes}, but on {before.version} too: toothless there")
    return Sign(DROP_CHECK, None, f"{passes}; {_say(then, script, before)}")


def _say(answer: Bite, script: Path, version: Known) -> str:
    lacking = answer.code == int(ExitCode.ENVIRONMENT)
    word = "not run" if lacking else "measured nothing"
    return f"{script.name} on plain {version.version}: {word}: {answer.said}"


def needs_programs(script: Path) -> bool:
    """Whether a check reads its `--bin` option: the script, or a neighbour that it imports."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "bin"
        for tree in _with_neighbours(script, set())
        for node in ast.walk(tree)
    )


def needs_vulkan(script: Path) -> bool:
    """Whether a check, or a neighbour that it imports, asks for the Vulkan build by its name."""
    return any(
        isinstance(node, ast.Constant) and node.value == VULKAN
        for tree in _with_neighbours(script, set())
        for node in ast.walk(tree)
    )


def _with_neighbours(script: Path, seen: set[Path]) -> Iterator[ast.Module]:
    if script in seen or not script.is_file():
        return
    seen.add(script)
    tree = _parse(script)
    yield tree
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            yield from _with_neighbours(script.with_name(f"{name}.py"), seen)


def _parse(script: Path) -> ast.Module:
    """A script that is no Python needs no programs: it says so itself when it runs."""
    try:
        return ast.parse(script.read_bytes())
    except (SyntaxError, ValueError):
        return ast.Module([], [])
