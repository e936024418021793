"""What a source last said about its versions, remembered for a few minutes.

A warm command must cost milliseconds, and a machine without network must not wait for a time
limit in every command, so answers and failures are both kept in one small file per source.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from upstream.errors import LabError
from upstream.lab import Lab
from upstream.version import Version

KEEP_SECONDS = 600.0


@dataclass(frozen=True)
class Listing:
    """The versions of a source in ascending order, or why it did not say; `at` is Unix time."""

    versions: tuple[Version, ...]
    failure: str
    at: float

    @property
    def fresh(self) -> bool:
        """Whether it is young enough to go by (a clock that was set back makes it old)."""
        return 0 <= time.time() - self.at < KEEP_SECONDS

    def describe_failure(self) -> str:
        """Why the source did not say, and when that was if it was not just now."""
        minutes = int(time.time() - self.at) // 60
        return self.failure + (f" (asked {minutes} min ago)" if minutes else "")


def listing_path(lab: Lab, name: str, address: str) -> Path:
    """The file for one source; the address (it may hold a password) is only hashed."""
    return (
        lab.root / "listings" / f"{name}-{hashlib.sha256(address.encode()).hexdigest()[:12]}.json"
    )


def read_listing(path: Path) -> Listing | None:
    """The remembered listing while it is fresh; None when there is none or it is unreadable."""
    try:
        data = json.loads(path.read_text())
        versions = tuple(Version(int(build)) for build in data["versions"])
        listing = Listing(versions, str(data["failure"]), float(data["at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return listing if listing.fresh else None


def write_listing(path: Path, listing: Listing) -> None:
    """Remember a listing; a reader sees the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    builds = [version.build for version in listing.versions]
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps({"at": listing.at, "failure": listing.failure, "versions": builds}))
    part.replace(path)


def failed(error: LabError) -> Listing:
    """A listing that says why there is none."""
    return Listing((), " ".join(error.what.split()), time.time())
