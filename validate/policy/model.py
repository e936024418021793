"""The values of the policy gate: what is judged, on which evidence, and what is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Literal

from series.model import Claim, Step, Topic, Waiver
from upstream.git import Git
from upstream.version import Version
from validate.verdict import CheckResult

Kind = Literal["small model", "perplexity", "KL divergence", "CPU speed"]


class Outcome(Enum):
    """What a rule says of a branch."""

    GREEN = "green"
    RED = "RED"
    WAIVED = "waived"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """One line of the gate.

    `where` is a place in the branch (a patch, or "path:line (patch)"), `source` the sentence of
    upstream as "path:line", with the version ("" where upstream has it no more), `reason` the
    waiver's.
    """

    rule: str
    outcome: Outcome
    where: str
    what: str
    source: str
    reason: str = ""


@dataclass(frozen=True)
class Subject:
    """The branch of one topic on plain upstream.

    `steps` holds the commits in order, the first one's parent is `base`; steps of topics that
    `topic` requires come first and are not judged. `directory` is the series directory; `author` a
    GitHub login, "" where none is known.
    """

    git: Git
    version: Version
    base: str
    topic: Topic
    steps: tuple[Step, ...]
    claims: Mapping[str, Claim]
    waivers: tuple[Waiver, ...]
    directory: Path
    author: str = ""


@dataclass(frozen=True)
class Measured:
    """One piece of what upstream asks of a new ggml type: `against` names the other types that the
    same table holds; `source` is where it stands (a file, or the address of the small model)."""

    kind: Kind
    type: str
    against: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Evidence:
    """What was measured on this branch: the checks of each patch, None when it was not validated,
    and the tables for new types."""

    checks: Mapping[str, tuple[CheckResult, ...]] | None = None
    measured: tuple[Measured, ...] = field(default=())


@dataclass(frozen=True)
class Search:
    """The answer of a search for pull requests: how many there are, and "#NUMBER title" of the
    first ones."""

    total: int
    titles: tuple[str, ...] = ()


# Ask GitHub for pull requests of upstream, read-only: the query in GitHub's own search syntax
# without `repo:`. Raises LabError when there is no answer.
Lookup = Callable[[str], Search]
