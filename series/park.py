"""Parked conflicts: a worktree of the tool's own for each, where a person resolves it.

A parked worktree is never removed while it may hold somebody's work; `--abort` is the one that
forgets.
"""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from series.decisions import write_file
from series.merge import Conflict, has_markers
from series.rebase import Outcome, Plan
from series.resolutions import Resolution
from upstream.errors import ConflictWaiting
from upstream.git import Git, Stage, open_worktree

LOGGER = logging.getLogger("lab")
SIDES = {1: "base", 2: "upstream", 3: "patch"}


@dataclass(frozen=True)
class Parked:
    """One parked step: where its worktree is and which conflict it holds."""

    patch: str
    key: str
    folder: Path
    marker_tree: str
    upstream_tree: str
    old: str
    onto: str
    paths: tuple[str, ...]

    @property
    def worktree(self) -> Path:
        return self.folder / "tree"

    @property
    def exists(self) -> bool:
        """Whether the worktree is still there (a person may have removed it)."""
        return (self.worktree / ".git").is_file()

    @property
    def versions(self) -> Path:
        """The folder with the three versions of every conflicted file."""
        return self.folder / "versions"


def park_conflicts(git: Git, plan: Plan, folder: Path) -> list[Parked]:
    """Make (or keep) a worktree for every conflict of a plan; parents are where it stopped.

    Worktrees of patches that conflict no more are retired.
    """
    found: list[Parked] = []
    folder.mkdir(parents=True, exist_ok=True)
    parent = plan.new.commit
    for outcome in plan.outcomes:
        if outcome.step is not None:
            parent = outcome.step.commit
        elif outcome.status == "conflict" and outcome.conflict is not None:
            found.append(_park(git, plan, outcome, outcome.conflict, parent, folder))
    waiting = {outcome.patch for outcome in plan.waiting}
    for parked in list_parked(folder):
        if parked.patch not in waiting:
            retire_parked(git, parked)
    return found


def list_parked(folder: Path) -> list[Parked]:
    """The parked steps of a series, by patch name."""
    return [_load(path) for path in sorted(folder.glob("*/parked.json"))]


def forget_parked(git: Git, folder: Path) -> None:
    """Remove all parked worktrees and whatever was edited in them."""
    for parked in list_parked(folder):
        remove_parked(git, parked)
    shutil.rmtree(folder, ignore_errors=True)


def remove_parked(git: Git, parked: Parked) -> None:
    """Remove one parked worktree."""
    shutil.rmtree(parked.folder, ignore_errors=True)
    git.run("worktree", "prune", "--expire=now")


def retire_parked(git: Git, parked: Parked) -> None:
    """Remove a worktree that nobody worked in; keep another one's files under another name."""
    if not parked.exists or _write_worktree(git, parked) == parked.marker_tree:
        remove_parked(git, parked)
    else:
        _set_aside(git, parked.folder)


def take_resolution(git: Git, parked: Parked) -> tuple[Resolution | None, str]:
    """The resolution that a parked worktree holds, or None with the reason why not yet."""
    left = [p for p in parked.paths if _still_marked(parked.worktree / p)]
    if left:
        return None, f"conflict markers are left in {', '.join(left)}"
    tree = _write_worktree(git, parked)
    if open_paths := _list_undecided(git, parked, tree):
        names = ", ".join(open_paths)
        return None, f"nothing is decided about {names}: edit it, or `git add` or `git rm` it there"
    diff = git.diff(parked.upstream_tree, tree, "--binary", "--no-renames")
    return Resolution(parked.patch, parked.key, parked.old, parked.onto, "", "", diff), ""


def _list_undecided(git: Git, parked: Parked, tree: str) -> list[str]:
    """Conflicted paths that nobody touched: as they were parked, and still unmerged for git.

    Not every conflict has markers (modified here and deleted there, binary files).
    """
    own = _worktree_git(parked.worktree)
    unmerged = own.run("ls-files", "-z", "--unmerged").text.split("\0")
    still = {entry.split("\t", 1)[1] for entry in unmerged if entry}
    changed = git.run("diff-tree", "-r", "-z", "--name-only", parked.marker_tree, tree).text
    return sorted(still.intersection(parked.paths) - set(changed.split("\0")))


def _still_marked(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and has_markers(path.read_bytes())


def _write_worktree(git: Git, parked: Parked) -> str:
    """The tree of a worktree: all its files, deletions too, through an index of our own."""
    own = _worktree_git(parked.worktree)
    index = parked.folder / "take.index"
    own.run("read-tree", parked.marker_tree, index=index)
    # *.orig: the copies that git mergetool leaves behind.
    own.run("add", "-A", "--", ".", ":(exclude)*.orig", index=index, work_tree=parked.worktree)
    tree = own.run("write-tree", index=index).text.strip()
    index.unlink(missing_ok=True)
    return tree


def _worktree_git(worktree: Path) -> Git:
    own = open_worktree(worktree)
    if own is None:
        raise ConflictWaiting(
            f"{worktree} is no worktree of ours any more",
            remedy=f"remove {worktree.parent}, then run the rebase again: it parks it anew",
        )
    return own


def _park(
    git: Git, plan: Plan, outcome: Outcome, conflict: Conflict, parent: str, folder: Path
) -> Parked:
    place = folder / outcome.patch.removesuffix(".patch")
    parked = Parked(
        outcome.patch,
        conflict.key,
        place,
        conflict.write_marked(git, folder),
        conflict.write_upstream(git, folder),
        str(plan.old.version),
        str(plan.new.version),
        conflict.paths,
    )
    if (place / "parked.json").exists():
        known = _load(place / "parked.json")
        if known.marker_tree == parked.marker_tree and known.exists:
            return parked
        retire_parked(git, known)
    shutil.rmtree(place, ignore_errors=True)
    git.run("worktree", "prune", "--expire=now")
    _fill(git, parked, conflict.stages, parent)
    state = {**vars(parked), "folder": None}
    write_file(place / "parked.json", json.dumps(state, indent=1).encode())
    return parked


def _load(path: Path) -> Parked:
    table = json.loads(path.read_text("utf-8"))
    return Parked(**{**table, "folder": path.parent, "paths": tuple(table["paths"])})


def _set_aside(git: Git, place: Path) -> None:
    """The conflict changed under a parked worktree: keep its files under another name."""
    number = 1
    while (aside := place.with_name(f"{place.name}.old-{number}")).exists():
        number += 1
    place.rename(aside)
    LOGGER.info("%s conflicts otherwise or no more; your edits are kept in %s", place.name, aside)
    (aside / "parked.json").unlink()
    (aside / "tree" / ".git").unlink(missing_ok=True)
    git.run("worktree", "prune", "--expire=now")


def _fill(git: Git, parked: Parked, stages: tuple[Stage, ...], parent: str) -> None:
    parked.folder.mkdir(parents=True)
    git.run("worktree", "add", "--quiet", "--no-checkout", "--detach", str(parked.worktree), parent)
    own = _worktree_git(parked.worktree)
    own.run("read-tree", "--reset", "-u", parked.marker_tree, work_tree=parked.worktree)
    own.run(
        "update-index", "-z", "--index-info", stdin=_stage_lines(stages), work_tree=parked.worktree
    )
    _write_versions(git, parked, stages)


def _stage_lines(stages: tuple[Stage, ...]) -> bytes:
    """Make the index say 'unmerged', so that `git status` and mergetools work there."""
    gone = {f"0 {'0' * 40}\t{stage.path}" for stage in stages}
    lines = [*sorted(gone), *(f"{s.mode} {s.id} {s.stage}\t{s.path}" for s in stages)]
    return b"".join(line.encode("utf-8", "surrogateescape") + b"\0" for line in lines)


def _write_versions(git: Git, parked: Parked, stages: tuple[Stage, ...]) -> None:
    for stage in stages:
        content = git.read_blob(stage.id)
        write_file(parked.versions / SIDES[stage.stage] / stage.path, content or b"")
