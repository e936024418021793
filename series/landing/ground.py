"""One upstream version as patches meet it: its tree, what is applied on it, what it changed.

Everything is worked out once for a version and forgotten with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from series.landing.alone import Alone
from series.landing.hunks import Block, Course, read_blocks
from series.merge import Conflict, merge_patch
from upstream.blobs import read_blobs
from upstream.git import Git
from upstream.version import Version

_QUIET = ("-c", "core.quotepath=off", "--literal-pathspecs")
_PLAIN = ("-U0", "--histogram", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index")
Merged = str | Conflict


@dataclass(frozen=True)
class Below:
    """What a patch stands on: the tree, and the patches that it needs and this version refuses."""

    tree: str
    missing: tuple[str, ...]


class Ground:
    """A version, the trees of patches on it, and upstream's way to it from the patches' bases."""

    def __init__(self, git: Git, version: Version, tree: str) -> None:
        self.git = git
        self.version = version
        self.tree = tree
        self._below: dict[tuple[str, ...], Below] = {}
        self._merged: dict[tuple[str, str], Merged] = {}
        self._courses: dict[tuple[str, str], Course] = {}
        self._files: dict[str, tuple[str, ...]] = {}
        self._new_files: dict[str, tuple[str, ...]] = {}

    # -- trees --------------------------------------------------------------------------------

    def below(self, patch: Alone) -> Below:
        """The plain tree with what the patch needs, as far as that applies."""
        return self._lay(patch.needs)

    def merge(self, patch: Alone, below: str) -> Merged:
        """The tree with the patch, or the conflict."""
        key = patch.commit.id, below
        if key not in self._merged:
            self._merged[key] = merge_patch(self.git, patch.commit, below)
        return self._merged[key]

    def _lay(self, patches: Sequence[Alone]) -> Below:
        if not patches:
            return Below(self.tree, ())
        names = tuple(each.commit.id for each in patches)
        if names not in self._below:
            first = self._lay(patches[:-1])
            merged = self.merge(patches[-1], first.tree)
            if isinstance(merged, Conflict):
                self._below[names] = Below(first.tree, (*first.missing, patches[-1].patch))
            else:
                self._below[names] = Below(merged, first.missing)
        return self._below[names]

    # -- upstream's changes -------------------------------------------------------------------

    def courses(self, before: str, paths: Iterable[str]) -> dict[str, Course]:
        """What upstream did to each path between a patch's tree below it and the plain tree."""
        wanted = [path for path in dict.fromkeys(paths) if (before, path) not in self._courses]
        if wanted:
            self._courses |= {
                (before, path): course for path, course in self._follow(before, wanted).items()
            }
        return {path: self._courses[before, path] for path in dict.fromkeys(paths)}

    def new_files(self, before: str) -> tuple[str, ...]:
        """Files that this version has and a base has not."""
        if before not in self._new_files:
            self._new_files[before] = tuple(list_new_files(self.git, before, self.tree))
        return self._new_files[before]

    def find_copies(self, before: str, path: str, wide: bool) -> list[str]:
        """New files that may hold what stood in `path`: the same name elsewhere; `wide`: also
        every file in its folder."""
        folder, _, name = path.rpartition("/")
        return [
            new
            for new in self.new_files(before)
            if new.rpartition("/")[2] == name or (wide and new.rpartition("/")[0] == folder)
        ]

    def read(self, path: str) -> tuple[str, ...]:
        """The lines of a file of the plain tree; none where there is no such file."""
        return self.read_all([path])[0]

    def read_all(self, paths: Sequence[str]) -> list[tuple[str, ...]]:
        """The lines of many files, read by one process."""
        new = [path for path in dict.fromkeys(paths) if path not in self._files]
        contents = read_blobs(self.git, [f"{self.tree}:{path}" for path in new]) if new else []
        for path, content in zip(new, contents, strict=True):
            self._files[path] = tuple(
                (content or b"").decode("utf-8", "surrogateescape").split("\n")
            )
        return [self._files[path] for path in paths]

    def _follow(self, before: str, paths: Sequence[str]) -> dict[str, Course]:
        there = list_present(self.git, self.tree, paths)
        found = {path: Course(path) for path in paths if path in there}
        found |= {path: Course(path, blocks) for path, blocks in self._diff(before, list(found))}
        for path in (path for path in paths if path not in there):
            found[path] = self._follow_rename(before, path)
        return found

    def _diff(self, before: str, paths: Sequence[str]) -> Iterable[tuple[str, tuple[Block, ...]]]:
        if not paths:
            return []
        done = self.git.run(
            *_QUIET,
            "diff-tree",
            "-r",
            "-p",
            "--no-renames",
            *_PLAIN,
            before,
            self.tree,
            "--",
            *paths,
        )
        files = re.split(rb"^(?=diff --git )", done.stdout, flags=re.M)[1:]
        return [(_name(file), read_blocks(file)) for file in files]

    def _follow_rename(self, before: str, path: str) -> Course:
        suffix = PurePosixPath(path).suffix
        targets = [new for new in self.new_files(before) if new.endswith(suffix)]
        new = find_rename(self.git, (before, self.tree), path, targets)
        if not new:
            return Course("")
        sides = f"{before}:{path}", f"{self.tree}:{new}"
        return Course(new, read_blocks(self.git.run("diff", *_PLAIN, *sides).stdout))


def list_present(git: Git, tree: str, paths: Sequence[str]) -> set[str]:
    """Which of the paths a tree has."""
    done = git.run(*_QUIET, "ls-tree", "-r", "-z", "--name-only", "--full-tree", tree, "--", *paths)
    return set(done.text.split("\0"))


def find_rename(git: Git, trees: tuple[str, str], path: str, targets: Sequence[str]) -> str:
    """Which of the new files git takes for the renamed `path`; "" for none.

    Asking for one path is ten times as fast as for every rename between two distant versions.
    """
    if not targets:
        return ""
    options = ("-r", "-M", "-z", "--name-status", "--diff-filter=R")
    done = git.run(*_QUIET, "diff-tree", *options, *trees, "--", path, *targets)
    fields = done.text.split("\0")
    return fields[2] if len(fields) > 2 else ""


def list_new_files(git: Git, old: str, new: str) -> list[str]:
    """Paths that are in `new` only."""
    options = ("-r", "-z", "--no-renames", "--name-only", "--diff-filter=A")
    return [path for path in git.run("diff-tree", *options, old, new).text.split("\0") if path]


def _name(file: bytes) -> str:
    """The path of one file's diff; the old one where it is gone."""
    head = file.split(b"\n@@ ", 1)[0].decode("utf-8", "surrogateescape")
    named = re.findall(r"^(?:---|\+\+\+) [ab]/(.*?)\t?$", head, re.M)
    return named[-1] if named else ""
