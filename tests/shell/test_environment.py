"""The shared environment: made once, changed when the lists change, made again when half-made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ci import environment as module
from ci.environment import Environment, SetupFault, create_with_virtualenv, prepare
from tests.shell.support import ROOT, clean_environment, offline_pip, write_wheel


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that pip installs from."""
    serve_wheels(tmp_path / "wheels", monkeypatch)
    return tmp_path / "wheels"


def serve_wheels(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Two packages that pip can install without an index."""
    for name in ("tiny", "small"):
        write_wheel(folder, name, "1.0", {f"{name}.py": "VALUE = 1\n"})
    for name, value in offline_pip(folder).items():
        patch.setenv(name, value)


def make(environment: Environment, name: str, requirements: Sequence[str]) -> list[str]:
    """Prepare an environment and return the messages."""
    said: list[str] = []
    prepare(environment, name, requirements, create_with_virtualenv, said.append)
    return said


def can_import(environment: Environment, name: str) -> bool:
    command = (environment.python, "-c", f"import {name}")
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with `tiny` as its set "build"; tests use other names for theirs."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        serve_wheels(folder / "wheels", patch)
        make(Environment(folder / "env"), "build", ["tiny"])
    return Environment(folder / "env")


def test_second_time_does_nothing(made: Environment) -> None:
    stamp = made.stamp.stat().st_mtime_ns
    assert can_import(made, "tiny")
    assert make(made, "build", ["tiny"]) == []
    assert made.stamp.stat().st_mtime_ns == stamp


def test_a_changed_list_is_installed_into_the_same_environment(
    wheels: Path, made: Environment
) -> None:
    (made.directory / "kept").touch()
    make(made, "changing", ["tiny"])
    assert len(make(made, "changing", ["tiny", "small"])) == 1
    assert can_import(made, "small")
    assert (made.directory / "kept").exists()
    assert make(made, "build", ["tiny"]) == []


def test_failed_install_keeps_what_worked(wheels: Path, made: Environment) -> None:
    with pytest.raises(SetupFault, match="pip could not install") as caught:
        make(made, "failing", ["tiny", "nowhere-to-be-found"])
    assert caught.value.exit_code == 3
    assert "next: " in str(caught.value)
    assert make(made, "build", ["tiny"]) == []


def test_half_made_is_made_again(wheels: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    make(environment, "build", ["tiny"])
    environment.stamp.unlink()
    (environment.directory / "left-over").touch()
    assert "making it again" in make(environment, "build", ["tiny"])[0]
    assert not (environment.directory / "left-over").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"'])
def test_unreadable_stamp_counts_as_none(tmp_path: Path, text: str) -> None:
    environment = Environment(tmp_path)
    environment.bin.mkdir()
    environment.python.touch()
    environment.stamp.write_text(text)
    assert environment.read_stamp() == {}


def test_moved_is_made_again(wheels: Path, tmp_path: Path) -> None:
    make(Environment(tmp_path / "env"), "build", ["tiny"])
    (tmp_path / "env").rename(tmp_path / "elsewhere")
    said = make(Environment(tmp_path / "elsewhere"), "build", ["tiny"])
    assert "was moved" in said[0]


def test_without_its_python_is_made_again(wheels: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    make(environment, "build", ["tiny"])
    environment.python.unlink()
    environment.python.symlink_to(tmp_path / "uninstalled")
    make(environment, "build", ["tiny"])
    assert can_import(environment, "tiny")


PREPARE = """
    import sys
    from pathlib import Path
    from ci.environment import Environment, create_with_virtualenv, prepare
    prepare(Environment(Path(sys.argv[1])), "build", ["tiny"], create_with_virtualenv, print)
"""


def start_prepare(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-c", textwrap.dedent(PREPARE), os.fspath(directory)),
        cwd=ROOT,
        env=clean_environment({}) | {k: v for k, v in os.environ.items() if k.startswith("PIP_")},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_two_at_once_install_once(wheels: Path, tmp_path: Path) -> None:
    children = [start_prepare(tmp_path / "env") for _ in range(2)]
    said = [child.communicate(timeout=120)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert "".join(said).count("installing") == 1


def test_killed_while_it_is_made(wheels: Path, tmp_path: Path) -> None:
    child = start_prepare(tmp_path / "env")
    while not (tmp_path / "env").exists():
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    make(Environment(tmp_path / "env"), "build", ["tiny"])
    assert can_import(Environment(tmp_path / "env"), "tiny")


def test_settings_that_lead_pip_elsewhere_are_ignored(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_TARGET", os.fspath(tmp_path / "wrong"))
    monkeypatch.setenv("PIP_USER", "1")
    environment = Environment(tmp_path / "env")
    make(environment, "build", ["tiny"])
    assert can_import(environment, "tiny")
    assert not (tmp_path / "wrong").exists()


def test_requirements_come_from_the_lists_of_pyproject() -> None:
    pyproject = ROOT / "pyproject.toml"
    runtime = module.read_requirements(pyproject, [])
    assert any(line.startswith("GitPython") for line in runtime)
    assert set(runtime) < set(module.read_requirements(pyproject, ["build", "test"]))
