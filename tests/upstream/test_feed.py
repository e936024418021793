"""A child that is fed on its standard input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from upstream.errors import CommandError
from upstream.process import feed


def test_child_gets_every_byte(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with feed(("sh", "-c", f"cat > '{target}'")) as stream:
        for _ in range(50):
            stream.write(b"x" * 100_000)
    assert target.stat().st_size == 5_000_000


def feed_much(*command: str) -> None:
    with feed(command, remedy="make room") as stream:
        for _ in range(100):
            stream.write(b"x" * 100_000)


def test_child_that_fails_early_says_why() -> None:
    with pytest.raises(CommandError, match="no room here") as caught:
        feed_much("sh", "-c", "echo no room here >&2; exit 7")
    assert (caught.value.failure.code, caught.value.remedy) == (7, "make room")


def test_child_that_goes_away_content_is_no_error() -> None:
    feed_much("true")


def test_chatty_child_does_not_block() -> None:
    with feed(("sh", "-c", "yes | head -c 2000000; cat > /dev/null")) as stream:
        stream.write(b"x" * 1_000_000)


def fail_when(ready: Path, *command: str) -> None:
    with feed(command):
        while not ready.exists():
            pass
        raise ZeroDivisionError


def test_error_in_the_block_ends_the_child(tmp_path: Path) -> None:
    pid, ready = tmp_path / "pid", tmp_path / "ready"
    with pytest.raises(ZeroDivisionError):
        fail_when(ready, "sh", "-c", f"echo $$ > '{pid}'; echo > '{ready}'; sleep 60")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
