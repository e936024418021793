"""The first sign that upstream has a patch: a commit with the same patch-id.

`git patch-id --stable` ignores white space and line numbers, so a cherry-picked patch keeps its id
and a modified one does not. Needs true commits: a snapshot has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from series.landing.alone import Alone
from upstream.git import Git

_SHOW = (
    *("-p", "--first-parent", "--diff-merges=first-parent", "--full-diff", "--full-index"),
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--format=commit %H"),
)


def patch_id(git: Git, patch: Alone) -> str:
    """The stable id of a patch; "" where it has no text."""
    shown = git.run("diff-tree", "-p", "-r", "--no-renames", "--full-index", "--no-ext-diff",
                    patch.before, patch.after).stdout  # fmt: skip
    ids = _read_ids(git, shown)
    return next(iter(ids), "")


def find_same(git: Git, patch: Alone, since: str, until: str) -> str:
    """The first-parent commit after `since` up to `until` with the patch's id, oldest first."""
    wanted = patch_id(git, patch)
    return index_commits(git, since, until, patch.paths).get(wanted, "") if wanted else ""


def index_commits(git: Git, since: str, until: str, paths: Sequence[str]) -> dict[str, str]:
    """Patch-id -> commit of the first-parent commits that touch one of the paths."""
    spec = [f":(top,literal){path}" for path in paths]
    shown = git.run("log", "--reverse", *_SHOW, f"{since}..{until}", "--", *spec).stdout
    return _read_ids(git, shown)


def _read_ids(git: Git, shown: bytes) -> dict[str, str]:
    lines = git.run("patch-id", "--stable", stdin=shown).text.splitlines()
    found: dict[str, str] = {}
    for line in lines:
        identity, commit = line.split(" ", 1)
        found.setdefault(identity, commit)
    return found
