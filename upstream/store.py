"""Imported upstream versions as commits and tags of the private repository.

A true commit (from the git remote) carries upstream's history. A snapshot (from a source package)
is a commit of ours: its id depends only on the package and on the snapshots before it, so two
machines with the same set of snapshots hold the same ids.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upstream.errors import EnvironmentFault
from upstream.git import NULL_ID, Git, Person, RefMove
from upstream.lab import Lab, hold_lock
from upstream.version import Version, parse_version

LOGGER = logging.getLogger("lab")
LOCK = "upstream"
LOCK_WAIT = 3600.0  # seconds
TAGS = "refs/tags/upstream/"
IMPORTING = "refs/importing/"  # what a run has fetched and not yet tagged
STALE_SECONDS = 60.0
AUTHOR = ("llama.cpp snapshot", "snapshot@localhost")
_FIELDS = (
    *("%(refname)", "%(objectname)", "%(tree)", "%(authoremail)", "%(authordate:unix)"),
    "%(contents)",
)
_TRAILER = re.compile(r"^Upstream-(Origin|SHA256): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Snapshot:
    """One upstream tree as a source package ships it.

    `origin` is the package's name and version, `date` its upload time (seconds since 1970, UTC),
    `sha256` that of the archive; `commit` is empty until the snapshot is stored.
    """

    version: Version
    tree: str
    origin: str
    sha256: str
    date: int
    commit: str = ""


@dataclass(frozen=True)
class Held:
    """What the repository holds for one version: a commit, and the snapshot it is (if it is)."""

    version: Version
    commit: str
    tree: str
    snapshot: Snapshot | None

    @property
    def origin(self) -> str:
        """Package name and version, or "remote" for a true upstream commit."""
        return self.snapshot.origin if self.snapshot else "remote"


@contextmanager
def hold_store(lab: Lab) -> Iterator[None]:
    """Be the only one that changes upstream tags; another run is waited for."""
    notice = "another run is importing upstream source; waiting for it"
    with hold_lock(lab, LOCK, wait=LOCK_WAIT, notice=notice):
        clear_leftovers(Git(lab.repository))
        yield


def clear_leftovers(git: Git) -> None:
    """Remove what a killed run left behind; only for the holder of the lock.

    Packs are written under this lock alone, so every half-written one is a dead run's.
    """
    folder = git.directory
    dead = [*(folder / "objects" / "pack").glob("tmp_*"), *folder.glob("fast_import_crash_*")]
    dead += [*(folder / TAGS).rglob("*.lock"), *(folder / IMPORTING).rglob("*.lock")]
    dead += [path for path in folder.glob("packed-refs.lock") if _is_stale(path)]
    for path in dead:
        path.unlink(missing_ok=True)
    drop_importing(git)


def drop_importing(git: Git) -> None:
    """Forget what was fetched and is tagged by now, or belongs to a dead run."""
    git.move_refs([RefMove(ref, NULL_ID, old) for ref, old in git.list_refs(IMPORTING).items()])


def _is_stale(path: Path) -> bool:
    """Whether a lock that others take for milliseconds is old enough to be a dead run's."""
    try:
        return time.time() - path.stat().st_mtime > STALE_SECONDS
    except FileNotFoundError:
        return False


def read_held(git: Git) -> dict[Version, Held]:
    """Everything imported, oldest version first."""
    line = "%00".join(_FIELDS) + "%00%00"
    records = git.text("for-each-ref", f"--format={line}", TAGS).split("\0\0\n")
    found = [_parse_held(record) for record in records if record]
    return {held.version: held for held in sorted(found, key=lambda held: held.version)}


def _parse_held(record: str) -> Held:
    ref, commit, tree, email, date, message = record.rstrip("\0").split("\0")
    version = parse_version(ref.removeprefix(TAGS))
    trailers = dict(_TRAILER.findall(message))
    snapshot = None
    if email == f"<{AUTHOR[1]}>" and {"Origin", "SHA256"} <= trailers.keys():
        origin, sha256 = trailers["Origin"], trailers["SHA256"]
        snapshot = Snapshot(version, tree, origin, sha256, int(date), commit)
    return Held(version, commit, tree, snapshot)


def add_snapshot(git: Git, snapshot: Snapshot) -> str:
    """Store a snapshot and return its commit; the store's lock must be held.

    Raises EnvironmentFault when the version is there with another tree.
    """
    held = read_held(git)
    known = held.get(snapshot.version)
    if known is not None:
        require_same_tree(known, snapshot.tree, snapshot.origin)
        return known.commit
    snapshots = [entry.snapshot for entry in held.values() if entry.snapshot]
    moves = chain_moves(git, [*snapshots, snapshot])
    git.move_refs(moves)
    return next(move.new for move in moves if move.ref == snapshot.version.ref)


def add_true_commits(git: Git, commits: Mapping[Version, str]) -> None:
    """Tag commits of the git remote; snapshots of the same versions give way to them.

    Raises EnvironmentFault, and moves nothing, when a snapshot has another tree than its commit.
    """
    held = read_held(git)
    moves = []
    for version, commit in commits.items():
        known = held.get(version)
        if known is not None:
            require_same_tree(known, git.tree_of(commit), "the git remote")
        moves.append(RefMove(version.ref, commit, known.commit if known else NULL_ID))
    left = [h.snapshot for v, h in held.items() if h.snapshot and v not in commits]
    git.move_refs([*moves, *chain_moves(git, left)])


def require_same_tree(known: Held, tree: str, origin: str) -> None:
    """Two sources of one version must agree on every byte."""
    if known.tree == tree:
        return
    raise EnvironmentFault(
        f"{known.version} from {origin} has tree {tree}, "
        f"but {known.version} from {known.origin} is imported with tree {known.tree}",
        remedy=f"one of the two is not upstream's {known.version}: compare them with "
        f"git diff {known.tree} {tree} in the cache's lab.git, and trust neither until then",
    )


def chain_moves(git: Git, snapshots: Iterable[Snapshot]) -> list[RefMove]:
    """Give every snapshot the one before it as parent; the result moves what that changes."""
    moves: list[RefMove] = []
    parents: Sequence[str] = ()
    for snapshot in sorted(snapshots, key=lambda each: each.version):
        author = Person(*AUTHOR, f"{snapshot.date} +0000")
        commit = git.write_commit(snapshot.tree, parents, author, describe_snapshot(snapshot))
        if commit != snapshot.commit:
            moves.append(RefMove(snapshot.version.ref, commit, snapshot.commit or NULL_ID))
        parents = (commit,)
    return moves


def describe_snapshot(snapshot: Snapshot) -> str:
    """The commit message; its trailers are how the store knows a snapshot again."""
    return (
        f"llama.cpp {snapshot.version}\n\n"
        f"The tree of upstream's tag {snapshot.version} as a source package ships it.\n"
        "The package does not name the upstream commit.\n\n"
        f"Upstream-Version: {snapshot.version}\n"
        f"Upstream-Origin: {snapshot.origin}\n"
        f"Upstream-SHA256: {snapshot.sha256}\n"
    )
