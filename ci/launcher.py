"""Start nox from an environment of its own, on machines where pip may not touch the system.

PEP 668 keeps pip out of a distribution's Python, and pipx is not everywhere. The launcher needs
only Python: it makes a virtual environment in the user's cache, once, and becomes nox in it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ci.environment import Create, Environment, SetupFault, create_with_venv, prepare, run

NOX = "nox>=2026.10.20"
NOXFILE = Path(__file__).resolve().parent.parent / "noxfile.py"


def main(arguments: Sequence[str]) -> int:
    """Become `nox -f noxfile.py ARGUMENTS`; returns only when that cannot be."""
    environment = Environment(cache_folder() / "launcher" / interpreter_key())
    try:
        prepare(environment, "nox", [NOX], choose_creator(), say)
    except SetupFault as fault:
        say(f"error: {fault}")
        return fault.exit_code
    except OSError as error:
        say(f"error: cannot write {error.filename}: {error.strerror}")
        say("  next: set LAB_DIR to a folder that you can write")
        return SetupFault.exit_code
    except KeyboardInterrupt:
        say("interrupted; the next start makes the environment again")
        return 130
    return become_nox(environment, arguments)


def become_nox(environment: Environment, arguments: Sequence[str]) -> NoReturn:
    """Replace this process, so that signals and the exit code are nox's own."""
    python = os.fspath(environment.python)
    os.execv(python, (python, "-m", "nox", "-f", os.fspath(NOXFILE), *arguments))  # noqa: S606


def cache_folder() -> Path:
    """LAB_DIR, else the folder that upstream/lab.py gets from platformdirs."""
    named = os.environ.get("LAB_DIR")
    if named:
        return Path(named).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "llama-series-lab"
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "llama-series-lab"


def interpreter_key() -> str:
    """One environment per Python installation: they are not interchangeable."""
    major, minor = sys.version_info[:2]
    place = hashlib.sha256(os.path.realpath(sys.executable).encode()).hexdigest()[:8]
    return f"python{major}.{minor}-{place}"


def choose_creator() -> Create:
    """The standard venv where it can install pip, else virtualenv through the system's pip."""
    return create_with_venv if can_import("ensurepip") else create_with_system_pip


def can_import(module: str) -> bool:
    """Whether Debian, which ships parts of Python as packages of their own, has this one."""
    try:
        __import__(module)
    except ImportError:
        return False
    return True


def create_with_system_pip(directory: Path) -> None:
    """Fetch virtualenv with the system's pip into a scratch folder and make the environment.

    PEP 668 concerns the system's own folders; `--target` writes elsewhere.
    """
    if not can_import("pip"):
        raise SetupFault(
            f"{sys.executable} has neither ensurepip nor pip, so it cannot install anything",
            "install python3-venv (Debian, Ubuntu) or nox from your distribution",
        )
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--target", scratch)
        must_run((*pip, "virtualenv"), "pip could not fetch virtualenv")
        make = (sys.executable, "-m", "virtualenv", "--quiet", os.fspath(directory))
        must_run(make, "virtualenv failed", {"PYTHONPATH": scratch})


def must_run(command: Sequence[str], complaint: str, extra: dict[str, str] | None = None) -> None:
    """Run a child; any exit code but 0 is a SetupFault."""
    code = run(command, extra)
    if code != 0:
        raise SetupFault(
            f"{complaint} (exit code {code}, its message is above)",
            "check the network and `pip config list`, or install python3-venv",
        )


def say(text: str) -> None:
    """One message for the person at the terminal; stdout stays nox's."""
    sys.stderr.write(text + "\n")
