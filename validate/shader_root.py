"""The Debian root with a new shader compiler and RADV, for checks that compile shaders.

`ci/toolchain_root.sh` makes it (as root, with debootstrap); docs/how-to/check-shaders.md.
"""

from __future__ import annotations

import logging
from pathlib import Path

from upstream import process
from upstream.lab import Lab, hold_lock, require_space

LOGGER = logging.getLogger("lab")
SCRIPT = Path(__file__).resolve().parents[1] / "ci" / "toolchain_root.sh"
COMPLETE = "toolchain-versions.txt"  # the script writes it last
SUITES = ("trixie", "trixie-backports")
HIP_SUITE = "trixie-hip"  # clang and the HIP headers, no driver
MEGABYTES = 2500
SECONDS = 1800.0


def root_folder(lab: Lab, suite: str = SUITES[0]) -> Path:
    """Where the root of a suite is, or would be."""
    return lab.root / "toolchain" / suite


def find_root(lab: Lab, suite: str = SUITES[0]) -> Path | None:
    """The root of a suite; None where none was made. Checks use the first suite's."""
    folder = root_folder(lab, suite)
    return folder if (folder / COMPLETE).is_file() else None


def make_root(lab: Lab, suite: str) -> Path:
    """Make the root, or leave a complete one as it is.

    Raises CommandError (exit 3) with the script's words: not root, no debootstrap, no mirror.
    """
    folder = root_folder(lab, suite)
    require_space(lab, MEGABYTES, "the toolchain root")
    with hold_lock(lab, f"toolchain-{suite}"):
        LOGGER.info("making %s (about two minutes when it is not there yet)", folder)
        process.run_logged(
            ("bash", SCRIPT, folder, suite),
            lab.log(f"toolchain-{suite}"),
            timeout=SECONDS,
            remedy="run it as root on Debian with debootstrap installed; only checks that "
            "compile shaders need it",
        )
    return folder
