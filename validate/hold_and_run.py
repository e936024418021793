"""Run a command that holds a lock for as long as any process of it lives.

    python hold_and_run.py LOCK SECONDS COMMAND...

Run as a script of its own, it imports nothing of the project. Two things would otherwise move the
source tree under running compilers: ninja puts every compiler in a process group of its own, so
killing ninja's group leaves them; and after kill -9 of our Python nobody tells ninja anything.

- The lock is an flock on an inherited descriptor: the kernel frees it when the last process ends.
- On Linux the kernel sends ninja SIGTERM when this script dies, and kills this script when our
  Python dies (PR_SET_PDEATHSIG, man 2 prctl); on SIGTERM ninja ends its compilers and removes
  half-written outputs.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
BUSY = 75  # EX_TEMPFAIL of sysexits.h


def main(argv: Sequence[str]) -> int:
    """Take the lock within the given seconds and run the command; BUSY when another has it."""
    lock, seconds, *command = argv
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    if not _take(descriptor, time.monotonic() + float(seconds)):
        return BUSY
    if not command:
        return 0
    if sys.platform == "linux":
        return _supervise(command, descriptor)
    os.set_inheritable(descriptor, True)
    return os.execvp(command[0], command)  # noqa: S606


def _take(descriptor: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.1)
        else:
            return True


def _supervise(command: Sequence[str], descriptor: int) -> int:
    _die_with_parent(signal.SIGKILL)
    me = os.getpid()

    def follow() -> None:
        _die_with_parent(signal.SIGTERM)
        if os.getppid() != me:  # died between fork and prctl
            os._exit(1)

    # A session of its own: the caller kills our group with SIGKILL, ninja must get SIGTERM.
    child = subprocess.Popen(
        command, pass_fds=(descriptor,), start_new_session=True, preexec_fn=follow
    )
    code = child.wait()
    return code if code >= 0 else 128 - code


def _die_with_parent(number: signal.Signals) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
