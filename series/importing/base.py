"""Which upstream version a foreign stack was made for: strict application, in memory, to each.

Strict means `git apply`: other line numbers are fine, other context is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from series.importing.model import Attempt, Draft, Failure
from series.mail import blames_input
from series.model import Stack, Step
from upstream.errors import CommandError
from upstream.git import Git
from upstream.version import Version

NOTHING = "changes nothing there"
_REASON = re.compile(r"^error: (.*)", re.M)


def try_version(
    git: Git, drafts: Mapping[str, Draft], version: Version, tree: str, scratch: Path
) -> Attempt:
    """Apply every draft to a tree, in order; one that fails is left out and the next one tried."""
    failures = []
    with _Index(git, scratch / f"try-{version}.index", tree) as index:
        for name, draft in drafts.items():
            why = index.apply(draft)
            if why:
                failures.append(Failure(name, why))
    return Attempt(version, len(drafts), tuple(failures))


def try_versions(
    git: Git, drafts: Mapping[str, Draft], commits: Iterable[tuple[Version, str]], scratch: Path
) -> Iterator[Attempt]:
    """Try versions in the order given, up to the first one where all apply."""
    for version, commit in commits:
        attempt = try_version(git, drafts, version, git.tree_of(commit), scratch)
        yield attempt
        if attempt.complete:
            return


def pick_best(attempts: Sequence[Attempt]) -> Attempt:
    """The attempt where most patches apply; of several the newest."""
    return max(attempts, key=lambda a: (a.applied, a.own, a.version.build))


def build_stack(
    git: Git,
    topic: str,
    drafts: Mapping[str, Draft],
    under: Stack,
    scratch: Path,
) -> Stack:
    """The drafts as commits on the tip of a stack on which all of them apply: only these."""
    parent, tree = under.tip, under.tip_tree
    steps = []
    with _Index(git, scratch / "build.index", tree) as index:
        for name, draft in drafts.items():
            why = index.apply(draft)
            assert not why, f"{name}: {why}"
            tree = index.write()
            parent = git.write_commit(tree, (parent,), draft.author, draft.message)
            steps.append(Step(topic, name, parent, tree))
    return Stack(under.version, under.tip, under.tip_tree, tuple(steps))


class _Index:
    """A git index of ours that patches are applied to, one after the other."""

    def __init__(self, git: Git, path: Path, tree: str) -> None:
        self._git, self._path, self._tree = git, path, tree

    def __enter__(self) -> _Index:
        self._path.unlink(missing_ok=True)
        self._git.run("read-tree", self._tree, index=self._path)
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)

    def write(self) -> str:
        """The tree of the index."""
        self._tree = self._git.run("write-tree", index=self._path).text.strip()
        return self._tree

    def apply(self, draft: Draft) -> str:
        """Apply a draft whole or not at all; "" or why it does not apply."""
        before = self._tree
        options = ("--cached", "--whitespace=nowarn", f"-p{draft.strip}")
        try:
            self._git.run("apply", *options, "-", stdin=draft.diff, index=self._path)
        except CommandError as error:
            if not blames_input(error):
                raise
            return _explain(error)
        return NOTHING if self.write() == before else ""


def _explain(error: CommandError) -> str:
    """git's first complaint on one line; it names the file and the line."""
    said = error.failure.stderr_tail.strip()
    found = _REASON.search(said)
    return found[1] if found else " ".join(said.split())
