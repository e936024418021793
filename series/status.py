"""`nox -s status`: what the stack is, where it stands, and what waits for a person."""

from __future__ import annotations

from typing import TypedDict

from series.commands import Bench
from series.park import list_parked
from series.stack import load_stack


class PatchStatus(TypedDict):
    """One patch of the series."""

    topic: str
    patch: str
    numerics: dict[str, str]
    check: str


class Status(TypedDict):
    """The document of `nox -s status -- --json`."""

    series: str
    base: str
    head: str
    provider: str
    repository: str
    stack: str | None
    tip: str | None
    tip_tree: str | None
    patches: list[PatchStatus]
    landed: list[dict[str, str]]
    parked: list[dict[str, str]]


def describe_status(bench: Bench) -> Status:
    """Gather the status; asks the provider for the newest version."""
    series, stack = bench.series, load_stack(bench.git, bench.series)
    return Status(
        series=str(series.directory),
        base=str(series.base),
        head=str(bench.upstream.head()),
        provider=bench.upstream.provider_name,
        repository=str(bench.git.directory),
        stack=str(stack.version) if stack else None,
        tip=stack.tip if stack else None,
        tip_tree=stack.tip_tree if stack else None,
        patches=[
            PatchStatus(
                topic=topic.name,
                patch=patch,
                numerics={k: str(v) for k, v in series.claim(patch).numerics.items()},
                check=series.claim(patch).check,
            )
            for topic, patch in series.order()
        ],
        landed=[{**vars(record), "version": str(record.version)} for record in series.landed],
        parked=[{"patch": p.patch, "worktree": str(p.worktree)} for p in list_parked(bench.parked)],
    )


def format_status(status: Status) -> str:
    """The status for a person."""
    stand = f"stack on {status['stack']}" if status["stack"] else "no stack yet: nox -s rebase"
    lines = [
        f"{status['series']}: {len(status['patches'])} patches on {status['base']}; {stand}",
        f"newest upstream: {status['head']} ({status['provider']})",
    ]
    width = max((len(p["patch"]) for p in status["patches"]), default=5)
    lines += [f"  {p['patch']:{width}}  {p['topic']}" for p in status["patches"]]
    lines += [
        f"  landed in {e['version']}: {e['patch']} ({e['reference']})" for e in status["landed"]
    ]
    lines += [f"  parked: {p['patch']} in {p['worktree']}" for p in status["parked"]]
    return "\n".join(lines)
