"""The errors of the project, each with the exit code that the command line answers with.

Every error says what happened (`what`) and what to do about it (`remedy`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """What a command answers; docs/reference.md explains each."""

    OK = 0
    GATE_FAILED = 1
    USAGE = 2
    ENVIRONMENT = 3
    INVALID = 4
    CONFLICT = 5
    INTERRUPTED = 130
    TERMINATED = 143


class LabError(Exception):
    """Anything a user can act on: what happened and the next command."""

    exit_code = ExitCode.GATE_FAILED

    def __init__(self, what: str, *, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}\n  next: {self.remedy}" if self.remedy else self.what


class GateFailed(LabError):
    """A check ran, and its answer is no."""


class UsageError(LabError):
    """The command line or a file that a person writes (series.toml) is wrong."""

    exit_code = ExitCode.USAGE


class EnvironmentFault(LabError):
    """The machine lacks something: network, disk, a tool, a lock."""

    exit_code = ExitCode.ENVIRONMENT


class InvalidMeasurement(LabError):
    """The measurement measured nothing, or the wrong thing."""

    exit_code = ExitCode.INVALID


class ConflictWaiting(LabError):
    """A person has to decide; all state is kept."""

    exit_code = ExitCode.CONFLICT


@dataclass(frozen=True)
class CommandFailure:
    """How a child process ended."""

    command: tuple[str, ...]
    code: int
    stderr_tail: str
    log: Path | None = None


class CommandError(EnvironmentFault):
    """A child process failed where it should not have.

    `failure` holds the command, its exit code, the tail of stderr and the log's path.
    """

    def __init__(self, failure: CommandFailure, *, remedy: str = "") -> None:
        self.failure = failure
        super().__init__(describe_failure(failure), remedy=remedy)


def describe_failure(failure: CommandFailure) -> str:
    """One readable paragraph: command, exit code, indented stderr, log."""
    lines = [f"command failed with exit code {failure.code}: {' '.join(failure.command)}"]
    lines += [f"    {line}" for line in failure.stderr_tail.splitlines()[-12:]]
    if failure.log is not None:
        lines.append(f"    log: {failure.log}")
    return "\n".join(lines)
