"""A CMake project of a few seconds that stands in for llama.cpp, as commits in a bare repository.

Two shared libraries and two programs, laid out as llama.cpp lays its own out: binaries in bin/,
versioned libraries with links, the commit asked from git when CMake runs, models found by a glob.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from series.model import Stack, Step
from upstream.git import EMPTY_TREE, Git, Person, Stage
from upstream.lab import Lab
from upstream.version import Version
from validate.build import Builder
from validate.recipe import Recipe
from validate.toolchain import find_toolchain

CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(tiny CXX)
find_program(GIT_EXE git)
execute_process(COMMAND ${GIT_EXE} rev-parse HEAD WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
option(TINY_LOUD "a default that a step may change" OFF)
if(NOT COMMIT)
    set(COMMIT "unknown")
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
file(GLOB MODELS "models/*.cpp")
add_library(core SHARED core.cpp ${MODELS})
set_target_properties(core PROPERTIES VERSION 1.2.0 SOVERSION 1)
target_compile_definitions(core PRIVATE COMMIT="${COMMIT}" LOUD="${TINY_LOUD}")
add_library(extra SHARED extra.cpp)
add_executable(app app.cpp)
target_link_libraries(app PRIVATE core)
add_executable(tool tool.cpp)
target_link_libraries(tool PRIVATE core extra)
add_executable(unwanted broken.cpp)
"""

BASE: dict[str, str | None] = {
    "CMakeLists.txt": CMAKE,
    "core.h": "const char * describe(); const char * where(); int answer();\n",
    "core.cpp": '#include "core.h"\n'
    'const char * describe() { return COMMIT " " LOUD; }\n'
    "const char * where() { return __FILE__; }\n",
    "models/answer.cpp": "int answer() { return 42; }\n",
    "extra.cpp": "int extra() { return 1; }\n",
    "app.cpp": '#include "core.h"\n#include <cstdio>\n'
    'int main() { std::printf("%s %s %d\\n", describe(), where(), answer()); }\n',
    "tool.cpp": '#include "core.h"\nint extra();\n'
    "int main() { return answer() + extra() != 43; }\n",
    "broken.cpp": "not C++, and no target that is asked for needs it\n",
}
WRITER = Person("Ada", "ada@example.org", "1700000000 +0000")
TARGETS = ("app", "tool")


@dataclass(frozen=True)
class Change:
    """A patch by its result: path -> new content, None removes the path."""

    name: str
    files: Mapping[str, str | None]


def make_stack(lab: Lab, changes: Sequence[Change], base: Mapping[str, str | None] = BASE) -> Stack:
    """Commit the base and every change on the one before it."""
    git = Git(lab.repository)
    git.create()
    tree = _edit(git, lab, EMPTY_TREE, base)
    commit = parent = git.write_commit(tree, (), WRITER, "base")
    steps = []
    for change in changes:
        tree = _edit(git, lab, tree if not steps else steps[-1].tree, change.files)
        parent = git.write_commit(tree, (parent,), WRITER, change.name)
        steps.append(Step("topic", change.name, parent, tree))
    return Stack(Version(7), commit, git.tree_of(commit), tuple(steps))


def make_builder(lab: Lab, targets: Sequence[str] = TARGETS, megabytes: int = 0) -> Builder:
    """A builder for the tiny project with the real compiler, cmake and ninja."""
    options = ("CMAKE_BUILD_TYPE=Release", "CMAKE_BUILD_RPATH_USE_ORIGIN=ON")
    recipe = Recipe(tuple(targets), options, megabytes=megabytes)
    return Builder(lab, Git(lab.repository), recipe, find_toolchain(), jobs=2)


def list_objects(lab: Lab) -> list[Path]:
    """Every stored object."""
    return sorted((lab.root / "objects").glob("??/*"))


def _edit(git: Git, lab: Lab, tree: str, files: Mapping[str, str | None]) -> str:
    lab.scratch.mkdir(parents=True, exist_ok=True)
    return git.edit_tree(
        tree, [_entry(git, path, text) for path, text in files.items()], lab.scratch
    )


def _entry(git: Git, path: str, text: str | None) -> Stage:
    if text is None:
        return Stage("0", "0" * 40, 0, path)
    return Stage("100644", git.write_blob(text.encode()), 0, path)
