"""`signoff.toml` of a series: who read which exported branch, and takes responsibility for it.

A sign-off names the commit at the tip of `pr/TOPIC`. Any change of the patches, of what they
require or of the upstream version makes another commit, and the sign-off is void.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from series.model import Series
from upstream.errors import UsageError

FILE = "signoff.toml"
KEYS = ("topic", "name", "date", "commit")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class SignOff:
    """A person's word for one commit."""

    topic: str
    name: str
    date: date
    commit: str


def load_signoffs(series: Series) -> tuple[SignOff, ...]:
    """The sign-offs of a series, () without the file; UsageError names what is wrong in it."""
    path = series.directory / FILE
    if not path.exists():
        return ()
    try:
        found = tuple(_read_entries(tomllib.loads(path.read_text("utf-8"))))
        _check_topics(found, series)
    except KeyError as error:
        raise _refuse(series, f"a [[signoff]] lacks the key '{error.args[0]}'") from error
    except (ValueError, TypeError) as error:  # TOML and UTF-8 errors are ValueErrors
        raise _refuse(series, str(error)) from error
    return found


def _refuse(series: Series, what: str) -> UsageError:
    path = series.directory / FILE
    return UsageError(f"{path}: {what}", remedy=f"mend {path}")


def _read_entries(table: Mapping[str, Any]) -> Iterable[SignOff]:
    _refuse_unknown(table, ("signoff",), "the top level")
    entries = table.get("signoff", [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ValueError("'signoff' must be a list of tables: write [[signoff]]")
    return (_read_entry(entry) for entry in entries)


def _read_entry(entry: Mapping[str, Any]) -> SignOff:
    _refuse_unknown(entry, KEYS, "a [[signoff]]")
    topic, name, commit = (entry[key] for key in ("topic", "name", "commit"))
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"the sign-off for '{topic}' names nobody")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise ValueError(
            f"commit {commit!r} of '{topic}' is no commit id: 40 hexadecimal digits in quotes"
        )
    return SignOff(str(topic), name.strip(), _read_date(entry["date"], str(topic)), commit)


def _read_date(value: object, topic: str) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(str(value)) if isinstance(value, str) else _no_date(value)
    except ValueError as error:
        raise ValueError(f"date {value!r} of '{topic}' is no date: write 2026-11-30") from error


def _no_date(value: object) -> date:
    raise ValueError(str(value))


def _check_topics(found: Iterable[SignOff], series: Series) -> None:
    known = [topic.name for topic in series.topics]
    for each in found:
        if each.topic not in known:
            raise ValueError(
                f"the sign-off of {each.name} names the unknown topic '{each.topic}' "
                f"(known: {', '.join(known)})"
            )


def _refuse_unknown(entry: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in known:
            raise ValueError(f"{where} has the unknown key '{key}' (known: {', '.join(known)})")
