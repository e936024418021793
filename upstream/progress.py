"""Progress of long work on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LOGGER = logging.getLogger("lab")
QUIET_SECONDS = 15.0


class Meter(Protocol):
    """What long work reports to."""

    def advance(self, amount: int) -> None:
        """Count `amount` more units as done."""

    def update(self, done: int, total: int) -> None:
        """Set both counts, for work that learns its size on the way."""


class _Bar:
    def __init__(self, progress: Progress, task: int) -> None:
        self._progress = progress
        self._task = progress.task_ids[task]

    def advance(self, amount: int) -> None:
        self._progress.advance(self._task, amount)

    def update(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)


class _Lines:
    """Log lines at most every QUIET_SECONDS, each with an estimate of the time left."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total, self._done = title, total, 0
        self._started = self._spoke = time.monotonic()

    def advance(self, amount: int) -> None:
        self.update(self._done + amount, self._total)

    def update(self, done: int, total: int) -> None:
        self._done, self._total = done, total
        now = time.monotonic()
        if now - self._spoke < QUIET_SECONDS or not done:
            return
        self._spoke = now
        left = (now - self._started) * (total - done) / done
        LOGGER.info("%s: %d %%, about %d s left", self._title, 100 * done // max(total, 1), left)


@contextmanager
def show_progress(title: str, total: int) -> Iterator[Meter]:
    """A meter for `total` units of work called `title`."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(title, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(title, total=total)
        yield _Bar(progress, 0)
