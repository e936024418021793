"""What a report of `python -m validate run` holds. Values only; `document` makes JSON of them.

Nothing here knows HTML: html_report.py draws it, `json.dumps(document(report))` stores it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from validate.cells import Judged, Speed
from validate.verdict import CheckResult, Verdict

SPEED = "speed"  # the check that stands for all cells of a step
# From good to bad: a comparison is as bad as its worst cell, and FASTER is said where none is bad.
SPEED_ORDER = (
    Speed.IDENTICAL,
    Speed.SAME,
    Speed.FASTER,
    Speed.INCONCLUSIVE,
    Speed.INVALID,
    Speed.SLOWER,
)


@dataclass(frozen=True)
class Skipped:
    """Something that was planned and not run, and why."""

    what: str
    reason: str


@dataclass(frozen=True)
class Comparison:
    """The speed of `step` against `parent`: judged cells, and cells that were left out."""

    step: str
    parent: str
    cells: tuple[Judged, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def verdict(self) -> Speed | None:
        """The worst cell's; None where there is no cell."""
        return worst_speed(cell.verdict for cell in self.cells)


@dataclass(frozen=True)
class BuildReport:
    """How one tree was built, and how it differs from its parent's binaries."""

    state: str
    tree: str
    key: str
    seconds: float = 0.0
    identical: int = 0
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    error: str = ""
    log: Path | None = None


@dataclass(frozen=True)
class StepReport:
    """One patch: what it claims, how it built, its checks, its speed.

    `verdict` is None for a patch that was never judged.
    """

    patch: str
    parent: str
    verdict: Verdict | None
    checks: tuple[CheckResult, ...] = ()
    build: BuildReport | None = None
    speed: Comparison | None = None
    claims: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicReport:
    """Patches that go upstream together; `notes` tell of landed and dropped ones."""

    name: str
    title: str
    steps: tuple[StepReport, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Count:
    """What became of planned cases. Every planned one is in exactly one of the other numbers."""

    what: str
    run: int = 0
    cached: int = 0
    identical: int = 0
    skipped: int = 0
    invalid: int = 0

    @property
    def planned(self) -> int:
        return self.run + self.cached + self.identical + self.skipped + self.invalid


@dataclass(frozen=True)
class Header:
    """What was judged, when and where. `backends` are those that something was executed on."""

    upstream: str
    provider: str
    tip_tree: str
    date: str
    machine: Mapping[str, str]
    toolchain: Mapping[str, str]
    backends: tuple[str, ...] = ("cpu",)
    sample: bool = False  # made-up numbers; the page says so


@dataclass(frozen=True)
class Report:
    """A whole run. `tip` is the tip against the base; `pr_text` is Markdown to paste.

    `verdict` is that of the worst step, the tip included; None where nothing was judged.
    """

    header: Header
    topics: tuple[TopicReport, ...]
    base: BuildReport
    counts: tuple[Count, ...]
    verdict: Verdict | None = None
    skipped: tuple[Skipped, ...] = ()
    not_measured: tuple[str, ...] = ()
    tip: Comparison | None = None
    pr_text: str = ""

    @property
    def steps(self) -> tuple[StepReport, ...]:
        return tuple(step for topic in self.topics for step in topic.steps)


def worst_speed(verdicts: Iterable[Speed]) -> Speed | None:
    """The one furthest to the bad end."""
    return max(verdicts, key=SPEED_ORDER.index, default=None)


def percent(log_ratio: float) -> float:
    """A logarithm of a speed ratio as a change in per cent."""
    return 100 * math.expm1(log_ratio) if log_ratio < 700 else math.inf


def document(value: object) -> object:
    """Plain JSON of a report or a part of it: what is not finite becomes null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: document(getattr(value, each.name)) for each in dataclasses.fields(value)
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): document(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [document(each) for each in value]
    return value if isinstance(value, int | str | None) else str(value)
