"""The one place that starts processes.

Every child gets its own process group, so that a time limit, Ctrl-C or SIGTERM ends its children
too. A signal reaches the main thread alone, which may be waiting for threads that wait for children
of their own: so `end_on_signals` ends all of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from upstream.errors import CommandError, CommandFailure

TAIL_BYTES = 8192
GRACE = 5.0  # seconds that a held child has to end by itself
_running: set[subprocess.Popen[bytes]] = set()
_ending = threading.Event()


class Terminated(KeyboardInterrupt):
    """SIGTERM: what ends by Ctrl-C ends by it alike."""


def end_on_signals() -> None:
    """From now on SIGINT and SIGTERM end every running child, then raise in the main thread.

    What other threads wait for is no answer of a program: they get KeyboardInterrupt as well, and
    start no more. A held child is left to its block.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # deaf on purpose: nohup, `&` in a shell
            signal.signal(number, _end)


def _end(number: int, _frame: object = None) -> None:
    if _gate.closed:
        _gate.came = number
        return
    _ending.set()
    for child in tuple(_running):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


@dataclass
class _Gate:
    """While the main thread starts a child, which nobody could end yet, a signal waits."""

    closed: bool = False
    came: int = 0


_gate = _Gate()


@contextmanager
def _signals_wait() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _gate.closed, _gate.came = True, 0
    try:
        yield
    finally:
        _gate.closed = False
        if _gate.came:
            _end(_gate.came)


@contextmanager
def _tracked(child: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A child that a signal ends; the block waits for it."""
    if _is_over():  # the signal came while it was started
        kill_group(child)
    try:
        with child:
            yield child
    finally:
        _running.discard(child)
    if _is_over():
        raise KeyboardInterrupt


def _is_over() -> bool:
    """Whether this thread goes on after a signal; the main one has its exception and cleans up."""
    return _ending.is_set() and threading.current_thread() is not threading.main_thread()


@dataclass(frozen=True)
class Completed:
    """A finished child: exit code, captured output, wall time in seconds."""

    command: tuple[str, ...]
    code: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 survive a round trip."""
        return self.stdout.decode("utf-8", "surrogateescape")


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float | None = None,
    ok: Sequence[int] = (0,),
    remedy: str = "",
) -> Completed:
    """Run to the end with output captured; any exit code outside `ok` raises CommandError."""
    argv = tuple(os.fspath(part) for part in command)
    started = time.monotonic()
    with _tracked(_start(argv, cwd, env, subprocess.PIPE, subprocess.PIPE)) as child:
        try:
            out, err = child.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            kill_group(child)
            _raise(argv, 124, f"no answer within {timeout:g} s".encode(), None, remedy)
        except BaseException:
            kill_group(child)
            raise
    if child.returncode not in ok:
        _raise(argv, child.returncode, err or out, None, remedy)
    return Completed(argv, child.returncode, out, err, time.monotonic() - started)


def run_logged(
    command: Sequence[str | os.PathLike[str]],
    log: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    on_line: Callable[[str], None] | None = None,
    ok: Sequence[int] = (0,),
    remedy: str = "",
) -> Completed:
    """Run a long child: output goes to `log` line by line and to `on_line`; stdout is the tail."""
    argv = tuple(os.fspath(part) for part in command)
    started = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    child = _start(argv, cwd, env, subprocess.PIPE, subprocess.STDOUT)
    with log.open("wb") as sink, _tracked(child) as kid:
        limit = threading.Timer(timeout or threading.TIMEOUT_MAX, kill_group, (kid,))
        limit.daemon = True
        limit.start()
        try:
            tail = _pump(kid, sink, on_line)
        except BaseException:
            kill_group(kid)
            raise
        finally:
            limit.cancel()
    late = timeout is not None and time.monotonic() - started >= timeout
    code = 124 if late and kid.returncode < 0 else kid.returncode
    tail += f"\ntime limit of {timeout:g} s reached\n".encode() if code == 124 and late else b""
    if code not in ok:
        _raise(argv, code, tail, log, remedy)
    return Completed(argv, code, tail, b"", time.monotonic() - started)


@contextmanager
def feed(
    command: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    remedy: str = "",
) -> Iterator[IO[bytes]]:
    """Run a child on what the block writes to its standard input, too much to hold in memory.

    Leaving the block waits for the child; an exception inside the block kills it. An exit code
    other than 0 raises CommandError with what the child said, also when it went away early.
    """
    argv = tuple(os.fspath(part) for part in command)
    # A file, not a pipe: nobody reads while the block writes.
    with tempfile.TemporaryFile() as said:
        child = _start(argv, cwd, env, said.fileno(), subprocess.STDOUT, subprocess.PIPE)
        assert child.stdin is not None
        try:
            yield child.stdin
            child.stdin.close()
        except BrokenPipeError:
            pass  # its exit code and last words say why
        except BaseException:
            kill_group(child)
            raise
        finally:
            _running.discard(child)
            _abandon(child.stdin)
        if child.wait() != 0:
            said.seek(max(0, said.seek(0, os.SEEK_END) - TAIL_BYTES))
            _raise(argv, child.returncode, said.read(), None, remedy)


class Held:
    """A child that runs beside us (a server): alive or ended, and its last words."""

    def __init__(self, child: subprocess.Popen[bytes], command: tuple[str, ...], log: Path) -> None:
        self._child = child
        self.command = command
        self.log = log

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs; negative: the signal that ended it."""
        return self._child.poll()

    def last_words(self, lines: int = 12) -> str:
        """The end of its log."""
        return _read_tail(self.log, lines)


@contextmanager
def hold(
    command: Sequence[str | os.PathLike[str]],
    log: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    remedy: str = "",
) -> Iterator[Held]:
    """Keep a child running while the block runs, its output in `log`, which stays.

    Leaving the block, however, ends it and all that it started: asked first, killed after GRACE s.
    """
    argv = tuple(os.fspath(part) for part in command)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as sink:
        child = _start(argv, cwd, env, sink.fileno(), subprocess.STDOUT, subprocess.DEVNULL, remedy)
    try:
        _running.discard(child)
        yield Held(child, argv, log)
    finally:
        _dismiss(child)


def _dismiss(child: subprocess.Popen[bytes]) -> None:
    """Ask a group to end, then kill what is left of it."""
    try:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
    finally:
        kill_group(child)
        child.wait()


def _read_tail(log: Path, lines: int) -> str:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-lines:])


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """End a child and all that it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    child.wait()


def _abandon(stream: IO[bytes]) -> None:
    """Close a pipe; bytes that nobody will read any more are no error."""
    with suppress(BrokenPipeError):
        stream.close()


def _start(
    argv: tuple[str, ...],
    cwd: Path | None,
    env: Mapping[str, str] | None,
    stdout: int,
    stderr: int,
    stdin: int | None = None,
    remedy: str = "",
) -> subprocess.Popen[bytes]:
    if _is_over():
        raise KeyboardInterrupt
    if stdin is None:
        stdin = subprocess.PIPE if stderr == subprocess.PIPE else subprocess.DEVNULL
    try:
        with _signals_wait():
            child = subprocess.Popen(
                argv,
                cwd=cwd,
                env=None if env is None else dict(env),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            _running.add(child)
    except FileNotFoundError as error:
        failure = CommandFailure(argv, 127, str(error))
        raise CommandError(failure, remedy=remedy or "run: nox -s doctor") from error
    return child


def _pump(
    child: subprocess.Popen[bytes],
    sink: IO[bytes],
    on_line: Callable[[str], None] | None,
) -> bytes:
    assert child.stdout is not None
    tail = b""
    for line in child.stdout:
        sink.write(line)
        tail = (tail + line)[-TAIL_BYTES:]
        if on_line is not None:
            on_line(line.decode("utf-8", "replace").rstrip())
    child.wait()
    return tail


def _raise(argv: tuple[str, ...], code: int, output: bytes, log: Path | None, remedy: str) -> None:
    tail = output[-TAIL_BYTES:].decode("utf-8", "replace")
    raise CommandError(CommandFailure(argv, code, tail, log), remedy=remedy)
