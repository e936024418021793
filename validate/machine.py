"""What identifies the machine that numbers were measured on."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
_KEYS = ("model name", "stepping", "microcode", "flags", "Features", "CPU part")


@cache
def describe_machine() -> dict[str, str]:
    """CPU, cores that this process may use, kernel and memory of this machine."""
    uname = platform.uname()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": _read_cpu().get("model name", uname.processor or uname.machine),
        "cores": str(len(os.sched_getaffinity(0))),
        "architecture": uname.machine,
        "kernel": uname.release,
        "memory": f"{pages / 2**30:.0f} GiB",
        "cpu features": hashlib.sha256(repr(_read_cpu()).encode()).hexdigest()[:16],
    }


def machine_fingerprint() -> str:
    """One hash of it: samples of different machines are never put together."""
    return hashlib.sha256(repr(sorted(describe_machine().items())).encode()).hexdigest()


def _read_cpu() -> dict[str, str]:
    """The lines of the first CPU that say what it can do."""
    try:
        first = CPUINFO.read_text().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if key.strip() in _KEYS}
