"""The words that a check, a step and a whole run end with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from upstream.errors import ExitCode, InvalidMeasurement


class Verdict(Enum):
    """What is said about one check, or about a step by the worst of its checks."""

    IDENTICAL = "IDENTICAL"
    SAME = "SAME"
    FASTER = "FASTER"
    PASS = "PASS"  # noqa: S105
    INCONCLUSIVE = "INCONCLUSIVE"
    INFORMATION = "shown"
    NOT_RUN = "not run"
    INVALID = "INVALID"
    SLOWER = "SLOWER"
    FAIL = "FAIL"


# From good to bad: a step is as bad as its worst check. What is only shown never counts.
ORDER = (
    Verdict.INFORMATION,
    Verdict.IDENTICAL,
    Verdict.SAME,
    Verdict.FASTER,
    Verdict.PASS,
    Verdict.INCONCLUSIVE,
    Verdict.NOT_RUN,
    Verdict.INVALID,
    Verdict.SLOWER,
    Verdict.FAIL,
)
EXIT_CODES = {
    Verdict.NOT_RUN: ExitCode.ENVIRONMENT,
    Verdict.INVALID: ExitCode.INVALID,
    Verdict.SLOWER: ExitCode.GATE_FAILED,
    Verdict.FAIL: ExitCode.GATE_FAILED,
}


@dataclass(frozen=True)
class CheckResult:
    """One check of one step: its verdict, one line of explanation, numbers for --json."""

    check: str
    verdict: Verdict
    detail: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    cached: bool = False


@dataclass(frozen=True)
class StepVerdict:
    """A step against its parent (a patch name, or "base")."""

    patch: str
    parent: str
    checks: tuple[CheckResult, ...]

    @property
    def verdict(self) -> Verdict:
        return worst(check.verdict for check in self.checks)

    @property
    def cached(self) -> bool:
        """Whether nothing had to be run again."""
        return all(check.cached for check in self.checks)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The one furthest to the bad end. Raises InvalidMeasurement when nothing gave a verdict."""
    found = max(verdicts, key=ORDER.index, default=Verdict.INFORMATION)
    if found is Verdict.INFORMATION:
        raise InvalidMeasurement(
            "nothing was checked", remedy="name a series with at least one patch"
        )
    return found


def exit_code(steps: Sequence[StepVerdict], *, strict: bool = False) -> ExitCode:
    """0 ok, 1 a check said no, 4 a measurement is invalid, 3 a check lacks its environment.

    `strict`: what is inconclusive is a no, where nothing else is wrong. Raises InvalidMeasurement
    when there is no step at all.
    """
    found = worst(step.verdict for step in steps)
    if strict and found is Verdict.INCONCLUSIVE:
        return ExitCode.GATE_FAILED
    return EXIT_CODES.get(found, ExitCode.OK)
