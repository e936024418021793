"""Where the tool keeps everything it makes: one folder per user, never the user's checkout.

`LAB_DIR` overrides the place; else it is platformdirs' cache folder of the user.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from upstream.errors import EnvironmentFault

LOGGER = logging.getLogger("lab")
APP_NAME = "llama-series-lab"
STALE_SECONDS = 3 * 86400


@dataclass(frozen=True)
class Lab:
    """The folders of the cache; `open_lab` makes the root."""

    root: Path

    @property
    def repository(self) -> Path:
        """The private bare repository: upstream snapshots and stacks."""
        return self.root / "lab.git"

    @property
    def downloads(self) -> Path:
        return self.root / "downloads"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def scratch(self) -> Path:
        """For files that live no longer than a command."""
        return self.root / "scratch"

    def state(self, series_id: str) -> Path:
        """What a rebase of one series keeps between commands (parked conflicts, decisions)."""
        return self.root / "state" / series_id

    def log(self, name: str) -> Path:
        """The log file for a name that may hold any characters."""
        return self.logs / (re.sub(r"[^A-Za-z0-9._-]+", "-", name) + ".log")


def open_lab() -> Lab:
    """The lab of this user, made when missing.

    Raises EnvironmentFault when the folder cannot be made or written.
    """
    named = os.environ.get("LAB_DIR")
    root = Path(named).expanduser().absolute() if named else user_cache_path(APP_NAME)
    try:
        (root / "scratch").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot make the cache folder {root}: {error.strerror}",
            remedy="set LAB_DIR to a folder that you can write",
        ) from error
    _sweep(root / "scratch")
    return Lab(root)


def _sweep(scratch: Path) -> None:
    """Remove what a killed run left behind; no command of ours runs for days."""
    for path in scratch.iterdir():
        with suppress(OSError):  # another run may sweep at the same moment
            if time.time() - path.lstat().st_mtime > STALE_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def hold_lock(lab: Lab, name: str, *, wait: float = 0.0, notice: str = "") -> Iterator[None]:
    """Hold the named lock; another holder for longer than `wait` seconds is an error.

    `notice` is logged once when the lock is not free at once.
    The lock is the kernel's (flock): it ends with its process, kill -9 included.
    """
    path = lab.root / f"{name}.lock"
    lock = FileLock(path)
    try:
        _acquire(lock, wait, notice)
    except Timeout as error:
        raise EnvironmentFault(
            f"another run holds the lock {path}",
            remedy="wait until it ends, then run the same command again",
        ) from error
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, wait: float, notice: str) -> None:
    if notice:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            LOGGER.info(notice)
        else:
            return
    lock.acquire(timeout=wait)


def require_space(lab: Lab, megabytes: int, purpose: str) -> None:
    """Refuse to start work that would fill the disk."""
    free = shutil.disk_usage(lab.root).free // 1_000_000
    if free < megabytes:
        raise EnvironmentFault(
            f"{purpose} needs about {megabytes} MB, {lab.root} has {free} MB free",
            remedy="free some space, or set LAB_DIR to a larger disk",
        )
