"""The virtual environments that the launcher and the sessions run in.

An environment is made and changed under a lock, and is complete only while its stamp file is
there: the stamp goes before pip starts to write and comes back after it. So one that a kill
left half-made is made again, and one whose requirements did not change costs a few milliseconds.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

Say = Callable[[str], None]
Create = Callable[[Path], None]

PLACE = "place"  # the entry of the stamp that tells where the environment was made

# What would lead pip or Python away from the environment that they run in.
MISLEADING = (
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_TARGET",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSAFEPATH",
    "__PYVENV_LAUNCHER__",
)
PIP_SETTINGS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_USER": "0",
}


class SetupFault(Exception):
    """The environment cannot be made: what happened, and what to do about it."""

    exit_code = 3

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}\n  next: {remedy}")


@dataclass(frozen=True)
class Environment:
    """A virtual environment and the digests of the requirements that it holds."""

    directory: Path

    @property
    def bin(self) -> Path:
        return self.directory / "bin"

    @property
    def python(self) -> Path:
        return self.bin / "python"

    @property
    def stamp(self) -> Path:
        return self.directory / "requirements.stamp"

    @property
    def lock(self) -> Path:
        return self.directory.with_name(self.directory.name + ".lock")

    def read_stamp(self) -> dict[str, str]:
        """The digest of each installed set; empty when half-made or without its Python."""
        if not self.python.exists():
            return {}
        try:
            known = json.loads(self.stamp.read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def write_stamp(self, known: Mapping[str, str]) -> None:
        """Declare the environment complete, in one rename."""
        draft = self.stamp.with_suffix(".new")
        draft.write_text(json.dumps(known, indent=1))
        draft.replace(self.stamp)

    def digest(self, requirements: Sequence[str]) -> str:
        """A digest of the list and the place: scripts in a moved environment do not start."""
        text = json.dumps([os.fspath(self.directory.absolute()), *requirements])
        return hashlib.sha256(text.encode()).hexdigest()


def prepare(
    environment: Environment, name: str, requirements: Sequence[str], create: Create, say: Say
) -> None:
    """Make sure that the environment is complete and holds the set of requirements `name`.

    Raises SetupFault when it cannot be made.
    """
    wanted = environment.digest(requirements)
    if environment.read_stamp().get(name) == wanted:
        return
    environment.directory.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(environment.lock, say):
        known = environment.read_stamp()
        if known.get(name) == wanted:
            return
        known = known if _stayed_in_place(environment, known) else _remake(environment, create, say)
        say(f"installing the packages of '{name}' (only when the list changes)")
        _install(environment, requirements, known)
        environment.write_stamp(known | {name: wanted, PLACE: environment.digest(())})


def _stayed_in_place(environment: Environment, known: Mapping[str, str]) -> bool:
    return known.get(PLACE) == environment.digest(())


def _remake(environment: Environment, create: Create, say: Say) -> dict[str, str]:
    if environment.directory.exists():
        say(f"{environment.directory} is incomplete or was moved; making it again")
        shutil.rmtree(environment.directory)
    create(environment.directory)
    return {}


def _install(
    environment: Environment, requirements: Sequence[str], known: Mapping[str, str]
) -> None:
    environment.stamp.unlink(missing_ok=True)
    command = (os.fspath(environment.python), "-m", "pip", "install", "--quiet", *requirements)
    code = run(command)
    if code == 0:
        return
    if known:  # pip downloads everything before it writes: what was there before still works
        environment.write_stamp(known)
    raise SetupFault(
        f"pip could not install the packages (exit code {code}, its message is above)",
        "check the network and `pip config list`, then run the same command again",
    )


def run(command: Sequence[str], extra: Mapping[str, str] | None = None) -> int:
    """Run a child with its output on stderr, deaf to settings that lead it elsewhere."""
    env = {key: value for key, value in os.environ.items() if key not in MISLEADING}
    env |= PIP_SETTINGS | dict(extra or {})
    return subprocess.run(command, env=env, stdout=sys.stderr, check=False).returncode


@contextmanager
def hold_lock(path: Path, say: Say) -> Iterator[None]:
    """Hold the kernel's lock on a file; it ends with its process, kill -9 included."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that holds {path}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def create_with_virtualenv(directory: Path) -> None:
    """Make an environment with virtualenv, which nox brings; it needs no ensurepip."""
    command = (sys.executable, "-m", "virtualenv", "--quiet", os.fspath(directory))
    _require(run(command), directory)


def create_with_venv(directory: Path) -> None:
    """Make an environment with the standard library's venv."""
    _require(run((sys.executable, "-m", "venv", os.fspath(directory))), directory)


def _require(code: int, directory: Path) -> None:
    if code != 0:
        raise SetupFault(
            f"cannot make the environment {directory} (exit code {code})",
            "see the message above; install python3-venv or pipx from your distribution",
        )


def read_requirements(pyproject: Path, groups: Sequence[str]) -> list[str]:
    """The runtime dependencies and those of the named groups."""
    import tomllib  # not before the caller has checked for Python 3.11

    document = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    found: list[str] = list(document["project"]["dependencies"])
    for group in groups:
        found += document["dependency-groups"][group]
    return found
