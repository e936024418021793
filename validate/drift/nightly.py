"""What changed since the last nightly run. The memory is one small file a series in the lab."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from series.decisions import write_file
from validate.drift.model import Drift, Row

FILE = "drift.json"
Seen = Mapping[str, str]


def compare_with_last(drift: Drift, state: Path) -> list[str]:
    """The lines to print; the present map is what the next run compares with."""
    path = state / FILE
    last = _load(path)
    now = {"head": str(drift.head)} | {row.patch: _say(row) for row in drift.rows}
    lines = ["first run: nothing to compare with"] if last is None else list(_compare(last, now))
    write_file(path, json.dumps(now, indent=1).encode())
    return lines


def _say(row: Row) -> str:
    """How a patch stands on HEAD, in the words that are compared."""
    cell = row.cells[-1]
    notes = [*cell.static, *(["needed again"] if row.needed_again else [])]
    return "; ".join((cell.standing.state.value, *notes))


def _compare(last: Seen, now: Seen) -> Iterator[str]:
    if last["head"] != now["head"]:
        yield f"HEAD was {last['head']}, is {now['head']}"
    for name in now.keys() - {"head"} - last.keys():
        yield f"{name}: new on the map, {now[name]}"
    for name in last.keys() - now.keys():
        yield f"{name}: no longer on the map, was {last[name]}"
    for name in sorted(now.keys() & last.keys() - {"head"}):
        if last[name] != now[name]:
            yield f"{name}: was {last[name]}, is {now[name]}"
    if last == now:
        yield "nothing changed since the last run"


def _load(path: Path) -> dict[str, str] | None:
    """What the last run saw; a damaged file counts as none."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    strings = isinstance(found, dict) and all(isinstance(each, str) for each in found.values())
    return found if strings and "head" in found else None
