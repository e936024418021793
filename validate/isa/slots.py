"""How many tasks run at once, when some of them wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager


class Slots:
    """So many tasks run at once. One that waits for another's work lends its slot to a third, and
    goes on before any new one starts.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._returning = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.local()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def returning(self) -> int:
        """How many wait to go on."""
        return self._returning

    @contextmanager
    def task(self) -> Iterator[None]:
        """Run a new task when there is a slot and nobody returns to one.

        Raises CancelledError once there is none any more.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or (self._free and not self._returning))
            if self._closed:
                raise CancelledError
            self._free -= 1
        self._thread.inside = True
        try:
            yield
        finally:
            self._thread.inside = False
            self._release()

    def close(self) -> None:
        """Let no new task run, and none go on that waits; those that run go on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """While the block waits, the task's slot is another's; a thread without one just waits.

        Raises CancelledError after the block once there is no slot any more.
        """
        if not getattr(self._thread, "inside", False):
            yield
            return
        self._release()
        try:
            yield
        finally:
            self._return()

    def _release(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def _return(self) -> None:
        with self._changed:
            self._returning += 1
            self._changed.wait_for(lambda: self._closed or self._free)
            self._returning -= 1
            self._free -= 1  # also at the end: the task gives it back
            self._changed.notify_all()
            if self._closed:
                raise CancelledError
