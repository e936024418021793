"""What an export says to a person and, as JSON, to a program."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from series.model import Topic
from validate.export.model import Exported
from validate.export.readiness import is_unchecked
from validate.policy import Finding, Outcome
from validate.report import align, document_builds, document_verdicts


@dataclass(frozen=True)
class Summary:
    """All of a run. `empty` are topics without patches here, `edited` those whose draft a person
    wrote in; `changed` says whether any file or ref moved."""

    exported: tuple[Exported, ...]
    empty: tuple[Topic, ...]
    repository: Path
    output: Path
    changed: bool = False
    edited: tuple[str, ...] = ()


def format_summary(summary: Summary) -> str:
    """A table of the topics, then for each one what it lacks and where it is."""
    rows = [("topic", "branch", "round", "state"), *map(_format_row, summary.exported)]
    lines = [align(rows)]
    lines += [f"{topic.name}: nothing to export, no patch is left" for topic in summary.empty]
    for each in summary.exported:
        lines += ["", *_explain(each, summary)]
    if not summary.changed:
        lines += ["", "nothing changed since the last export"]
    return "\n".join(lines)


def _format_row(each: Exported) -> tuple[str, str, str, str]:
    new = "new" if each.history.is_new else "unchanged"
    return each.name, each.branch, f"{each.history.now.name} {new}", str(each.readiness)


def _explain(each: Exported, summary: Summary) -> Iterator[str]:
    yield f"{each.name}: {each.readiness}"
    yield from (f"  {reason}" for reason in each.readiness.reasons)
    yield from (f"    {format_finding(f)}" for f in each.findings if _is_shown(f))
    if each.alone.changed:
        yield f"  not the same diff as in the stack: {', '.join(each.alone.changed)}"
    if each.snapshot:
        yield (
            f"  {each.history.now.upstream} is an import of {each.snapshot}, not upstream's own "
            "commit: to send the branch export with --upstream remote, or `git am` its patches"
        )
    if each.history.is_new and each.history.before is not None:
        before, now = each.history.before, each.history.now
        yield f"  {before.name} ({before.upstream}) -> {now.name} ({now.upstream}):"
        yield indent(each.history.range_diff, "    ")
    yield f"  {fetch_command(each, summary.repository)}"
    draft = " (PR.md: yours is kept)" if each.name in summary.edited else ""
    yield f"  files: {summary.output / each.name}{draft}"


def _is_shown(finding: Finding) -> bool:
    return finding.outcome is Outcome.RED or is_unchecked(finding)


def fetch_command(each: Exported, repository: Path) -> str:
    """How a person gets the branch into a checkout; the tool never touches one."""
    return shlex.join(("git", "fetch", str(repository), each.branch))


def format_policy(each: Exported) -> str:
    """policy.txt: the state, its reasons, one finding a line."""
    now = each.history.now
    lines = [f"{each.branch} {now.name}, commit {now.tip}, on {now.upstream}: {each.readiness}"]
    lines += [f"  {reason}" for reason in each.readiness.reasons]
    lines += ["", *(format_finding(finding) for finding in each.findings)]
    return "\n".join(lines) + "\n"


def format_finding(finding: Finding) -> str:
    """One line: outcome, rule, place, what, upstream's sentence, the waiver's reason."""
    source = f" [{finding.source}]" if finding.source else ""
    reason = f" (waived: {finding.reason})" if finding.reason else ""
    what = " ".join(finding.what.split())
    return f"{finding.outcome.value:11}  {finding.rule}: {finding.where}: {what}{source}{reason}"


def document_summary(summary: Summary) -> dict[str, object]:
    """The same for --json, with every finding and check."""
    return {
        "repository": str(summary.repository),
        "output": str(summary.output),
        "changed": summary.changed,
        "empty": [topic.name for topic in summary.empty],
        "topics": [_document(each, summary) for each in summary.exported],
    }


def _document(each: Exported, summary: Summary) -> dict[str, object]:
    now, before, trial = each.history.now, each.history.before, each.trial
    return {
        "topic": each.name,
        "branch": each.branch,
        "round": now.number,
        "new": each.history.is_new,
        "upstream": str(now.upstream),
        "snapshot": each.snapshot or None,
        "base": now.base,
        "commit": now.tip,
        "patches": [step.patch for step in each.alone.own],
        "requires": list(each.alone.topic.requires),
        "changed_alone": list(each.alone.changed),
        "before": {"round": before.number, "commit": before.tip} if before else None,
        "range_diff": each.history.range_diff,
        "ready": each.readiness.ready,
        "reasons": list(each.readiness.reasons),
        "outcomes": dict(Counter(finding.outcome.value for finding in each.findings)),
        "findings": [vars(f) | {"outcome": f.outcome.value} for f in each.findings],
        "builds": document_builds(trial.builds) if trial else None,
        "steps": document_verdicts(trial.verdicts, trial.speeds) if trial else None,
        "fetch": fetch_command(each, summary.repository),
        "folder": str(summary.output / each.name),
    }
