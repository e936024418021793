"""Building every step: real git, cmake, ninja and compiler on a tiny project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_project import BASE, CMAKE, Change, list_objects, make_builder, make_stack

from series.model import Stack
from tests.small_disk import mount_small
from upstream.errors import EnvironmentFault
from upstream.lab import Lab, hold_lock
from validate.build import StepBuild, build_stack

EXTRA = Change("0001-extra.patch", {"extra.cpp": "int extra() { return 1 + 0 * __LINE__; }\n\n"})
FASTER = Change("0002-faster.patch", {"extra.cpp": "int zero;\nint extra() { return 1 + zero; }\n"})
BROKEN = Change(
    "0002-broken.patch",
    {"core.cpp": f"{BASE['core.cpp']}\nint broken() {{ return missing; }}\n"},
)
MENDED = Change(
    "0003-mended.patch",
    {"core.cpp": BASE["core.cpp"], "extra.cpp": "int extra() { return 1; }\n\n"},
)
ANSWER = Change("0001-answer.patch", {"models/answer.cpp": "int answer() { return 6 * 7 + 1; }\n"})


def run_app(step: StepBuild) -> str:
    assert step.binaries is not None
    done = subprocess.run(
        [step.binaries.folder / "app"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_steps_are_built_and_their_programs_run_from_the_store(lab: Lab) -> None:
    base, step = build_stack(make_builder(lab), make_stack(lab, [ANSWER]))
    assert [base.state, step.state] == ["built", "built"]
    shutil.rmtree(lab.root / "build-cpu")  # nothing may point back into the build folder
    shutil.rmtree(lab.root / "source")
    assert run_app(base) == "unknown OFF ./core.cpp 42"
    assert run_app(step) == "unknown OFF ./core.cpp 43"


def test_a_build_inside_that_names_another_checkouts_ninja_is_made_anew(lab: Lab) -> None:
    builder = make_builder(lab)
    build_stack(builder, make_stack(lab, []))
    ninja = {"mine": str(builder.toolchain.ninja), "gone": "/gone/.nox/lab/bin/ninja"}
    for name, path in ninja.items():
        inner = lab.root / "build-cpu" / f"{name}-prefix" / "src" / f"{name}-build"
        inner.mkdir(parents=True)
        inner.joinpath("CMakeCache.txt").write_text(f"CMAKE_MAKE_PROGRAM:FILEPATH={path}\n")
    build_stack(builder, make_stack(lab, [ANSWER]))
    assert [each.name for each in lab.root.glob("build-cpu/*-prefix")] == ["mine-prefix"]


Shared = tuple[Lab, Stack, list[StepBuild]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """A lab with one finished stack, for tests that only look."""
    lab = Lab(tmp_path_factory.mktemp("shared") / "lab")
    stack = make_stack(lab, [FASTER])
    return lab, stack, build_stack(make_builder(lab), stack)


def test_identical_files_are_reported_and_stored_once(shared: Shared) -> None:
    lab, _, (base, step) = shared
    assert base.difference is None
    assert step.difference is not None
    assert step.difference.changed == ("libextra.so",)
    assert step.difference.identical == 3
    assert base.binaries
    assert step.binaries
    pair = [binaries.folder / "libcore.so.1.2.0" for binaries in (base.binaries, step.binaries)]
    assert pair[0].samefile(pair[1])
    assert len(list_objects(lab)) == 5  # app, tool, core and two of extra
    assert base.binaries.fingerprint("app") == step.binaries.fingerprint("app")
    assert base.binaries.fingerprint("tool") != step.binaries.fingerprint("tool")


def test_only_what_a_step_changes_is_compiled_again(shared: Shared) -> None:
    lab, _, _ = shared
    log = lab.log("build-0002-faster.patch").read_text()
    assert "extra.cpp.o" in log
    assert "core.cpp.o" not in log
    assert "app.cpp.o" not in log


def test_a_second_run_takes_everything_from_the_store(shared: Shared) -> None:
    lab, stack, first = shared
    started = time.monotonic()
    second = build_stack(make_builder(lab), stack)
    assert time.monotonic() - started < 2
    assert [step.state for step in second] == ["cached", "cached"]
    assert [step.binaries for step in second] == [step.binaries for step in first]
    assert second[1].difference == first[1].difference


def test_a_compile_error_names_the_file_and_line_and_later_steps_build(lab: Lab) -> None:
    steps = build_stack(make_builder(lab), make_stack(lab, [EXTRA, BROKEN, MENDED]))
    assert [step.state for step in steps] == ["built", "built", "failed", "built"]
    failed = steps[2]
    assert failed.error is not None
    assert (failed.error.file, failed.error.line) == ("core.cpp", 5)
    assert "missing" in failed.error.message
    assert failed.log is not None
    assert "missing" in failed.log.read_text()
    assert steps[3].difference is None  # its parent has no binaries to compare with
    assert run_app(steps[3]) == "unknown OFF ./core.cpp 42"


def test_without_keep_going_a_failed_step_is_the_last(lab: Lab) -> None:
    stack = make_stack(lab, [BROKEN, MENDED])
    steps = build_stack(make_builder(lab), stack, keep_going=False)
    assert [step.state for step in steps] == ["built", "failed"]


def test_a_failed_step_is_tried_again(lab: Lab) -> None:
    builder, stack = make_builder(lab), make_stack(lab, [BROKEN])
    build_stack(builder, stack)
    assert [step.state for step in build_stack(builder, stack)] == ["cached", "failed"]


def test_an_error_of_cmake_names_the_file_and_line(lab: Lab) -> None:
    broken = Change("0001-cmake.patch", {"CMakeLists.txt": f"{CMAKE}nonsense()\n"})
    mended = Change("0002-cmake.patch", {"CMakeLists.txt": CMAKE})
    steps = build_stack(make_builder(lab), make_stack(lab, [broken, mended]))
    assert [step.state for step in steps] == ["built", "failed", "cached"]
    error = steps[1].error
    assert error is not None
    assert (error.file, error.line) == (
        "CMakeLists.txt",
        len(CMAKE.splitlines()) + 1,
    )
    assert "nonsense" in error.message


def test_a_link_error_names_the_program(lab: Lab) -> None:
    unlinked = Change("0001-link.patch", {"extra.cpp": "int other() { return 1; }\n"})
    (_, step) = build_stack(make_builder(lab), make_stack(lab, [unlinked]))
    assert step.error is not None
    assert step.error.file == "bin/tool"
    assert "undefined reference" in step.error.message


def test_a_new_file_for_a_glob_and_a_changed_default_count(lab: Lab) -> None:
    """Both are lost when CMake keeps its cache from the step before."""
    louder = Change(
        "0001-loud.patch",
        {
            "CMakeLists.txt": CMAKE.replace('change" OFF', 'change" ON'),
            "models/more.cpp": "int more() { return 2; }\n",
        },
    )
    stack = make_stack(lab, [louder])
    _, step = build_stack(make_builder(lab), stack)
    assert run_app(step) == "unknown ON ./core.cpp 42"
    assert step.binaries is not None
    core = (step.binaries.folder / "libcore.so").read_bytes()
    assert b"_Z4morev" in core


def test_a_file_that_a_step_removes_is_gone_for_the_next(lab: Lab) -> None:
    added = Change("0001-more.patch", {"models/more.cpp": "int more() { return 2; }\n"})
    removed = Change("0002-less.patch", {"models/more.cpp": None})
    base, _, last = build_stack(make_builder(lab), make_stack(lab, [added, removed]))
    assert last.state == "cached"  # the same tree as the base
    assert last.binaries == base.binaries


def test_a_stray_file_in_the_source_is_not_compiled(lab: Lab) -> None:
    builder = make_builder(lab)
    build_stack(builder, make_stack(lab, []))
    (lab.root / "source" / "models" / "stray.cpp").write_text("int stray() { return 3; }\n")
    (lab.root / "source" / "app.cpp").write_text("int main() { return 99; }\n")
    _, step = build_stack(builder, make_stack(lab, [ANSWER]))
    assert run_app(step) == "unknown OFF ./core.cpp 43"
    assert not (lab.root / "source" / "models" / "stray.cpp").exists()


def test_an_enclosing_repository_and_the_shell_do_not_leak_in(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = lab.root.parent
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *identity, *command], cwd=around, check=True)
    plain = build_stack(make_builder(lab), make_stack(lab, []))
    monkeypatch.setenv("CXXFLAGS", "-O0 -DEXTRA")
    monkeypatch.setenv("GIT_DIR", str(around / ".git"))
    monkeypatch.setenv("CMAKE_BUILD_TYPE", "Debug")
    shutil.rmtree(lab.root / "steps")
    again = build_stack(make_builder(lab), make_stack(lab, []))
    assert run_app(again[0]) == "unknown OFF ./core.cpp 42"
    assert plain[0].binaries == again[0].binaries


def test_another_lab_builds_the_same_bytes(lab: Lab, tmp_path: Path) -> None:
    other = Lab(tmp_path / "elsewhere" / "lab")
    other.scratch.mkdir(parents=True)
    first, second = (build_stack(make_builder(at), make_stack(at, [])) for at in (lab, other))
    assert first[0].binaries
    assert second[0].binaries
    assert first[0].binaries.files == second[0].binaries.files
    assert first[0].plan.key == second[0].plan.key


def test_the_key_depends_on_tree_options_targets_and_compiler(lab: Lab) -> None:
    builder, stack = make_builder(lab), make_stack(lab, [ANSWER])
    base, step = builder.plan(stack)
    recipe, tools = builder.recipe, builder.toolchain
    others = [
        replace(builder, recipe=replace(recipe, options=("CMAKE_BUILD_TYPE=Debug",))),
        replace(builder, recipe=replace(recipe, targets=("app",))),
        replace(builder, toolchain=replace(tools, identity=f"{tools.identity}x")),
    ]
    keys = {base.key, step.key, *(other.plan(stack)[0].key for other in others)}
    assert len(keys) == 5


def test_a_target_that_the_source_lacks_is_named(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    builder = make_builder(lab, targets=("app", "newer"))
    (base,) = build_stack(builder, make_stack(lab, []))
    assert base.binaries is not None
    assert base.binaries.absent == ("newer",)
    assert "newer" in caplog.text


def test_a_source_without_any_target_is_no_success(lab: Lab) -> None:
    with pytest.raises(EnvironmentFault, match="none of the targets"):
        build_stack(make_builder(lab, targets=("newer",)), make_stack(lab, []))


def test_a_removed_object_is_seen_and_built_again(lab: Lab) -> None:
    builder, stack = make_builder(lab), make_stack(lab, [])
    build_stack(builder, stack)
    victim = next(path for path in list_objects(lab) if path.stat().st_size)
    victim.unlink()
    assert [step.state for step in build_stack(builder, stack)] == ["built"]
    assert victim.exists()


def test_a_replaced_binary_is_seen_and_built_again(lab: Lab) -> None:
    builder, stack = make_builder(lab), make_stack(lab, [])
    (base,) = build_stack(builder, stack)
    assert base.binaries is not None
    app = base.binaries.folder / "app"
    size = app.stat().st_size
    app.unlink()
    app.write_bytes(bytes(size))
    (again,) = build_stack(builder, stack)
    assert again.state == "built"
    assert run_app(again) == "unknown OFF ./core.cpp 42"


def test_what_a_killed_run_left_half_stored_is_thrown_away(lab: Lab) -> None:
    builder, stack = make_builder(lab), make_stack(lab, [])
    half = lab.root / "steps" / f".half-{builder.plan(stack)[0].key}" / "bin"
    half.mkdir(parents=True)
    (half / "stray").write_text("of another run")
    (base,) = build_stack(builder, stack)
    assert base.binaries is not None
    assert not (base.binaries.folder / "stray").exists()
    assert not half.exists()


def test_a_half_written_step_folder_does_not_count(lab: Lab) -> None:
    builder, stack = make_builder(lab), make_stack(lab, [])
    (base,) = build_stack(builder, stack)
    assert base.binaries is not None
    record = base.binaries.folder.parent / "step.json"
    record.write_text(record.read_text()[:-9])
    assert [step.state for step in build_stack(builder, stack)] == ["built"]
    assert json.loads(record.read_text())["uses"]["app"]


def test_two_builds_do_not_share_the_tree(lab: Lab) -> None:
    stack = make_stack(lab, [])
    with hold_lock(lab, "build"), pytest.raises(EnvironmentFault, match="lock"):
        build_stack(make_builder(lab), stack)
    assert [step.state for step in build_stack(make_builder(lab), stack)] == ["built"]


def test_too_little_space_stops_before_anything_is_compiled(lab: Lab) -> None:
    builder = make_builder(lab, megabytes=10**9)
    with pytest.raises(EnvironmentFault, match="needs about"):
        build_stack(builder, make_stack(lab, []))
    assert not (lab.root / "build-cpu").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_the_machines_fault_and_the_next_run_goes_on(lab: Lab) -> None:
    big = "char block[6 << 20] = {1};\n"
    stack = make_stack(lab, [Change("0001-big.patch", {"extra.cpp": f"{BASE['extra.cpp']}{big}"})])
    full = pytest.raises(EnvironmentFault, match="No space left on device")
    with mount_small(lab.root / "build-cpu", "3m"), full:
        build_stack(make_builder(lab), stack)
    assert [step.state for step in build_stack(make_builder(lab), stack)] == ["cached", "built"]
