"""What an import says to a person and, as JSON, to a program."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten

from series.importing.carry import Carried, Search
from series.importing.model import Attempt, Draft, Intake
from series.model import Topic
from series.report import COLUMNS, WORDS


def repeat_import(args: argparse.Namespace, **changed: object) -> str:
    """The command line of this import, with some options changed."""
    options = {**vars(args), **changed}
    usual = {"series": Path("series"), "upstream": "auto", "strip": 1}
    words = ["nox", "-s", "import", "--", str(options["source"])]
    for name in _VALUES:
        value = options[name]
        if value not in (None, "") and value != usual.get(name):
            words += [f"--{name}", str(value)]
    words += [f"--{name}" for name in ("create", "dry-run") if options[name.replace("-", "_")]]
    return shlex.join(words)


_VALUES = (
    "repository", "topic", "title", "base", "requires", "only", "prefix", "strip", "author", "date",
    "series", "upstream", "remote",
)  # fmt: skip


def format_attempts(search: Search) -> list[str]:
    """A row a version: how many patches apply, the first that fails, and why."""
    rows = [f"  {'version':22} applies  first that fails"]
    for attempt in search.attempts:
        count = f"{attempt.applied} of {attempt.total}"
        row = f"  {_name_version(attempt):22} {count:8} "
        if attempt.failures:
            first = attempt.failures[0]
            row += shorten(f"{first.name}: {first.why}", COLUMNS - len(row), placeholder=" ...")
        rows.append(row.rstrip())
    return rows


def format_import(
    topic: Topic, drafts: Mapping[str, Draft], intake: Intake, search: Search, carried: Carried
) -> str:
    """The patches with their ends, and the versions tried."""
    width = max(map(len, drafts))
    statuses = describe_statuses(carried, drafts)
    lines = [f"{len(drafts)} patches ({intake.kind}) -> topic {topic.name}"]
    lines += format_attempts(search)
    lines += [f"base found: {_name_version(search.best)}"]
    lines += [""] if carried.plan is None else ["", f"carried onto {carried.under.version}:"]
    for name, draft in drafts.items():
        words, reason = statuses[name]
        text = shorten(reason or draft.subject, max(COLUMNS - width - 27, 30), placeholder=" ...")
        lines.append(f"  {name:{width}}  {words:22}  {text}")
    return "\n".join(lines)


def describe_statuses(carried: Carried, drafts: Mapping[str, Draft]) -> dict[str, tuple[str, str]]:
    """How each patch arrived: in words, and why it waits."""
    if carried.plan is None:
        return dict.fromkeys(drafts, ("applies", ""))
    found = {}
    for outcome in carried.plan.outcomes:
        loss = "; ".join(outcome.loss.describe())
        paths = ", ".join(outcome.conflict.paths) if outcome.conflict else ""
        reason = (outcome.reason or loss or paths) if outcome.fate == "waiting" else ""
        words = "loses lines" if loss and reason else WORDS[outcome.status]
        found[outcome.patch] = (words, reason)
    return found


def import_document(
    topic: Topic,
    drafts: Mapping[str, Draft],
    intake: Intake,
    search: Search,
    carried: Carried | None,
    *,
    written: bool,
) -> dict[str, object]:
    """The same as a JSON document; `carried` is None where no version takes all patches."""
    statuses = {} if carried is None else describe_statuses(carried, drafts)
    found = search.best if carried is not None else None
    return {
        "kind": intake.kind,
        "topic": topic.name,
        "requires": list(topic.requires),
        "base": None if found is None else str(found.version),
        "onto": None if carried is None else str(carried.under.version),
        "carried": carried is not None and carried.plan is not None,
        "tip_tree": None if carried is None else carried.whole.tip_tree,
        "written": written,
        "remarks": list(intake.remarks),
        "tried": [_attempt_document(attempt) for attempt in search.attempts],
        "patches": [
            {
                "patch": name,
                "origin": draft.origin,
                "subject": draft.subject,
                "author": f"{draft.author.name} <{draft.author.email}>",
                "date": draft.author.date,
                "status": statuses.get(name, ("does not apply", ""))[0],
                "reason": statuses.get(name, ("", ""))[1],
            }
            for name, draft in drafts.items()
        ],
    }


def _attempt_document(attempt: Attempt) -> dict[str, object]:
    return {
        "version": str(attempt.version),
        "own_tip": attempt.own,
        "applied": attempt.applied,
        "of": attempt.total,
        "failures": [vars(failure) for failure in attempt.failures],
    }


def _name_version(attempt: Attempt) -> str:
    return f"{attempt.version} + series" if attempt.own else str(attempt.version)
