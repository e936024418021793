"""The values of an export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from series.model import Series
from series.topic_stack import TopicStack
from upstream.version import Version
from validate.build import StepBuild
from validate.policy import Finding
from validate.report_model import Comparison, Header
from validate.verdict import StepVerdict

BRANCHES = "refs/heads/pr/"


@dataclass(frozen=True)
class Round:
    """One version of an exported topic: `tip` on the upstream commit `base`."""

    number: int
    upstream: Version
    base: str
    tip: str

    @property
    def name(self) -> str:
        return f"v{self.number}"


@dataclass(frozen=True)
class History:
    """The rounds of a topic, the present one last. `is_new`: it is not in the refs yet.

    `range_diff` compares it with the round before ("" for the first).
    """

    rounds: tuple[Round, ...]
    is_new: bool
    range_diff: str = ""

    @property
    def now(self) -> Round:
        return self.rounds[-1]

    @property
    def before(self) -> Round | None:
        return self.rounds[-2] if len(self.rounds) > 1 else None


@dataclass(frozen=True)
class Trial:
    """A topic alone, built and judged. `bench` holds tables in llama-bench's form; `speeds` are
    those that the store has."""

    header: Header
    builds: tuple[StepBuild, ...]
    verdicts: tuple[StepVerdict, ...]
    speeds: tuple[Comparison, ...] = ()
    bench: str = ""


@dataclass(frozen=True)
class Readiness:
    """Whether a person may send the branch, and if not, why. `failed`: a gate said no, which the
    machine found; a missing sign-off is no such failure."""

    reasons: tuple[str, ...]
    failed: bool

    @property
    def ready(self) -> bool:
        return not self.reasons

    def __str__(self) -> str:
        return "READY" if self.ready else "NOT READY"


@dataclass(frozen=True)
class Exported:
    """Everything about one topic. `trial` is None when it was not built; `snapshot` names the
    package that the upstream commit was made from, "" for upstream's own commit."""

    series: Series
    alone: TopicStack
    history: History
    trial: Trial | None
    findings: tuple[Finding, ...]
    readiness: Readiness
    snapshot: str = ""

    @property
    def name(self) -> str:
        return self.alone.topic.name

    @property
    def branch(self) -> str:
        """As a person names it."""
        return f"pr/{self.name}"


@dataclass(frozen=True)
class Files:
    """What belongs into the folder of one topic: bytes by relative name. `stale` names files of the
    round before that this one does not have."""

    folder: Path
    content: Mapping[str, bytes]
    stale: tuple[str, ...] = ()
