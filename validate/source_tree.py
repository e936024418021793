"""The one source folder that moves from step to step, so that unchanged files keep their dates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upstream.git import Git
from upstream.lab import Lab


@dataclass(frozen=True)
class SourceTree:
    """A folder without .git that holds one tree of the repository at a time."""

    git: Git
    folder: Path
    index: Path

    def move(self, tree: str) -> None:
        """Make the folder hold exactly `tree`: only files that differ are rewritten.

        The caller holds the build lock, so a lock file of git's is from a run that was killed.
        """
        Path(f"{self.index}.lock").unlink(missing_ok=True)
        self.git.check_out(tree, self.folder, self.index)
        # A killed check-out leaves files that its index does not know, and CMake globs would
        # compile them.
        self.git.run("clean", "-ffdxq", index=self.index, work_tree=self.folder)


def open_source_tree(lab: Lab, git: Git) -> SourceTree:
    """The source folder of the lab."""
    return SourceTree(git, lab.root / "source", lab.root / "source.index")


def open_check_tree(lab: Lab, git: Git) -> SourceTree:
    """The source folder that patches' own checks read; never the one that is being built."""
    return SourceTree(git, lab.root / "check-source", lab.root / "check-source.index")
