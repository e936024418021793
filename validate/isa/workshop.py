"""The folder in which pipelines are recorded and compiled, and what is known from before.

isa/known.sqlite           documents by the digest of all that decides them
isa/source[-N]/ggml        source folders, one for each compiler at work, moved from tree to tree
isa/spirv/<sha256>.spv     compiled shaders by their content
isa/objects/<digest>.o     compiled host code by its sources
isa/generated/<digest>     what the generator of a tree writes
isa/headers/<digest>       the precompiled header of the host code
isa/bin, isa/work[-N]      our own programs; host code with the hook
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from upstream.errors import EnvironmentFault, UsageError
from upstream.git import Git
from upstream.lab import Lab, hold_lock, require_space
from validate.isa.slots import Slots
from validate.source_tree import SourceTree

MEGABYTES = 1000
BATCH = 500  # keys in one query
# For each task that runs at once: others wait for a file that it makes, or for a yard.
THREADS, YARDS = 16, 2
T = TypeVar("T")
R = TypeVar("R")
SCHEMA = "CREATE TABLE IF NOT EXISTS known (key TEXT PRIMARY KEY, document TEXT NOT NULL)"


@dataclass
class Yard:
    """A source folder and a place to work beside it; one task at a time has it."""

    source: SourceTree
    work: Path
    subtree: str = ""

    @property
    def ggml(self) -> Path:
        return self.source.folder

    def move(self, subtree: str) -> None:
        """Make the source folder hold this ggml."""
        if self.subtree != subtree:
            self.subtree = ""  # until it is done
            self.source.move(subtree)
            self.subtree = subtree


class Workshop:
    """The open folder; one run at a time holds it. `jobs` tasks run at once, whoever wants them.

    A task that waits for what another one makes lends its slot to a third: so there are more
    threads, and some more yards, than slots.
    """

    def __init__(self, folder: Path, git: Git, base: sqlite3.Connection, jobs: int) -> None:
        self.folder = folder
        self.git = git
        self._base = base
        self._lock = threading.Lock()
        self._slots = Slots(jobs)
        self._pool = ThreadPoolExecutor(jobs * THREADS)
        names = [f"-{number}" if number else "" for number in range(jobs * YARDS)]
        self._yards = [self._make_yard(name) for name in names]
        self._free = threading.Condition()
        self._making: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def _make_yard(self, suffix: str) -> Yard:
        folder, index = self.folder / f"source{suffix}/ggml", self.folder / f"source{suffix}.index"
        return Yard(SourceTree(self.git, folder, index), self.folder / f"work{suffix}")

    def share_out(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Let the pool do some work; a task must not share out others, or all may wait."""

        def in_slot(item: T) -> R:
            with self._slots.task():
                return work(item)

        return list(self._pool.map(in_slot, items))

    def close(self) -> None:
        """Wait for the tasks that run, and forget those that wait."""
        self._slots.close()
        self._pool.shutdown(cancel_futures=True)

    @property
    def closed(self) -> bool:
        """Whether no task runs any more, or those that run are the last."""
        return self._slots.closed

    @contextmanager
    def yard(self, subtree: str) -> Iterator[Yard]:
        """A folder with this ggml that nobody else has; one that holds it already where free."""
        chosen = self._take_yard(subtree)
        try:
            if chosen is None:
                with self._slots.lent(), self._free:
                    while (chosen := self._take_yard(subtree)) is None:
                        self._free.wait()
            chosen.move(subtree)
            yield chosen
        finally:
            if chosen is not None:
                self._give_yard(chosen)

    def _give_yard(self, yard: Yard) -> None:
        with self._free:
            self._yards.append(yard)
            self._free.notify()

    def _take_yard(self, subtree: str) -> Yard | None:
        with self._free:
            if not self._yards:
                return None
            last = self._yards[-1]  # the next tree is most often like the one before
            chosen = next((each for each in self._yards if each.subtree == subtree), last)
            self._yards.remove(chosen)
            return chosen

    @contextmanager
    def making(self, path: Path) -> Iterator[None]:
        """While one task makes a file, others that want the same one wait."""
        with self._lock:
            lock = self._making[str(path)]
        free = lock.acquire(blocking=False)
        try:
            if not free:
                with self._slots.lent():
                    lock.acquire()
            yield
        finally:
            lock.release()

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

    def list_files(self, subtree: str) -> dict[Path, str]:
        """The files of a tree by their path, each with its mode and the id of its content."""
        lines = self.git.text("ls-tree", "-r", "--full-tree", subtree).splitlines()
        return {Path(path): entry for entry, path in (line.split("\t", 1) for line in lines)}

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
def open_workshop(lab: Lab, git: Git, jobs: int = 2) -> Iterator[Workshop]:
    """The workshop of the lab, with so many compilers at once.

    Raises EnvironmentFault when another run holds it.
    """
    folder = lab.root / "isa"
    folder.mkdir(parents=True, exist_ok=True)
    require_space(lab, MEGABYTES, "compiling shaders")
    path = folder / "known.sqlite"
    with hold_lock(lab, "isa"), closing(_connect(folder, path)) as base:
        shop = Workshop(folder, git, base, max(1, jobs))
        try:
            yield shop
        finally:
            shop.close()


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
