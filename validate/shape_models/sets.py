"""Sets of models for speculation: a target with an MTP head and a drafter of each other kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from upstream.errors import UsageError

SETS = {
    "tiny": ("tiny-mtp", "tiny-draft", "tiny-dflash", "tiny-dflash2"),
    "small": ("small-mtp", "small-draft", "small-dflash", "small-dflash2"),
    "27b": ("mtp-27b", "draft-0.6b", "dflash-27b", "dflash2-27b"),
}


def list_set(name: str, folder: Path) -> Iterator[tuple[str, Path, Path | None]]:
    """Presets, their files, and the file of the target for which a drafter is.

    Raises UsageError for an unknown set.
    """
    if name not in SETS:
        raise UsageError(f"no set {name!r}", remedy=f"name one of {', '.join(SETS)}")
    target = folder / f"{SETS[name][0]}.gguf"
    for preset in SETS[name]:
        path = folder / f"{preset}.gguf"
        yield preset, path, None if path == target else target
