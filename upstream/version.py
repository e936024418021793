"""Names of upstream versions: build tags `bNNNN` and release tags `vX.Y.Z`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

from upstream.errors import UsageError

_BUILD = re.compile(r"b(\d{1,7})")


@total_ordering
@dataclass(frozen=True)
class Version:
    """A build number of upstream llama.cpp, for example b11549."""

    build: int

    def __str__(self) -> str:
        return f"b{self.build}"

    def __lt__(self, other: Version) -> bool:
        return self.build < other.build

    @property
    def ref(self) -> str:
        """The tag in the private repository."""
        return f"refs/tags/upstream/{self}"


def parse_version(text: str) -> Version:
    """Read `bNNNN`; anything else is a UsageError."""
    match = _BUILD.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"'{text}' is not an upstream version",
            remedy="name a build tag such as b11549, or HEAD",
        )
    return Version(int(match[1]))
