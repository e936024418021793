"""The compiler, cmake, ninja and ccache of this machine, and what identifies their output."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upstream import process
from upstream.errors import EnvironmentFault
from upstream.lab import Lab
from validate.recipe import Recipe

KEY_FORMAT = "1"  # raise it when the content of a step folder changes
# Flags and generators of the caller's shell would make two machines build different binaries.
FOREIGN = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CLICOLOR_FORCE", "NINJA_STATUS")


@dataclass(frozen=True)
class Toolchain:
    """The programs of a build; `identity` is the text that stands for what they produce."""

    cmake: Path
    ninja: Path
    c: Path
    cxx: Path
    ccache: Path | None
    identity: str


def find_toolchain() -> Toolchain:
    """Find the programs; cmake and ninja come from the Python environment before PATH.

    Raises EnvironmentFault when one is missing. ccache may be missing.
    """
    cmake = _find(("cmake",), "cmake")
    c = _find(_named("CC") or ("cc", "gcc", "clang"), "a C compiler")
    cxx = _find(_named("CXX") or ("c++", "g++", "clang++"), "a C++ compiler")
    ccache = shutil.which("ccache")
    return Toolchain(
        cmake=cmake,
        ninja=_find(("ninja",), "ninja"),
        c=c,
        cxx=cxx,
        ccache=Path(ccache) if ccache else None,
        identity="\n".join((*map(_identify_compiler, (c, cxx)), _first_line(cmake))),
    )


def step_key(tree: str, toolchain: Toolchain, recipe: Recipe) -> str:
    """The name of a build: source tree, toolchain, options and targets. 64 hex digits."""
    parts = (KEY_FORMAT, tree, toolchain.identity, recipe.backend.name)
    text = "\n".join((*parts, *recipe.entries, "targets", *recipe.targets))
    return hashlib.sha256(text.encode()).hexdigest()


def build_environment(lab: Lab) -> dict[str, str]:
    """The environment of cmake, ninja and compilers.

    llama.cpp's CMake asks git for the commit in the source folder, and git would find any
    repository around it; GIT_DIR makes git answer "not a git repository" there.
    """
    env = {key: value for key, value in os.environ.items() if not _is_foreign(key)}
    env |= {"GIT_DIR": os.devnull, "LC_ALL": "C"}
    env.setdefault("CCACHE_DIR", os.fspath(lab.root / "ccache"))
    env.setdefault("CCACHE_MAXSIZE", "5G")
    env.setdefault("CCACHE_COMPILERCHECK", "content")
    return env


def _is_foreign(name: str) -> bool:
    return name in FOREIGN or name.startswith(("GIT_", "CMAKE_"))


def _named(variable: str) -> tuple[str, ...]:
    """The compiler that CC or CXX names; a launcher before it is ours to choose."""
    return tuple(os.environ.get(variable, "").split()[-1:])


def _find(names: Sequence[str], what: str) -> Path:
    beside = os.fspath(Path(sys.executable).parent)
    for name in names:
        for path in (beside, None):
            if found := shutil.which(name, path=path):
                return Path(found)
    raise EnvironmentFault(
        f"{what} is missing: none of {', '.join(names)} is a program here",
        remedy="install it (cmake and ninja: the build dependency group of pyproject.toml)",
    )


def _identify_compiler(compiler: Path) -> str:
    """The compiler's version and what -march=native means on this CPU."""
    # -### prints the resolved flags and runs nothing; GGML_NATIVE=ON is upstream's default.
    command = (compiler, "-march=native", "-###", "-E", "-x", "c", os.devnull)
    flags = process.run(command, cwd=Path("/"), ok=range(256)).stderr
    return f"{_first_line(compiler)}\n{flags.decode('utf-8', 'replace')}"


def _first_line(program: Path) -> str:
    return process.run((program, "--version")).text.split("\n", 1)[0]
