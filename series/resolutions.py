"""The memory of resolved conflicts: reviewable text files, keyed by the conflict's content.

A resolution is the diff from the merge with upstream's side in every conflict region to the tree
that a person made of it: small, and what a reviewer wants to see (no diff at all means: upstream's
side). It is replayed only when the same conflict returns and the diff applies strictly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from series.manifest import list_resolution_files
from series.merge import Conflict
from upstream.errors import CommandError, UsageError
from upstream.git import Git

_FIELDS = ("Patch", "Conflict", "From", "Onto", "Loss", "Reason")


@dataclass(frozen=True)
class Resolution:
    """One resolved conflict; `loss` is the digest of what the resolution lost, acknowledged by
    `reason` ("" where nothing was lost)."""

    patch: str
    key: str
    old: str
    onto: str
    loss: str
    reason: str
    diff: bytes

    @property
    def file_name(self) -> str:
        return f"{self.patch.removesuffix('.patch')}-{self.key}.resolution"

    def to_bytes(self) -> bytes:
        """The file's content: six headers, a blank line, the diff."""
        values = (
            self.patch,
            self.key,
            self.old,
            self.onto,
            self.loss or "none",
            " ".join(self.reason.split()) or "none",  # one line, whatever the shell gave us
        )
        head = "".join(f"{name}: {value}\n" for name, value in zip(_FIELDS, values, strict=True))
        return head.encode() + b"\n" + self.diff


def parse_resolution(path: Path) -> Resolution:
    """Read one file; UsageError when a header is missing or the diff is not there."""
    head, blank, diff = path.read_bytes().partition(b"\n\n")
    pairs = [line.partition(": ") for line in head.decode("utf-8", "replace").splitlines()]
    table = {name: value.strip() for name, _, value in pairs}
    missing = [name for name in _FIELDS if not table.get(name)]
    if missing or not blank or (diff and not diff.startswith(b"diff --git ")):
        what = f"lacks {', '.join(missing)}" if missing else "is cut off or holds no diff"
        raise UsageError(f"{path}: the resolution {what}", remedy=f"mend or remove {path}")
    patch, key, old, onto, loss, reason = (
        "" if table[name] == "none" else table[name] for name in _FIELDS
    )
    return Resolution(patch, key, old, onto, loss, reason, diff)


def load_resolutions(directories: Iterable[Path]) -> dict[tuple[str, str], Resolution]:
    """All stored resolutions by (patch, conflict key); later directories win."""
    found = [
        parse_resolution(path) for folder in directories for path in list_resolution_files(folder)
    ]
    return {(resolution.patch, resolution.key): resolution for resolution in found}


def replay(git: Git, conflict: Conflict, resolution: Resolution, scratch: Path) -> str | None:
    """The resolved tree, or None when the resolution no longer fits around the conflict."""
    try:
        return conflict.write_upstream(git, scratch, resolution.diff)
    except CommandError:
        return None
