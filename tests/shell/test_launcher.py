"""ci/nox on Pythons that pip may not touch; nox and virtualenv are wheels made by hand."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.shell.support import ROOT, clean_environment, offline_pip, run, write_wheel

LAUNCHER = ROOT / "ci" / "nox"
FAKE_NOX = """
import os, sys
print("nox called with", sys.argv[1:])
sys.exit(int(os.environ.get("CODE", "0")))
"""
# The real virtualenv brings its own pip; this one takes Python's.
FAKE_VIRTUALENV = "import sys, venv; venv.create(sys.argv[-1], symlinks=True, with_pip=True)"


def system_pythons() -> list[str]:
    """The Python below ours, and the distribution's where there is one."""
    distribution = "/usr/bin/python3"
    found = [getattr(sys, "_base_executable", sys.executable)]
    if Path(distribution).exists() and is_new_enough(distribution):
        found.append(distribution)
    return list(dict.fromkeys(found))


def is_new_enough(python: str) -> bool:
    probe = "import sys; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run((python, "-c", probe), check=False).returncode == 0


def is_externally_managed(python: str) -> bool:
    probe = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    stdlib = subprocess.run((python, "-c", probe), capture_output=True, text=True, check=True)
    return (Path(stdlib.stdout.strip()) / "EXTERNALLY-MANAGED").exists()


@pytest.fixture(scope="module", params=system_pythons())
def python(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """A cache folder of its own, and an index that has nox and virtualenv."""
    return write_settings(tmp_path)


@pytest.fixture(scope="module")
def started(python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings with which the launcher has started once."""
    settings = write_settings(tmp_path_factory.mktemp("started"))
    done = run(python, LAUNCHER, env=settings)
    assert done.returncode == 0, done.stderr
    assert "installing" in done.stderr
    return settings


def write_settings(folder: Path) -> dict[str, str]:
    wheels = folder / "wheels"
    write_wheel(wheels, "nox", "2026.10.20", {"nox/__init__.py": "", "nox/__main__.py": FAKE_NOX})
    fake = {"virtualenv/__init__.py": "", "virtualenv/__main__.py": FAKE_VIRTUALENV}
    write_wheel(wheels, "virtualenv", "21.0", fake)
    return offline_pip(wheels) | {"LAB_DIR": os.fspath(folder / "lab folder")}


def hide_modules(folder: Path, *names: str) -> dict[str, str]:
    """A PYTHONPATH on which these modules do not import, like on a Debian without them."""
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise ImportError('no module named {name}')")
    return {"PYTHONPATH": os.fspath(folder)}


def only_environment(settings: Mapping[str, str]) -> Path:
    (found,) = (
        path for path in (Path(settings["LAB_DIR"]) / "launcher").iterdir() if path.is_dir()
    )
    return found


def test_starts_nox_with_our_noxfile_from_anywhere(
    python: str, started: dict[str, str], tmp_path: Path
) -> None:
    arguments = ("-s", "rebase", "--", "--onto", "b 1")
    done = run(python, LAUNCHER, *arguments, env=started, cwd=tmp_path)
    expected = ["-f", os.fspath(ROOT / "noxfile.py"), *arguments]
    assert done.stdout == f"nox called with {expected}\n"


def test_second_start_needs_no_index_and_passes_the_exit_code(
    python: str, started: dict[str, str]
) -> None:
    again = run(python, LAUNCHER, env=started | {"PIP_FIND_LINKS": "/nowhere", "CODE": "5"})
    assert again.stderr == ""
    assert again.returncode == 5


def test_works_where_pip_refuses_the_system_python(python: str, started: dict[str, str]) -> None:
    if not is_externally_managed(python):
        pytest.skip("this Python is not externally managed")
    assert run(python, "-m", "pip", "install", "nox", env=started).returncode != 0
    assert run(python, LAUNCHER, "-l", env=started).returncode == 0


def test_half_made_environment_is_made_again(python: str, started: dict[str, str]) -> None:
    (only_environment(started) / "requirements.stamp").unlink()
    shutil.rmtree(only_environment(started) / "lib")
    done = run(python, LAUNCHER, env=started)
    assert "making it again" in done.stderr
    assert "nox called" in done.stdout


def test_without_ensurepip_virtualenv_makes_the_environment(
    settings: dict[str, str], tmp_path: Path
) -> None:
    with_pip = [each for each in system_pythons() if run(each, "-c", "import pip").returncode == 0]
    if not with_pip:
        pytest.skip("no Python here has pip")
    hidden = hide_modules(tmp_path / "hidden", "ensurepip")
    done = run(with_pip[-1], LAUNCHER, env=settings | hidden)
    assert done.returncode == 0, done.stderr
    assert "nox called" in done.stdout
    environment = only_environment(settings)
    left = {path.name for path in environment.parent.iterdir()}
    assert left == {environment.name, f"{environment.name}.lock"}


def test_with_neither_ensurepip_nor_pip_it_says_what_to_install(
    settings: dict[str, str], tmp_path: Path
) -> None:
    hidden = hide_modules(tmp_path / "hidden", "ensurepip", "pip")
    done = run(system_pythons()[0], LAUNCHER, env=settings | hidden)
    assert done.returncode == 3
    assert "python3-venv" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_launchers_at_once(settings: dict[str, str]) -> None:
    command = (system_pythons()[0], LAUNCHER, "-l")
    children = [
        subprocess.Popen(
            command,
            env=clean_environment(settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    answers = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert "".join(messages for _, messages in answers).count("installing") == 1


def test_offline_it_says_so(settings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    empty = settings | {"PIP_FIND_LINKS": os.fspath(tmp_path / "empty")}
    done = run(system_pythons()[0], LAUNCHER, env=empty)
    assert done.returncode == 3
    assert "next: check the network" in done.stderr
    assert "Traceback" not in done.stderr


def test_cache_folder_that_cannot_be_made(settings: dict[str, str]) -> None:
    done = run(system_pythons()[0], LAUNCHER, env=settings | {"LAB_DIR": "/dev/null/lab"})
    assert done.returncode == 3
    assert "LAB_DIR" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_older_python_is_told_apart(settings: dict[str, str], tmp_path: Path) -> None:
    """A real one where there is one; else ours with another version (a fake)."""
    older = [found for minor in (6, 8, 9, 10) if (found := shutil.which(f"python3.{minor}"))]
    working = [each for each in older if run(each, "-c", "").returncode == 0]
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.version_info = (3, 10, 0)")
    fake = {} if working else {"PYTHONPATH": os.fspath(tmp_path)}
    done = run([*working, sys.executable][0], LAUNCHER, env=settings | fake)
    assert done.returncode == 3
    assert "3.11 or newer" in done.stderr
    assert ast.parse(LAUNCHER.read_text(), feature_version=(3, 7))


@pytest.mark.e2e
def test_real_nox_and_virtualenv_from_the_index(tmp_path: Path) -> None:
    hidden = hide_modules(tmp_path / "hidden", "ensurepip")
    pip = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    env = pip | hidden | {"LAB_DIR": os.fspath(tmp_path / "lab")}
    done = run(system_pythons()[-1], LAUNCHER, "-l", env=env)
    assert done.returncode == 0, done.stderr
    assert "rebase" in done.stdout
