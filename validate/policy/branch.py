"""The branch of a topic, read once: its patches, their messages and the lines that they add."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from unidiff.patch import PatchedFile, PatchSet

from series.model import Claim, Step
from upstream.errors import InvalidMeasurement
from upstream.git import Git
from validate.policy.model import Evidence, Lookup, Subject

_TRAILER = re.compile(r"([A-Za-z][A-Za-z-]*): *(\S.*)")


@dataclass(frozen=True)
class Line:
    """One line of a file with its number, without the line break ("\\r" stays)."""

    number: int
    text: str


@dataclass(frozen=True)
class FileChange:
    """What a patch does to one file; `path` is its name after the patch."""

    path: str
    created: bool
    added: tuple[Line, ...]
    removed: tuple[Line, ...]


@dataclass(frozen=True)
class Patch:
    """One commit of the topic."""

    name: str
    parent: str
    commit: str
    message: str
    files: tuple[FileChange, ...]

    @property
    def subject(self) -> str:
        return self.message.split("\n", 1)[0]

    @property
    def body(self) -> list[str]:
        """The lines after the subject, without the trailers and blank ends."""
        lines = self.message.rstrip().split("\n")[1:]
        kept = lines[: len(lines) - len(self.trailers)]
        return "\n".join(kept).strip("\n").split("\n") if "".join(kept) else []

    @property
    def trailers(self) -> list[tuple[str, str]]:
        """Key and value of each line of the last paragraph, when all of it is trailers."""
        paragraphs = self.message.rstrip().split("\n\n")
        last = paragraphs[-1].split("\n") if len(paragraphs) > 1 else []
        found = [_TRAILER.fullmatch(line.strip()) for line in last]
        pairs = [(match[1], match[2]) for match in found if match]
        return pairs if len(pairs) == len(last) else []

    def place(self, change: FileChange, line: Line | None = None) -> str:
        """Where a finding is: file, line, patch."""
        number = "" if line is None else f":{line.number}"
        return f"{change.path}{number} ({self.name})"


@dataclass(frozen=True)
class Tree:
    """The files of one commit, each read once."""

    git: Git
    commit: str
    _read: dict[str, bytes | None] = field(default_factory=dict, compare=False, repr=False)

    def bytes(self, path: str) -> bytes | None:
        """A file's content, None where there is no such file."""
        if path not in self._read:
            self._read[path] = self.git.read_blob(f"{self.commit}:{path}")
        return self._read[path]

    def text(self, path: str) -> str:
        """A file's text, "" where there is no such file."""
        return (self.bytes(path) or b"").decode("utf-8", "replace")


@dataclass(frozen=True)
class Branch:
    """All that a rule may look at. `upstream` is the plain tree, `base` the tree below the topic's
    first patch (with the topics it requires), `tip` the tree with all of the topic."""

    subject: Subject
    evidence: Evidence
    lookup: Lookup | None
    upstream: Tree
    base: Tree
    tip: Tree
    patches: tuple[Patch, ...]

    def changes(self) -> Iterator[tuple[Patch, FileChange]]:
        """Every changed file of every patch."""
        for patch in self.patches:
            for change in patch.files:
                yield patch, change

    def touches(self, *prefixes: str) -> bool:
        """Whether the topic changes a file whose path starts with one of these."""
        return any(change.path.startswith(prefixes) for _, change in self.changes())

    def claim(self, patch: Patch) -> Claim:
        """What the series declares about a patch; nothing means bit-exact on the CPU."""
        return self.subject.claims.get(patch.name, Claim({"cpu": "bit-exact"}))


def read_branch(subject: Subject, evidence: Evidence, lookup: Lookup | None) -> Branch:
    """Read the commits of a topic. Raises InvalidMeasurement when it has none."""
    pairs = list(_pair(subject))
    if not pairs:
        raise InvalidMeasurement(
            f"topic '{subject.topic.name}' has no patch on {subject.version}: nothing to judge",
            remedy="leave the topic out, or list its patches in series.toml",
        )
    git = subject.git
    patches = tuple(_read_patch(git, parent, step) for parent, step in pairs)
    base, tip = Tree(git, pairs[0][0]), Tree(git, pairs[-1][1].commit)
    return Branch(subject, evidence, lookup, Tree(git, subject.base), base, tip, patches)


def _pair(subject: Subject) -> Iterator[tuple[str, Step]]:
    parent = subject.base
    for step in subject.steps:
        if step.topic == subject.topic.name:
            yield parent, step
        parent = step.commit


def _read_patch(git: Git, parent: str, step: Step) -> Patch:
    diff = git.diff(parent, step.commit).decode("utf-8", "surrogateescape")
    files = tuple(_read_change(file) for file in PatchSet(diff))
    message = git.read_commit(step.commit).message
    return Patch(step.patch, parent, step.commit, message, files)


def _read_change(file: PatchedFile) -> FileChange:
    lines = [line for hunk in file for line in hunk]
    added = [Line(line.target_line_no or 0, _bare(line.value)) for line in lines if line.is_added]
    gone = [Line(line.source_line_no or 0, _bare(line.value)) for line in lines if line.is_removed]
    return FileChange(file.path, file.is_added_file, tuple(added), tuple(gone))


def _bare(text: str) -> str:
    return text.removesuffix("\n")
