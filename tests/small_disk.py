"""A disk that is soon full: a real file system."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mount_small(folder: Path, size: str) -> Iterator[Path]:
    """A tmpfs of `size` (as mount reads it) on an empty folder; skips where mounting is refused."""
    folder.mkdir()
    command = ("mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder))
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"mounting a small tmpfs needs root: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(("umount", "-l", str(folder)), check=True)
