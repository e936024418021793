"""Proof that a rebase changed the stack as upstream changed, and otherwise only as it says.

For every file: (old tip -> new tip) minus (old base -> new base) must equal the resolutions,
landings and drops that the plan lists. The stack is cut at every listed patch. A piece between two
cuts is one square: its old start, its old end and its new start, merged three ways at once, must
give its new end, every file of it. That is another path than the rebase's own, which goes patch by
patch, so a line that got lost, was added, or sits in a file that nobody changed shows. A resolved
patch must be its conflict plus the stored resolution; a landed or dropped one must leave the tree
alone. Squares that share their sides paste together to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from series.decisions import Decisions
from series.merge import NOBODY, Conflict, merge_patch
from series.model import Step
from series.rebase import Outcome, Plan
from series.resolutions import replay
from upstream.errors import GateFailed
from upstream.git import Git

Listed = Literal["resolution", "landed", "dropped"]
MOST_PATHS = 12


@dataclass(frozen=True)
class Explained:
    """A file in which a listed outcome of a patch makes the difference."""

    path: str
    patch: str
    by: Listed


@dataclass(frozen=True)
class Unexplained:
    """A file that differs from what upstream and the listed outcomes make of it, and the patches
    among which that happened."""

    path: str
    patches: tuple[str, ...]


@dataclass(frozen=True)
class Proof:
    """What a rebase did to every file that the stack or upstream touched.

    `proven` is a number of files. `step_by_step` are those where a merge of several patches at once
    conflicts and the patches one by one do not, so that only the latter speak.
    """

    proven: int
    step_by_step: tuple[str, ...]
    explained: tuple[Explained, ...]
    unexplained: tuple[Unexplained, ...]

    @property
    def holds(self) -> bool:
        return not self.unexplained


@dataclass(frozen=True)
class _Square:
    """Patches with the commits and trees at their four corners; `outcome` where it is listed."""

    patches: tuple[str, ...]
    old_start: str
    old_steps: tuple[Step, ...]
    old_tree: str
    new_tree: str
    new_steps: tuple[Step, ...]
    outcome: Outcome | None

    @property
    def end(self) -> str:
        """The tree where it ends in the new stack."""
        return self.new_steps[-1].tree if self.new_steps else self.new_tree


@dataclass
class _Book:
    """What the squares add up to."""

    step_by_step: set[str]
    explained: list[Explained]
    unexplained: list[Unexplained]

    def accuse(self, paths: Iterable[str], square: _Square) -> None:
        self.unexplained += [Unexplained(path, square.patches) for path in sorted(paths)]


def prove_equivalence(git: Git, plan: Plan, decisions: Decisions, scratch: Path) -> Proof:
    """Check every file of a plan in which no patch waits. Moves and writes nothing but objects."""
    book = _Book(set(), [], [])
    for square in _cut(plan):
        if square.outcome is None:
            _prove_clean(git, square, book)
        elif square.outcome.conflict is not None and square.new_steps:
            _prove_resolved(git, square, square.outcome.conflict, decisions, scratch, book)
        else:
            _prove_left_out(git, square, square.outcome, book)
    _check_commits(git, plan, book)
    touched = changed_paths(git, plan.old.tree, plan.new.tree)
    touched |= changed_paths(git, plan.old.tree, plan.old.tip_tree)
    touched |= changed_paths(git, plan.new.tree, plan.new.tip_tree)
    others = {e.path for e in book.explained} | {u.path for u in book.unexplained}
    return Proof(
        len(touched - others),
        tuple(sorted(book.step_by_step)),
        tuple(book.explained),
        tuple(book.unexplained),
    )


def require_equivalence(proof: Proof) -> None:
    """Raise GateFailed when a file differs and nothing listed explains it."""
    if proof.holds:
        return
    lines = [
        f"  {printable(u.path)}  ({', '.join(u.patches)})" for u in proof.unexplained[:MOST_PATHS]
    ]
    more = len(proof.unexplained) - MOST_PATHS
    lines += [f"  ... {more} more"] if more > 0 else []
    raise GateFailed(
        f"{len(proof.unexplained)} files differ from what upstream's change and the listed "
        "resolutions make of them; nothing was moved:\n" + "\n".join(lines),
        remedy="compare the two tips there (nox -s rebase -- --dry-run --json names the new one); "
        "where the merge is ambiguous, rebase in smaller steps: --onto a version in between",
    )


def changed_paths(git: Git, old: str, new: str) -> set[str]:
    """The paths in which two trees differ."""
    if old == new:
        return set()
    listed = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new).text
    return {path for path in listed.split("\0") if path}


def _cut(plan: Plan) -> Iterator[_Square]:
    """The plan's squares in order, from the patches' names alone: what the new stack holds beyond
    them is a square of its own without an old side."""
    parents = (plan.old.commit, *(step.commit for step in plan.old.steps))
    trees = (plan.old.tree, *(step.tree for step in plan.old.steps))
    after = dict(zip((s.patch for s in plan.old.steps), plan.old.steps, strict=True))
    place = {patch: at for at, patch in enumerate(after)}
    left, tree = list(plan.new.steps), plan.new.tree
    for group in _group(plan.outcomes):
        names = tuple(outcome.patch for outcome in group)
        new = tuple(left.pop(0) for name in names if left and left[0].patch == name)
        at = place[names[0]]
        old = tuple(after[name] for name in names)
        listed = None if _carried(group[0]) else group[0]
        square = _Square(names, parents[at], old, trees[at], tree, new, listed)
        yield square
        tree = square.end
    if left:
        names = tuple(step.patch for step in left)
        yield _Square(names, plan.old.tip, (), plan.old.tip_tree, tree, tuple(left), None)


def _group(outcomes: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    """Runs of patches that were carried by themselves; every other one alone."""
    for carried, run in groupby(outcomes, _carried):
        members = list(run)
        yield from [members] if carried else [[outcome] for outcome in members]


def _carried(outcome: Outcome) -> bool:
    return outcome.step is not None and outcome.conflict is None


def _prove_clean(git: Git, square: _Square, book: _Book) -> None:
    if not square.old_steps:
        book.accuse(changed_paths(git, square.new_tree, square.end), square)
        return
    ours = git.write_commit(square.new_tree, (square.old_start,), NOBODY, "new start\n")
    merge = git.merge(ours, square.old_steps[-1].commit)
    if merge.clean:
        book.accuse(changed_paths(git, merge.tree, square.end), square)
        return
    book.step_by_step |= {stage.path for stage in merge.stages}
    _prove_steps(git, square, book)


def _prove_steps(git: Git, square: _Square, book: _Book) -> None:
    """Patch by patch, where all at once gives no answer."""
    commits = git.read_commits([step.commit for step in square.old_steps])
    by_name = {step.patch: step.tree for step in square.new_steps}
    tree = square.new_tree
    for step, patch in zip(square.old_steps, commits, strict=True):
        wanted, found = merge_patch(git, patch, tree), by_name.get(step.patch, tree)
        merged = wanted.merged if isinstance(wanted, Conflict) else wanted
        book.accuse(changed_paths(git, merged, found), square)
        tree = found


def _prove_resolved(
    git: Git, square: _Square, conflict: Conflict, decisions: Decisions, scratch: Path, book: _Book
) -> None:
    """The tree must be the conflict of just this place with the stored resolution in it."""
    ours = git.write_commit(square.new_tree, (square.old_start,), NOBODY, "new parent\n")
    merged = git.merge(ours, square.old_steps[0].commit).tree
    patch = square.patches[0]
    known = decisions.resolutions.get((patch, conflict.key))
    tree = replay(git, conflict, known, scratch) if known and merged == conflict.merged else None
    if tree is None:
        book.accuse(changed_paths(git, merged, square.end), square)
        return
    book.accuse(changed_paths(git, tree, square.end), square)
    resolved = changed_paths(git, merged, tree)
    book.explained += [Explained(path, patch, "resolution") for path in sorted(resolved)]


def _prove_left_out(git: Git, square: _Square, outcome: Outcome, book: _Book) -> None:
    """A landed or dropped patch: its files lack it on purpose, and the new stack has no step."""
    book.accuse(changed_paths(git, square.new_tree, square.end), square)
    by: Listed = "landed" if outcome.fate == "landed" else "dropped"
    paths = changed_paths(git, square.old_tree, square.old_steps[0].tree)
    book.explained += [Explained(path, outcome.patch, by) for path in sorted(paths)]


def _check_commits(git: Git, plan: Plan, book: _Book) -> None:
    """The refs point at commits: each must hold the tree that was proven, on the one before."""
    parent = plan.new.commit
    commits = git.read_commits([plan.new.commit, *(step.commit for step in plan.new.steps)])
    trees = [plan.new.tree, *(step.tree for step in plan.new.steps)]
    for commit, tree in zip(commits, trees, strict=True):
        names = tuple(s.patch for s in plan.new.steps if s.commit == commit.id) or ("the base",)
        wrong = changed_paths(git, tree, commit.tree)
        if commit.id != plan.new.commit and commit.parents != (parent,):
            wrong |= {f"(the parent of commit {commit.id[:12]})"}
        book.unexplained += [Unexplained(path, names) for path in sorted(wrong)]
        parent = commit.id


def format_proof(proof: Proof) -> str:
    """One line for the report."""
    parts = [f"{proof.proven} files proven equal"]
    parts += [f"{len(proof.step_by_step)} of them patch by patch"] if proof.step_by_step else []
    reasons = sorted({(e.by, e.patch) for e in proof.explained})
    if reasons:
        names = ", ".join(f"{by} {patch}" for by, patch in reasons)
        parts.append(f"{len({e.path for e in proof.explained})} explained by {names}")
    if proof.unexplained:
        parts.append(f"{len({u.path for u in proof.unexplained})} NOT EXPLAINED")
    return f"equivalence: {', '.join(parts)}"


def document_proof(proof: Proof) -> dict[str, object]:
    """The proof as a JSON document."""
    return {
        "proven": proof.proven,
        "step_by_step": list(proof.step_by_step),
        "explained": [vars(e) for e in proof.explained],
        "unexplained": [{"path": u.path, "patches": list(u.patches)} for u in proof.unexplained],
    }


def printable(path: str) -> str:
    """A path for a terminal: bytes that are not UTF-8 as escapes."""
    return path.encode("utf-8", "backslashreplace").decode()
