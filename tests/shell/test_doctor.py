"""The doctor, run as a process on machines that lack something."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shell.support import ROOT, clean_environment, run

DOCTOR = (sys.executable, "-m", "upstream.doctor")
NO_INDEX = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "NO_PROXY": "127.0.0.1"}


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    folder = tmp_path / "lab"
    folder.mkdir()
    return folder


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for PATH with a git and nothing else."""
    folder = tmp_path / "tools"
    folder.mkdir()
    git = shutil.which("git")
    assert git is not None
    (folder / "git").symlink_to(git)
    return folder


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A git remote with two build tags."""
    folder = tmp_path / "remote"
    identity = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false")
    for words in (
        ("init", "-q"),
        (*identity, "commit", "-q", "--allow-empty", "-m", "first"),
        ("tag", "b100"),
        ("tag", "b200"),
    ):
        folder.mkdir(exist_ok=True)
        assert run("git", "-C", folder, *words).returncode == 0
    return folder


def diagnose(lab: Path, *options: str, **extra: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code and findings by name."""
    done = run(*DOCTOR, "--json", *options, env={"LAB_DIR": os.fspath(lab), **extra})
    document = json.loads(done.stdout)
    assert document["ok"] == (done.returncode == 0), done.stderr
    return done.returncode, {each["name"]: each for each in document["findings"]}


def write_program(path: Path, script: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_complete_machine_is_ok(lab: Path) -> None:
    code, found = diagnose(lab, "--offline")
    assert code == 0
    for name in ("python", "git", "C++ compiler", "C compiler", "cmake", "ninja", "disk space"):
        assert found[name]["state"] == "ok", found[name]


def test_everything_that_is_not_ok_names_a_remedy(lab: Path, tools: Path) -> None:
    _, found = diagnose(lab, "--offline", PATH=os.fspath(tools))
    bad = [each for each in found.values() if each["state"] != "ok"]
    assert bad
    assert all(each["remedy"] for each in bad)


def test_without_a_compiler(lab: Path, tools: Path) -> None:
    code, found = diagnose(lab, "--offline", PATH=os.fspath(tools))
    assert code == 3
    assert found["C++ compiler"]["state"] == "missing"
    assert "install g++" in found["C++ compiler"]["remedy"]
    assert found["ccache"]["state"] == "warning"


def test_a_compiler_without_headers(lab: Path, tools: Path) -> None:
    write_program(
        tools / "c++", "echo 'x.cpp:2: fatal error: filesystem: no such file' >&2; exit 1"
    )
    code, found = diagnose(lab, "--offline", PATH=f"{tools}:/bin")
    assert code == 3
    assert "fatal error: filesystem" in found["C++ compiler"]["detail"]


def test_the_compiler_that_the_user_names(lab: Path) -> None:
    code, found = diagnose(lab, "--offline", CXX="no-such-compiler")
    assert code == 3
    assert "no-such-compiler" in found["C++ compiler"]["detail"]


def test_without_git(lab: Path, tools: Path) -> None:
    (tools / "git").unlink()
    code, found = diagnose(lab, PATH=os.fspath(tools), **NO_INDEX)
    assert code == 3
    assert found["git"]["state"] == "missing"


def test_git_that_is_too_old(lab: Path, tools: Path) -> None:
    write_program(tools / "git", "echo git version 2.30.2")
    code, found = diagnose(lab, "--offline", PATH=os.fspath(tools))
    assert code == 3
    assert "2.30.2" in found["git"]["detail"]


def test_too_little_space(lab: Path) -> None:
    code, found = diagnose(lab, "--offline", "--need", "900000000")
    assert code == 3
    assert found["disk space"]["state"] == "missing"
    assert "LAB_DIR" in found["disk space"]["remedy"]


def test_lab_folder_that_cannot_be_made() -> None:
    code, found = diagnose(Path("/dev/null/lab"), "--offline")
    assert code == 3
    assert found["lab folder"]["state"] == "missing"


def test_no_source_answers(lab: Path) -> None:
    code, found = diagnose(lab, "--remote", "/no/such/repository", **NO_INDEX)
    assert code == 3
    assert found["git remote"]["state"] == found["package index"]["state"] == "missing"
    assert "does not answer" in found["package index"]["detail"]


def test_one_source_is_enough(lab: Path, remote: Path) -> None:
    code, found = diagnose(lab, "--remote", os.fspath(remote), **NO_INDEX)
    assert code == 0
    assert found["git remote"]["detail"] == "2 versions, newest b200"
    assert found["package index"]["state"] == "warning"


def test_shader_tools_are_named_by_their_versions_and_never_missing(lab: Path) -> None:
    code, found = diagnose(lab, "--offline")
    tools = found["shader tools"]
    assert (tools["state"], "nox -s toolchain" in tools["remedy"]) == ("warning", True)
    versions = lab / "toolchain" / "trixie" / "toolchain-versions.txt"
    versions.parent.mkdir(parents=True)
    versions.write_text("suite trixie\ng++ 4:14\nglslc 2025.2-1\nmesa-vulkan-drivers 25.0.7\n")
    again, found = diagnose(lab, "--offline")
    tools = found["shader tools"]
    assert tools["detail"] == "trixie: glslc 2025.2-1, mesa-vulkan-drivers 25.0.7"
    assert "--suite trixie-backports" in tools["remedy"]
    assert code == again


def test_a_held_lock(lab: Path) -> None:
    with (lab / "build.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        (lab / "upstream.lock").touch()
        code, found = diagnose(lab, "--offline")
    assert code == 0
    assert found["locks"]["detail"] == "held: build.lock"
    assert diagnose(lab, "--offline")[1]["locks"]["state"] == "ok"


def test_the_size_of_the_lab_counts_hard_links_once(lab: Path) -> None:
    (lab / "a").write_bytes(b"x" * 5_000_000)
    (lab / "b").hardlink_to(lab / "a")
    assert diagnose(lab, "--offline")[1]["lab folder"]["detail"].endswith(", 5 MB")


def test_report_for_a_person(lab: Path, tools: Path) -> None:
    env = {"LAB_DIR": os.fspath(lab), "PATH": os.fspath(tools)}
    done = run(*DOCTOR, "--offline", env=env)
    assert done.returncode == 3
    assert "\x1b" not in done.stdout
    assert "missing C++ compiler" in done.stdout
    assert done.stdout.count("next: ") >= 2
    assert done.stderr.startswith("error: missing: C++ compiler")


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    try:
        ends = pty.openpty()
    except OSError:
        pytest.skip("this machine gives no pseudo-terminal")
    yield ends
    os.close(ends[0])


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_only_on_a_terminal_that_wants_it(
    lab: Path, terminal: tuple[int, int], no_color: str, coloured: bool
) -> None:
    ours, theirs = terminal
    extra = {"LAB_DIR": os.fspath(lab), "TERM": "xterm", "NO_COLOR": no_color}
    env = clean_environment({key: value for key, value in extra.items() if value})
    command = (*DOCTOR, "--offline")
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=theirs) as child:
        os.close(theirs)
        child.wait(timeout=30)
    assert (b"\x1b[32m" in os.read(ours, 65536)) is coloured
