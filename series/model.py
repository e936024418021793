"""The values of the series: topics, patches, records and the stack of commits made from them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from upstream.version import Version

Numerics = Literal["bit-exact", "nmse", "changes"]


@dataclass(frozen=True)
class Topic:
    """Patches that belong together and go upstream together, in order."""

    name: str
    title: str
    requires: tuple[str, ...]
    patches: tuple[str, ...]


@dataclass(frozen=True)
class Landed:
    """A patch that upstream has: its reference, the first version with it, the evidence."""

    topic: str
    patch: str
    reference: str
    version: Version
    evidence: str


@dataclass(frozen=True)
class Dropped:
    """A patch that the maintainer gave up, and why."""

    topic: str
    patch: str
    reason: str


@dataclass(frozen=True)
class Waiver:
    """A rule of upstream that does not hold for a topic, and why a person accepts that."""

    topic: str
    rule: str
    reason: str


@dataclass(frozen=True)
class IsaAllowance:
    """What the compilers of AMD GPUs may say about a patch, and why that is right.

    `worse`: percent that the inverse throughput of a pipeline may grow; `spilled`: registers that
    it may spill more than before. Of HIP kernels only, `scratch`: more bytes a lane, `waves`: fewer
    waves a SIMD.
    """

    allow: str
    worse: float = 3.0
    spilled: int = 0
    scratch: int = 0
    waves: int = 0


@dataclass(frozen=True)
class Claim:
    """What a patch declares about itself.

    `numerics` maps a backend ("cpu", "vulkan") to how far results may move; `check` names the
    script below `series/checks/` that is red without the patch and green with it; `free` says that
    it adds no work: the number of instructions stays within 0.1 %; `isa` loosens the gate of
    `nox -s isa`.
    """

    numerics: Mapping[str, Numerics] = field(default_factory=dict)
    check: str = ""
    free: bool = False
    isa: IsaAllowance | None = None


@dataclass(frozen=True)
class Series:
    """A series directory as `series.toml` describes it."""

    directory: Path
    base: Version
    topics: tuple[Topic, ...]
    landed: tuple[Landed, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    claims: Mapping[str, Claim] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()

    @property
    def id(self) -> str:
        """A name for refs and state: two checkouts of the same series do not share them."""
        path = self.directory.resolve()
        name = re.sub(r"[^A-Za-z0-9]+", "-", path.name).strip("-")  # git refuses much in a ref
        return f"{name or 'series'}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"

    def order(self) -> Iterator[tuple[Topic, str]]:
        """Every patch with its topic, in the order of application."""
        for topic in self.topics:
            for patch in topic.patches:
                yield topic, patch

    def close_topics(self, names: Iterable[str]) -> tuple[str, ...]:
        """The topics with all that they require over any number of links, in order."""
        requires = {topic.name: topic.requires for topic in self.topics}
        found: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            left += [other for other in requires[name] if other not in found]
            found.add(name)
        return tuple(topic.name for topic in self.topics if topic.name in found)

    def claim(self, patch: str) -> Claim:
        """The claim of a patch; the strictest one where it declares nothing."""
        return self.claims.get(patch, Claim({"cpu": "bit-exact"}))


@dataclass(frozen=True)
class Step:
    """One patch as a commit of the stack."""

    topic: str
    patch: str
    commit: str
    tree: str


@dataclass(frozen=True)
class Stack:
    """The commits of a series on one upstream version; the first step's parent is `commit`."""

    version: Version
    commit: str
    tree: str
    steps: tuple[Step, ...]

    @property
    def tip(self) -> str:
        return self.steps[-1].commit if self.steps else self.commit

    @property
    def tip_tree(self) -> str:
        return self.steps[-1].tree if self.steps else self.tree
