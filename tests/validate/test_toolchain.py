"""Which compiler, cmake and ninja are used, and what names their output."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from upstream.errors import EnvironmentFault
from upstream.lab import Lab
from upstream.version import Version
from validate.recipe import LLAMA_TARGETS, Backend, llama_recipe
from validate.toolchain import build_environment, find_toolchain, step_key


def test_cmake_and_ninja_come_from_the_python_environment() -> None:
    beside = Path(sys.executable).parent
    if not (beside / "ninja").exists():
        pytest.skip("this environment has no ninja of its own")
    tools = find_toolchain()
    assert {tools.cmake.parent, tools.ninja.parent} == {beside}


def test_the_identity_is_the_same_every_time_and_names_the_compiler() -> None:
    first, second = find_toolchain(), find_toolchain()
    assert first == second
    assert "cmake version" in first.identity
    assert "-march=" in first.identity or "-target-cpu" in first.identity


@pytest.mark.parametrize("named", ["g++", "ccache g++"])
def test_the_compiler_that_the_shell_names_is_used(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("CXX", named)
    assert find_toolchain().cxx.name == "g++"


def test_a_named_compiler_that_is_missing_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc-of-another-world")
    with pytest.raises(EnvironmentFault, match="gcc-of-another-world"):
        find_toolchain()


def test_no_compiler_at_all_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="a C compiler is missing"):
        find_toolchain()


def test_a_backend_and_a_version_have_keys_of_their_own() -> None:
    tools = find_toolchain()
    recipes = [
        llama_recipe(Version(11549)),
        llama_recipe(Version(11550)),
        llama_recipe(Version(11549), Backend("vulkan", ("GGML_VULKAN=ON",))),
    ]
    assert len({step_key("tree", tools, recipe) for recipe in recipes}) == 3
    assert recipes[0].targets == LLAMA_TARGETS


def test_the_callers_flags_and_git_do_not_reach_the_compiler(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CFLAGS", "LDFLAGS", "GIT_WORK_TREE", "CMAKE_GENERATOR", "NINJA_STATUS"):
        monkeypatch.setenv(name, "foreign")
    monkeypatch.setenv("CCACHE_DIR", "/chosen")
    env = build_environment(lab)
    assert "foreign" not in env.values()
    assert env["GIT_DIR"] == os.devnull
    assert env["CCACHE_DIR"] == "/chosen"
