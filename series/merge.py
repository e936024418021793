"""One step of a rebase: a three-way merge of a patch onto a new parent, in memory.

git before 2.40 has no `merge-tree --merge-base`, so the new parent is wrapped in a throw-away
commit whose parent is the old one: their merge base is then the old parent, as wanted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upstream.git import Commit, Git, Merge, Person, Stage

NOBODY = Person("llama-series-lab", "lab@localhost", "@0 +0000")
OURS, BASE, SPLIT, THEIRS = "<<<<<<< upstream", "||||||| base", "=======", ">>>>>>> patch"
_LABEL = re.compile(rb"^(<{7}|\|{7}|>{7}) [0-9a-f]{7,40}(:[^\n]*)?$", re.M)
_NAMES = {b"<": OURS.encode(), b"|": BASE.encode(), b">": THEIRS.encode()}


@dataclass(frozen=True)
class Region:
    """One conflict region of a file: the three texts."""

    path: str
    ours: str
    base: str
    theirs: str


@dataclass(frozen=True)
class Conflict:
    """A merge that needs a person: `tree` holds the files with markers, `key` its content's name.

    The key is a hash of the three sides of every region (and, for paths without regions, of git's
    remark), so that the same conflict has the same key on another day and machine.
    """

    tree: str
    key: str
    stages: tuple[Stage, ...]
    regions: tuple[Region, ...]
    remarks: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stage.path for stage in self.stages))


def merge_patch(git: Git, patch: Commit, new_parent_tree: str, scratch: Path) -> str | Conflict:
    """Carry a patch commit onto a tree: the new tree, or the conflict."""
    old_parent = patch.parents[0]
    ours = git.write_commit(new_parent_tree, (old_parent,), NOBODY, "new parent\n")
    merge = git.merge(ours, patch.id)
    return merge.tree if merge.clean else _describe(git, merge, scratch)


def has_markers(content: bytes) -> bool:
    """Whether a file still holds a conflict marker."""
    return re.search(rb"^(<{7} |\|{7} |>{7} )", content, re.M) is not None


def _describe(git: Git, merge: Merge, scratch: Path) -> Conflict:
    tree, texts = _rename_markers(git, merge, scratch)
    regions = tuple(r for path, text in texts.items() for r in find_regions(path, text))
    remarks = tuple(remark for remark in merge.remarks if remark.startswith("CONFLICT"))
    return Conflict(tree, _key(regions, merge.stages, remarks), merge.stages, regions, remarks)


def _rename_markers(git: Git, merge: Merge, scratch: Path) -> tuple[str, dict[str, str]]:
    """Labels hold ids of throw-away commits: give them names that mean something."""
    entries: list[Stage] = []
    texts: dict[str, str] = {}
    for path in sorted({stage.path for stage in merge.stages}):
        content = git.read_blob(f"{merge.tree}:{path}")
        if content is None or b"\0" in content:
            continue
        renamed = _LABEL.sub(lambda m: _NAMES[m[1][:1]], content)
        texts[path] = renamed.decode("utf-8", "surrogateescape")
        if renamed != content:
            mode = next(s.mode for s in merge.stages if s.path == path)
            entries.append(Stage(mode, git.write_blob(renamed), 0, path))
    return (git.edit_tree(merge.tree, entries, scratch) if entries else merge.tree), texts


def find_regions(path: str, text: str) -> list[Region]:
    """The conflict regions of a file with markers in zdiff3 style."""
    regions: list[Region] = []
    sides: dict[str, list[str]] = {}
    side = ""
    for line in text.split("\n"):
        if line == OURS:
            sides, side = {"ours": [], "base": [], "theirs": []}, "ours"
        elif side == "ours" and line == BASE:
            side = "base"
        elif side in ("ours", "base") and line == SPLIT:
            side = "theirs"
        elif side == "theirs" and line == THEIRS:
            regions.append(Region(path, *("\n".join(sides[s]) for s in ("ours", "base", "theirs"))))
            side = ""
        elif side:
            sides[side].append(line)
    return regions


def _key(regions: Sequence[Region], stages: Sequence[Stage], remarks: Sequence[str]) -> str:
    hasher = hashlib.sha256()
    for region in regions:
        for text in (region.path, region.ours, region.base, region.theirs):
            hasher.update(text.encode("utf-8", "surrogateescape") + b"\0")
    with_regions = {region.path for region in regions}
    for stage in stages:
        if stage.path not in with_regions:
            hasher.update(f"{stage.path}\0{stage.stage}\0{stage.id}\0".encode(errors="replace"))
    kinds = sorted(remark.split(":", 1)[0] for remark in remarks)
    hasher.update("\0".join(kinds).encode())
    return hasher.hexdigest()[:16]
