"""What the tests of the outer shell share."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ci.environment import Environment, create_with_virtualenv, read_requirements
from tests.shell.support import ROOT

REPORTER = """
import json, os, sys
with open(os.environ["CALLS"], "a") as log:
    log.write(json.dumps([{name!r}, *sys.argv[1:]]) + "\\n")
print("result of {name}")
print("message of {name}", file=sys.stderr)
sys.exit(int(os.environ.get("CODE_{name}", "0")))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The noxfile with modules that report their calls, and a finished environment.

    The folder's name has a space and a non-ASCII letter.
    """
    folder = tmp_path_factory.mktemp("checkout") / "my stäck"
    shutil.copytree(ROOT / "ci", folder / "ci", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("noxfile.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name in ("series", "validate", "upstream"):
        (folder / name).mkdir()
        (folder / name / "__main__.py").write_text(REPORTER.format(name=name))
    for name in ("pytest", "mypy", "ruff"):
        (folder / f"{name}.py").write_text(REPORTER.format(name=name))
    finish_environment(folder, ("build", "test", "lint"))
    return folder


def finish_environment(folder: Path, groups: Sequence[str]) -> None:
    """An empty environment with the stamp of one in which everything is installed."""
    environment = Environment(folder / ".nox" / "lab")
    create_with_virtualenv(environment.directory)
    pyproject = folder / "pyproject.toml"
    lists = {group: read_requirements(pyproject, sorted({"build", group})) for group in groups}
    environment.write_stamp({group: environment.digest(lists[group]) for group in groups})


@pytest.fixture(scope="session")
def nox() -> tuple[str, ...]:
    """The command that starts nox."""
    return (sys.executable, "-m", "nox")
