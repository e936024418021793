"""A build that is killed, interrupted or started twice: real processes and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_project import BASE, CMAKE, Change, make_builder, make_stack

from upstream.errors import EnvironmentFault
from upstream.lab import Lab
from validate import ninja
from validate.build import build_stack

HERE = Path(__file__).parent
# The first time this step is built, a compile command hangs; it says so by a file.
SLOW_SCRIPT = """\
if(NOT EXISTS started)
    file(TOUCH started)
    execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 60)
endif()
file(WRITE slow.h "#define SLOW 1\\n")
"""
SLOW_RULE = """
add_custom_command(OUTPUT slow.h COMMAND ${CMAKE_COMMAND} -P ${CMAKE_SOURCE_DIR}/slow.cmake)
add_custom_target(make_slow DEPENDS slow.h)
add_dependencies(core make_slow)
"""
SLOW = Change(
    "0001-slow.patch", {"CMakeLists.txt": f"{CMAKE}{SLOW_RULE}", "slow.cmake": SLOW_SCRIPT}
)
LAST = Change("0002-last.patch", {"extra.cpp": f"{BASE['extra.cpp']}\n"})
PROGRAM = """
import sys
from test_build_interrupted import LAST, SLOW
from tiny_project import make_builder, make_stack
from upstream.lab import open_lab
from validate.build import build_stack
lab = open_lab()
build_stack(make_builder(lab), make_stack(lab, [SLOW, LAST]))
"""


@pytest.fixture
def hanging(lab: Lab) -> subprocess.Popen[bytes]:
    """Another process in the middle of building the second of three trees."""
    paths = os.pathsep.join((str(HERE), str(HERE.parent.parent)))
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"PYTHONPATH": paths}
    )
    started = lab.root / "build-cpu" / "started"
    deadline = time.monotonic() + 60
    while not started.exists():
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return child


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_stopped_build_leaves_no_process_and_goes_on(
    lab: Lab, hanging: subprocess.Popen[bytes], how: signal.Signals
) -> None:
    builder, stack = make_builder(lab), make_stack(lab, [SLOW, LAST])
    with pytest.raises(EnvironmentFault, match="lock"):
        build_stack(builder, stack)
    hanging.send_signal(how)
    assert hanging.wait(timeout=10) != 0
    tree = ninja.open_build_tree(lab, lab.root / "source", builder.toolchain, builder.recipe)
    ninja.await_orphans(tree, 5)  # the compile command would go on for a minute
    steps = build_stack(builder, stack)
    assert [step.state for step in steps] == ["cached", "built", "built"]


def test_compilers_of_a_killed_run_are_waited_for(lab: Lab) -> None:
    builder = make_builder(lab)
    tree = ninja.open_build_tree(lab, lab.root / "source", builder.toolchain, builder.recipe)
    held = [*ninja._held(tree, 5), "sleep", "30"]
    with subprocess.Popen(held) as orphan:
        while not tree.lock.exists():
            time.sleep(0.02)
        time.sleep(0.3)
        with pytest.raises(EnvironmentFault, match="still hold"):
            ninja.await_orphans(tree, 0.2)
        orphan.kill()
    ninja.await_orphans(tree, 5)


def test_a_signal_to_ninja_alone_is_not_blamed_on_the_step(lab: Lab) -> None:
    """A build command that ends without naming a failed file says nothing about the patch."""
    from dataclasses import replace

    builder = make_builder(lab)
    fake = lab.root / "ninja-that-dies"  # a labelled fake: ninja killed by the kernel
    real = builder.toolchain.ninja
    fake.write_text(f'#!/bin/sh\ncase " $*" in *" -j"*) kill -9 $$;; *) exec {real} "$@";; esac\n')
    fake.chmod(0o755)
    dying = replace(builder, toolchain=replace(builder.toolchain, ninja=fake))
    with pytest.raises(EnvironmentFault, match="exit code 137"):
        build_stack(dying, make_stack(lab, []))
