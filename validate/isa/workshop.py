"""The folder in which pipelines are recorded and compiled, and what is known from before.

isa/known.sqlite           documents by the digest of all that decides them
isa/source/ggml            the one source folder, moved from tree to tree
isa/spirv/<sha256>.spv     compiled shaders by their content
isa/objects/<digest>.o     compiled host code by its sources
isa/bin, isa/work          our own programs; what the generator of a tree writes
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from upstream.errors import EnvironmentFault, UsageError
from upstream.git import Git
from upstream.lab import Lab, hold_lock, require_space
from validate.source_tree import SourceTree

MEGABYTES = 600
BATCH = 500  # keys in one query
SCHEMA = "CREATE TABLE IF NOT EXISTS known (key TEXT PRIMARY KEY, document TEXT NOT NULL)"


class Workshop:
    """The open folder; one run at a time holds it."""

    def __init__(self, folder: Path, git: Git, base: sqlite3.Connection) -> None:
        self.folder = folder
        self.git = git
        self._base = base
        self._lock = threading.Lock()

    @property
    def ggml(self) -> Path:
        return self.folder / "source" / "ggml"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def make(self, name: str) -> Path:
        """A folder of ours, made when missing."""
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def subtree(self, tree: str) -> str:
        """The id of a tree's ggml folder: equal ones need no second look."""
        found = self.git.resolve(f"{tree}:ggml")
        if found is None:
            raise UsageError(
                f"the tree {tree[:12]} has no folder ggml", remedy="name a series of llama.cpp"
            )
        return found

    def move(self, subtree: str) -> None:
        """Make the source folder hold this ggml."""
        SourceTree(self.git, self.ggml, self.folder / "source.index").move(subtree)

    def look_up(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """What is known, by key."""
        wanted, found = list(dict.fromkeys(keys)), dict[str, dict[str, Any]]()
        for start in range(0, len(wanted), BATCH):
            part = wanted[start : start + BATCH]
            marks = ", ".join("?" * len(part))
            query = f"SELECT key, document FROM known WHERE key IN ({marks})"  # noqa: S608
            with self._lock, _explained(self.folder):
                rows = self._base.execute(query, part).fetchall()
            found |= {key: json.loads(document) for key, document in rows}
        return found

    def keep(self, documents: Mapping[str, Mapping[str, Any]]) -> None:
        """Store documents; on return they survive the end of this process."""
        rows = [(key, json.dumps(document)) for key, document in documents.items()]
        with self._lock, _explained(self.folder), self._base as base:
            base.executemany("INSERT OR REPLACE INTO known VALUES (?, ?)", rows)


@contextmanager
def open_workshop(lab: Lab, git: Git) -> Iterator[Workshop]:
    """The workshop of the lab. Raises EnvironmentFault when another run holds it."""
    folder = lab.root / "isa"
    folder.mkdir(parents=True, exist_ok=True)
    require_space(lab, MEGABYTES, "compiling shaders")
    path = folder / "known.sqlite"
    with hold_lock(lab, "isa"), closing(_connect(folder, path)) as base:
        yield Workshop(folder, git, base)


def _connect(folder: Path, path: Path) -> sqlite3.Connection:
    with _explained(folder):
        base = sqlite3.connect(path, check_same_thread=False)
        base.execute(SCHEMA)
        return base


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        path = folder / "known.sqlite"
        raise EnvironmentFault(
            f"{path}: {error}", remedy=f"remove {path}: everything in it can be compiled again"
        ) from error
