"""A git range A..B of somebody's repository, read without its configuration.

A configuration can name programs that git then runs. So a scratch repository of ours borrows the
other's objects (alternates) and copies its ref files; git is never pointed at the other itself.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from series.importing.model import Draft, Intake
from series.mail import tidy_message
from upstream.errors import CommandError, UsageError
from upstream.git import Commit, Git


def read_range(repository: Path, span: str, scratch: Path) -> Intake:
    """The commits of `A..B`, oldest first; merges are refused."""
    start, dots, end = span.partition("..")
    if not dots or not start or not end or end.startswith("."):
        raise UsageError(
            f"'{span}' is no range", remedy="write it as A..B: the commits after A up to B"
        )
    git = borrow(repository, scratch / "borrowed")
    first, last = (_resolve(git, repository, name) for name in (start, end))
    names = git.text("rev-list", "--reverse", "--topo-order", f"{first}..{last}").split()
    if not names:
        raise UsageError(
            f"{span} holds no commit: {end} is part of the history of {start}",
            remedy="name the older one first",
        )
    commits = git.read_commits(names)
    _refuse_merges(span, commits)
    diffs = [git.diff(_parent_tree(git, c), c.tree, "--binary") for c in commits]
    return Intake("range", tuple(_draft(c, d) for c, d in zip(commits, diffs, strict=True)))


def borrow(repository: Path, place: Path) -> Git:
    """A repository of ours that sees the other's objects and refs, and none of its settings."""
    own, shared = _find_folders(repository)
    git = Git(place)
    git.create()
    objects = (shared / "objects").resolve()
    if "\n" in str(objects):
        raise UsageError(f"{repository} has a line break in its path", remedy="rename the folder")
    (place / "objects" / "info").mkdir(exist_ok=True)
    (place / "objects" / "info" / "alternates").write_text(f"{objects}\n")
    for name in ("packed-refs", "shallow"):
        _copy(shared / name, place / name)
    _copy(own / "HEAD", place / "HEAD")
    for path in (shared / "refs").rglob("*"):
        _copy(path, place / path.relative_to(shared))
    return git


def _find_folders(repository: Path) -> tuple[Path, Path]:
    """The administrative folder of a checkout or bare repository, and the one it shares."""
    own = repository / ".git" if (repository / ".git").exists() else repository
    if own.is_file():  # a linked worktree or a submodule
        own = repository / own.read_text("utf-8").strip().removeprefix("gitdir: ")
    pointer = own / "commondir"
    shared = own / pointer.read_text("utf-8").strip() if pointer.is_file() else own
    if not (shared / "objects").is_dir() or not (own / "HEAD").is_file():
        raise UsageError(f"{repository} is no git repository", remedy="name its folder: PATH:A..B")
    return own, shared


def _copy(source: Path, target: Path) -> None:
    if source.is_file() and not source.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _resolve(git: Git, repository: Path, name: str) -> str:
    try:
        found = git.resolve(f"{name}^{{commit}}")
    except CommandError:
        found = None
    if found is None:
        raise UsageError(
            f"{repository} has no commit '{name}'",
            remedy="name a branch, a tag or a commit id that it holds (git log there shows them)",
        )
    return found


def _refuse_merges(span: str, commits: list[Commit]) -> None:
    merges = [f"{c.id[:12]} {c.subject}" for c in commits if len(c.parents) > 1]
    if merges:
        raise UsageError(
            f"{span} holds merge commits, which are no patches:\n    " + "\n    ".join(merges),
            remedy="make it linear on a branch of yours (git rebase), or name the part after them",
        )


def _parent_tree(git: Git, commit: Commit) -> str:
    if not commit.parents:
        raise UsageError(
            f"{commit.id[:12]} '{commit.subject}' has no parent",
            remedy="start the range at a commit of upstream's history",
        )
    return git.tree_of(commit.parents[0])


def _draft(commit: Commit, diff: bytes) -> Draft:
    origin = f"{commit.id[:12]} {commit.subject}"
    if not diff:
        raise UsageError(f"{origin}: changes nothing", remedy="leave it out of the range")
    return Draft(origin, "", commit.author, tidy_message(commit.message), diff)
