"""Configure and compile: cmake and ninja on the one build folder."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from upstream import process
from upstream.errors import CommandError, EnvironmentFault
from upstream.lab import Lab
from validate import hold_and_run
from validate.recipe import Recipe
from validate.toolchain import Toolchain, build_environment

Word = str | os.PathLike[str]
CONFIGURE_SECONDS = 600.0
# How long compilers of a killed run may take to end; the slowest file of llama.cpp takes a minute.
ORPHAN_SECONDS = 180.0
_STATUS = re.compile(r"^\[(\d+)/(\d+)\] ")


@dataclass(frozen=True)
class BuildTree:
    """The build folder of one backend and the tools that work in it."""

    lab: Lab
    source: Path
    folder: Path
    toolchain: Toolchain

    @property
    def binaries(self) -> Path:
        return self.folder / "bin"

    @property
    def lock(self) -> Path:
        """Held by every process of a build, see hold_and_run."""
        return self.lab.root / "build-processes.lock"


def open_build_tree(lab: Lab, source: Path, toolchain: Toolchain, recipe: Recipe) -> BuildTree:
    """The build folder for the recipe's backend."""
    return BuildTree(lab, source, lab.root / f"build-{recipe.backend.name}", toolchain)


def await_orphans(tree: BuildTree, seconds: float = ORPHAN_SECONDS) -> None:
    """Wait until no process of a killed run works in the tree.

    Raises EnvironmentFault when one is still there after `seconds`.
    """
    done = process.run(_held(tree, seconds), ok=(0, hold_and_run.BUSY))
    if done.code == hold_and_run.BUSY:
        raise EnvironmentFault(
            f"compilers of an earlier run still hold {tree.lock} after {seconds:g} s",
            remedy="wait until they end, then run the same command again",
        )


def configure(tree: BuildTree, recipe: Recipe, log: Path) -> None:
    """Run cmake without the options it remembers of the step before.

    Raises CommandError with the log. A step may change the default of an option, or add files that
    CMake finds by a glob. `cmake --fresh` would also remove the objects of top-level targets.
    """
    _start_over_for_other_tools(tree)
    _forget_projects_of_another_ninja(tree)
    (tree.folder / "CMakeCache.txt").unlink(missing_ok=True)
    tools = tree.toolchain
    mapped = f"-ffile-prefix-map={tree.source}=."  # __FILE__ without our path in it
    entries = [f"CMAKE_C_COMPILER={tools.c}", f"CMAKE_CXX_COMPILER={tools.cxx}"]
    entries += [f"CMAKE_MAKE_PROGRAM={tools.ninja}"]
    entries += [f"CMAKE_C_FLAGS={mapped}", f"CMAKE_CXX_FLAGS={mapped}", *recipe.entries]
    if tools.ccache is not None:
        entries += [f"CMAKE_{lang}_COMPILER_LAUNCHER={tools.ccache}" for lang in ("C", "CXX")]
    command: list[Word] = [
        tools.cmake,
        "--fresh",
        "-S",
        tree.source,
        "-B",
        tree.folder,
        "-G",
        "Ninja",
    ]
    command += [f"-D{entry}" for entry in entries]
    _run(tree, command, log, CONFIGURE_SECONDS)


def compile_targets(
    tree: BuildTree,
    targets: Sequence[str],
    jobs: int,
    log: Path,
    on_progress: Callable[[int, int], None],
) -> None:
    """Run ninja; `on_progress` gets done and total. Raises CommandError with the log."""

    def read_status(line: str) -> None:
        if match := _STATUS.match(line):
            on_progress(int(match[1]), int(match[2]))

    command: list[Word] = [tree.toolchain.ninja, "-C", tree.folder, f"-j{jobs}", *targets]
    _run(tree, command, log, None, read_status)


def list_targets(tree: BuildTree) -> frozenset[str]:
    """Every name that ninja can build."""
    lines = _ask(tree, "targets", "all").splitlines()
    return frozenset(line.rpartition(": ")[0] for line in lines)


def list_binaries(tree: BuildTree, target: str) -> tuple[str, ...]:
    """The files in `bin/` that a target is made of: itself and the shared libraries it links."""
    lines = _ask(tree, "inputs", target).splitlines()
    return tuple(line.removeprefix("bin/") for line in lines if line.startswith("bin/"))


def _ask(tree: BuildTree, tool: str, *args: str) -> str:
    return process.run((tree.toolchain.ninja, "-C", tree.folder, "-t", tool, *args)).text


def _run(
    tree: BuildTree,
    command: Sequence[Word],
    log: Path,
    timeout: float | None,
    on_line: Callable[[str], None] | None = None,
) -> None:
    held = (*_held(tree, ORPHAN_SECONDS), *command)
    env = build_environment(tree.lab)
    process.run_logged(held, log, env=env, timeout=timeout, on_line=on_line)


def _start_over_for_other_tools(tree: BuildTree) -> None:
    """Objects of another compiler are of no use, and CMake would not notice all of its changes."""
    stamp = tree.folder / "toolchain.txt"
    identity = tree.toolchain.identity
    if stamp.exists() and stamp.read_text() == identity:
        return
    tree.folder.mkdir(parents=True, exist_ok=True)
    _empty(tree.folder)
    stamp.write_text(identity)


def _forget_projects_of_another_ninja(tree: BuildTree) -> None:
    """Remove builds inside the build that name a ninja elsewhere.

    ExternalProject_Add (upstream's vulkan-shaders-gen) keeps the path of the ninja that configured
    it: that of another checkout's environment, which may be gone.
    """
    own = f"CMAKE_MAKE_PROGRAM:FILEPATH={tree.toolchain.ninja}"
    for cache in tree.folder.rglob("*-prefix/src/*-build/CMakeCache.txt"):
        if own not in cache.read_text("utf-8", "replace").splitlines():
            shutil.rmtree(cache.parents[2])


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _held(tree: BuildTree, seconds: float) -> tuple[Word, ...]:
    script = Path(hold_and_run.__file__)
    return (sys.executable, "-S", "-E", script, tree.lock, str(seconds))


def read_log(error: CommandError) -> str:
    """The whole log of a failed command; its tail where there is no log."""
    log = error.failure.log
    if log is None:
        return error.failure.stderr_tail
    return log.read_text("utf-8", "replace")
