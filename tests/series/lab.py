"""The tool as a real child process, with a LAB_DIR of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from upstream.git import Git

ROOT = Path(__file__).resolve().parents[2]


class Result(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    def document(self) -> dict[str, Any]:
        """Standard output as the JSON document that it is."""
        found: dict[str, Any] = json.loads(self.out)
        return found


@dataclass(frozen=True)
class Lab:
    """The command line on one series, one upstream and one LAB_DIR, as real children."""

    folder: Path
    series: Path
    remote: str
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def git(self) -> Git:
        """The tool's own repository."""
        return Git(self.folder / "lab.git")

    @property
    def state(self) -> Path:
        """What this series keeps between commands."""
        (found,) = (self.folder / "state").iterdir()
        return found

    @property
    def parked(self) -> Path:
        return self.state / "parked"

    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        return kept | {"LAB_DIR": str(self.folder), "PYTHONPATH": str(ROOT)} | dict(self.env)

    def command(self, name: str, *args: str) -> tuple[str, ...]:
        where = ("--upstream", "remote", "--remote", self.remote, "--series", str(self.series))
        return (sys.executable, "-m", "series", name, *where, *args)

    def run(self, name: str, *args: str) -> Result:
        """Run `python -m series NAME ...` to its end."""
        return run_child(self.command(name, *args), self.environment())

    def rebase(self, *args: str) -> Result:
        return self.run("rebase", *args)

    def refs(self) -> dict[str, str]:
        """The refs of stacks and backups."""
        if not self.git.directory.exists():
            return {}
        return self.git.list_refs("refs/series") | self.git.list_refs("refs/backup")

    def files(self) -> dict[str, bytes]:
        """Every file of the series directory."""
        return read_folder(self.series)


def run_child(command: tuple[str, ...], env: Mapping[str, str]) -> Result:
    """Run a child to its end with its output as text."""
    done = subprocess.run(
        command, env=dict(env), cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def read_folder(folder: Path) -> dict[str, bytes]:
    """All files below a folder by relative name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
