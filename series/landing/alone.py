"""Each patch of a series by itself: on its base, with only what its topic needs below it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from series.landing.hunks import Hunk, read_hunks
from series.loss import Change, parse_change
from series.merge import Conflict, merge_patch
from series.model import Series, Stack, Step
from series.stack import apply_series
from upstream.git import Commit, Git
from upstream.version import Version


@dataclass(frozen=True)
class Alone:
    """One patch by itself: `commit` carries it from the tree `before` to `after`.

    `needs` are the patches below it: those of the topics that its own requires, then the earlier
    ones of its own. `apart` is False where it does not apply to its base without other topics: then
    `commit` is its step in the whole stack.
    """

    topic: str
    patch: str
    base: Version
    commit: Commit
    before: str
    after: str
    change: Change
    hunks: tuple[Hunk, ...]
    needs: tuple[Alone, ...] = ()
    apart: bool = True

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that its hunks change, as its base names them."""
        return tuple(dict.fromkeys(hunk.path for hunk in self.hunks))


def isolate_series(git: Git, series: Series, commit: str, scratch: Path) -> list[Alone]:
    """Every patch of a series by itself; `commit` is upstream's at the series' base.

    Raises UsageError for a patch that does not apply to the base.
    """
    return isolate_stack(git, series, apply_series(git, series, series.base, commit, scratch))


def isolate_stack(git: Git, series: Series, stack: Stack) -> list[Alone]:
    """Every patch of a stack by itself, in order."""
    commits = git.read_commits([step.commit for step in stack.steps]) if stack.steps else []
    parents = (stack.tree, *(step.tree for step in stack.steps))
    found: dict[str, list[Alone]] = {topic.name: [] for topic in series.topics}
    made: list[Alone] = []
    for step, old, parent in zip(stack.steps, commits, parents, strict=False):
        needs = tuple(each for name in series.close_topics((step.topic,)) for each in found[name])
        one = _isolate(git, stack, step, old, parent, needs)
        found[step.topic].append(one)
        made.append(one)
    return made


def _isolate(
    git: Git, stack: Stack, step: Step, old: Commit, parent: str, needs: tuple[Alone, ...]
) -> Alone:
    before = needs[-1] if needs else None
    below_tree = before.after if before else stack.tree
    below = before.commit.id if before else stack.commit
    if before and before.needs != needs[:-1]:  # several topics below: lay them one on the other
        below_tree, below = _lay(git, stack, needs)
    merged = below_tree and merge_patch(git, old, below_tree)
    if not merged or isinstance(merged, Conflict) or merged == below_tree:
        return _alone(git, stack, step, old, parent, step.tree, needs, apart=False)
    new = git.write_commit(merged, (below,), old.author, old.message)
    commit = Commit(new, merged, (below,), old.author, old.message)
    return _alone(git, stack, step, commit, below_tree, merged, needs, apart=True)


def _lay(git: Git, stack: Stack, needs: tuple[Alone, ...]) -> tuple[str, str]:
    tree, parent = stack.tree, stack.commit
    for each in needs:
        merged = merge_patch(git, each.commit, tree)
        if isinstance(merged, Conflict):
            return "", ""
        tree = merged
        parent = git.write_commit(tree, (parent,), each.commit.author, each.commit.message)
    return tree, parent


def _alone(
    git: Git, stack: Stack, step: Step, commit: Commit, before: str, after: str,
    needs: tuple[Alone, ...], *, apart: bool,
) -> Alone:  # fmt: skip
    diff = git.diff(before, after)
    return Alone(
        step.topic, step.patch, stack.version, commit, before, after,
        parse_change(diff), read_hunks(diff), needs, apart,
    )  # fmt: skip
