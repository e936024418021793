"""One step of a rebase: a three-way merge of a patch onto a new parent, in memory.

git before 2.40 has no `merge-tree --merge-base`, so the new parent is wrapped in a throw-away
commit whose parent is the old one: their merge base is then the old parent, as wanted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from upstream.blobs import read_blobs
from upstream.git import Commit, Git, Merge, Person, Stage

NOBODY = Person("llama-series-lab", "lab@localhost", "0 +0000")
OURS, BASE, SPLIT, THEIRS = "<<<<<<< upstream", "||||||| base", "=======", ">>>>>>> patch"
Sides = dict[str, list[str]]
_LABEL = re.compile(rb"^(<{7}|\|{7}|>{7}) [0-9a-f]{7,40}(:[^\r\n]*)?(?=\r?$)", re.M)
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
    """A merge that needs a person.

    `merged` is the tree as git merged it, `texts` the conflicted text files with lasting marker
    labels, `modes` their modes. `key` is a hash of the three sides of every region (and, for paths
    without regions, of git's remark): the same conflict has the same key on any day and machine.
    """

    merged: str
    texts: Mapping[str, str]
    modes: Mapping[str, str]
    key: str
    stages: tuple[Stage, ...]
    regions: tuple[Region, ...]
    remarks: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stage.path for stage in self.stages))

    def write_marked(self, git: Git, scratch: Path) -> str:
        """The tree that holds the files with markers."""
        return git.edit_tree(self.merged, self._entries(git, self.texts), scratch)

    def write_upstream(self, git: Git, scratch: Path, diff: bytes = b"") -> str:
        """The tree with upstream's side in every region, and a diff applied to that strictly.

        Raises CommandError when the diff does not apply.
        """
        sides = {path: take_upstream(text) for path, text in self.texts.items()}
        return git.edit_tree(self.merged, self._entries(git, sides), scratch, diff)

    def _entries(self, git: Git, texts: Mapping[str, str]) -> list[Stage]:
        return [
            Stage(
                self.modes[path], git.write_blob(text.encode("utf-8", "surrogateescape")), 0, path
            )
            for path, text in texts.items()
        ]


def merge_patch(git: Git, patch: Commit, new_parent_tree: str) -> str | Conflict:
    """Carry a patch commit onto a tree: the new tree, or the conflict."""
    old_parent = patch.parents[0]
    ours = git.write_commit(new_parent_tree, (old_parent,), NOBODY, "new parent\n")
    merge = git.merge(ours, patch.id)
    return merge.tree if merge.clean else _describe(git, merge)


def has_markers(content: bytes) -> bool:
    """Whether a file still holds a conflict marker."""
    return re.search(rb"^(<{7} |\|{7} |>{7} )", content, re.M) is not None


def _describe(git: Git, merge: Merge) -> Conflict:
    texts = _read_marked(git, merge)
    modes = _read_modes(git, merge, list(texts))
    regions = tuple(r for path, text in texts.items() for r in find_regions(path, text))
    remarks = tuple(remark for remark in merge.remarks if remark.startswith("CONFLICT"))
    key = _key(regions, merge.stages, remarks)
    return Conflict(merge.tree, texts, modes, key, merge.stages, regions, remarks)


def _read_marked(git: Git, merge: Merge) -> dict[str, str]:
    """Conflicted text files; labels hold ids of throw-away commits: give them names that last."""
    texts: dict[str, str] = {}
    paths = sorted({stage.path for stage in merge.stages})
    contents = read_blobs(git, [f"{merge.tree}:{path}" for path in paths])
    for path, content in zip(paths, contents, strict=True):
        if content is not None and b"\0" not in content:
            renamed = _LABEL.sub(lambda m: _NAMES[m[1][:1]], content)
            texts[path] = renamed.decode("utf-8", "surrogateescape")
    return texts


def _read_modes(git: Git, merge: Merge, paths: Sequence[str]) -> dict[str, str]:
    """The modes as merged: the patch's own would take back what upstream made executable."""
    sides = {path: {s.mode for s in merge.stages if s.path == path} for path in paths}
    modes = {path: next(iter(found)) for path, found in sides.items() if len(found) == 1}
    rest = [path for path in paths if path not in modes]
    if not rest:
        return modes
    listed = git.run("ls-tree", "-r", "-z", "--full-tree", merge.tree, "--", *rest).text
    pairs = (entry.split("\t", 1) for entry in listed.split("\0") if entry)
    return modes | {path: info.split(" ", 1)[0] for info, path in pairs}


def split_regions(path: str, text: str) -> Iterator[str | Region]:
    """The lines of a file with markers in zdiff3 style: plain lines and conflict regions.

    Marker lines of a file with CRLF line ends end in CR too.
    """
    for part in _split_sides(text):
        if isinstance(part, str):
            yield part
        else:
            yield Region(path, *("\n".join(part[side]) for side in ("ours", "base", "theirs")))


def _split_sides(text: str) -> Iterator[str | Sides]:
    sides: Sides = {}
    side = ""
    for line in text.split("\n"):
        mark = line.removesuffix("\r")
        if not side and mark == OURS:
            sides, side = {"ours": [], "base": [], "theirs": []}, "ours"
        elif side == "ours" and mark == BASE:
            side = "base"
        elif side == "base" and mark == SPLIT:  # "=======" may stand in upstream's side
            side = "theirs"
        elif side == "theirs" and mark == THEIRS:
            yield sides
            side = ""
        elif side:
            sides[side].append(line)
        else:
            yield line


def find_regions(path: str, text: str) -> list[Region]:
    """The conflict regions of a file with markers."""
    return [part for part in split_regions(path, text) if isinstance(part, Region)]


def take_upstream(text: str) -> str:
    """A file with markers, every region replaced by upstream's side."""
    lines: list[str] = []
    for part in _split_sides(text):
        lines += [part] if isinstance(part, str) else part["ours"]  # [""]: one blank line
    return "\n".join(lines)


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
