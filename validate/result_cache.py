"""Results of check runs, found again by everything that decides them.

results/xx/<sha256 of the inputs>.json    what the run said
results/xx/<sha256 of the inputs>.data    bytes of a run that later runs read (logits)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from upstream.lab import Lab

Document = dict[str, Any]


class ResultCache:
    """Documents by their inputs; a document appears by one rename."""

    def __init__(self, lab: Lab) -> None:
        self.folder = lab.root / "results"

    def path(self, inputs: Mapping[str, Any], suffix: str = ".json") -> Path:
        """Where the result for these inputs is or would be."""
        text = json.dumps(inputs, sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()
        return self.folder / key[:2] / f"{key}{suffix}"

    def obtain(
        self, inputs: Mapping[str, Any], produce: Callable[[], Document]
    ) -> tuple[Document, bool]:
        """The stored result and True, or what `produce` returns, stored, and False.

        What `produce` raises is passed on, and nothing is stored.
        """
        path = self.path(inputs)
        if (found := _read(path)) is not None:
            return found, True
        result = produce()
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f".{path.name}.{os.getpid()}")
        half.write_text(json.dumps({"inputs": inputs, "result": result}, indent=1))
        half.replace(path)
        return result, False


def _read(path: Path) -> Document | None:
    try:
        result = json.loads(path.read_text())["result"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return result if isinstance(result, dict) else None
