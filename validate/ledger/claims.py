"""`ledger.toml` of a series: what its patches take, and what they watch. docs/reference/ledgers.md.

A series without the file takes and watches nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from series.model import Series
from upstream.errors import UsageError
from validate.ledger.diff import describe_constant, describe_push
from validate.ledger.enums import C_ENUMS, PYTHON_ENUMS
from validate.ledger.model import Change, Ledger

FILE = "ledger.toml"
ENUMS = (*(name for name, _ in C_ENUMS), *PYTHON_ENUMS)
KINDS = ("constant", "push", "struct", "supports_op", "number", "pipeline", *ENUMS)


@dataclass(frozen=True)
class Claimed:
    """An id that a patch takes: nobody else may have it, in any upstream version."""

    kind: str
    name: str
    id: int
    topic: str
    patch: str


@dataclass(frozen=True)
class Watched:
    """A row of upstream that a patch relies on. `rows`: as reviewed; () when nobody has yet."""

    kind: str
    name: str
    topic: str
    patch: str
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Accepted:
    """A red change that a patch makes on purpose, and why that is right."""

    kind: str
    name: str
    topic: str
    patch: str
    reason: str


@dataclass(frozen=True)
class Claims:
    """The contents of `ledger.toml`."""

    claimed: tuple[Claimed, ...] = ()
    watched: tuple[Watched, ...] = ()
    accepted: tuple[Accepted, ...] = ()

    def narrow(self, patches: Collection[str]) -> Claims:
        """Only what is claimed for these patches."""
        return Claims(
            tuple(row for row in self.claimed if row.patch in patches),
            tuple(row for row in self.watched if row.patch in patches),
            tuple(row for row in self.accepted if row.patch in patches),
        )


def load_claims(series: Series) -> Claims:
    """The claims of a series. Raises UsageError naming the file and what is wrong in it."""
    path = series.directory / FILE
    if not path.exists():
        return Claims()
    try:
        table = tomllib.loads(path.read_text("utf-8"))
        _refuse_unknown(table, ("claimed", "watched", "accepted"), "the top level")
        claims = Claims(
            tuple(_claimed(entry) for entry in table.get("claimed", [])),
            tuple(_watched(entry) for entry in table.get("watched", [])),
            tuple(_accepted(entry) for entry in table.get("accepted", [])),
        )
        _check(claims, series)
    except KeyError as error:
        raise _fault(path, f"the key '{error.args[0]}' is missing") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise _fault(path, str(error)) from error
    return claims


def _fault(path: Path, what: str) -> UsageError:
    return UsageError(f"{path}: {what}", remedy=f"mend {path}")


def _claimed(entry: Mapping[str, Any]) -> Claimed:
    _refuse_unknown(entry, ("kind", "name", "id", "topic", "patch"), "a [[claimed]] row")
    if type(entry["id"]) is not int:
        raise ValueError(f"id of {entry['name']} must be a number, not {entry['id']!r}")
    kind, name, topic, patch = _words(entry)
    return Claimed(kind, name, entry["id"], topic, patch)


def _watched(entry: Mapping[str, Any]) -> Watched:
    _refuse_unknown(entry, ("kind", "name", "topic", "patch", "rows"), "a [[watched]] row")
    rows = entry.get("rows", [])
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        raise ValueError(f"rows of {entry['name']} must be a list of strings")
    kind, name, topic, patch = _words(entry)
    return Watched(kind, name, topic, patch, tuple(rows))


def _accepted(entry: Mapping[str, Any]) -> Accepted:
    known = ("kind", "name", "topic", "patch", "reason")
    _refuse_unknown(entry, known, "an [[accepted]] row")
    if not isinstance(entry["reason"], str) or not entry["reason"].strip():
        raise ValueError(f"reason of {entry['name']} must say why")
    return Accepted(*_words(entry), entry["reason"])


def _words(entry: Mapping[str, Any]) -> tuple[str, str, str, str]:
    for key in ("kind", "name", "topic", "patch"):
        if not isinstance(entry[key], str):
            raise ValueError(f"{key} must be a string, not {entry[key]!r}")
    kind = entry["kind"]
    if kind not in KINDS:
        raise ValueError(f"kind '{kind}' is not one of {', '.join(KINDS)}")
    return kind, entry["name"], entry["topic"], entry["patch"]


def _refuse_unknown(entry: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in known:
            raise ValueError(f"{where} has the unknown key '{key}' (known: {', '.join(known)})")


def _check(claims: Claims, series: Series) -> None:
    """Patches are ones of the series; no id is claimed twice."""
    listed = {patch: topic.name for topic, patch in series.order()}
    rows: tuple[Claimed | Watched | Accepted, ...] = (
        *claims.claimed,
        *claims.watched,
        *claims.accepted,
    )
    for row in rows:
        if row.patch in listed and listed[row.patch] != row.topic:
            raise ValueError(f"{row.patch} is in topic '{listed[row.patch]}', not '{row.topic}'")
        if row.patch not in listed and row.patch not in {each.patch for each in series.landed}:
            raise ValueError(f"{row.patch} of the row {row.name} is no patch of the series")
    taken: dict[tuple[str, int], Claimed] = {}
    for claim in claims.claimed:
        if claim.kind not in ("constant", *ENUMS):
            raise ValueError(f"{claim.name}: {claim.kind} has no ids to claim")
        other = taken.setdefault((_space(claim), claim.id), claim)
        if other is not claim:
            what = f"{claim.name} and {other.name} both claim id {claim.id}"
            raise ValueError(f"{what} of {claim.kind}")


def _space(row: Claimed) -> str:
    """What an id is unique in: an enumeration, or the constants of one shader."""
    return f"{row.kind} {row.name.split(' ')[0]}" if row.kind == "constant" else row.kind


# -- against ledgers ------------------------------------------------------------------------------


def find_collisions(claims: Claims, upstream: Ledger) -> list[tuple[Claimed, str]]:
    """Claims that an upstream tree contradicts, with a line of text each."""
    found = []
    for row in claims.claimed:
        mine = row.name.split(" ")[-1]
        for name, value in _ids(row, upstream):
            if value == row.id and name != mine:
                text = f"id {value} of {row.kind} is {name} upstream, {mine} claims it"
            elif name == mine and value != row.id:
                text = f"{name} of {row.kind} is {value} upstream, claimed as {row.id}"
            else:
                continue
            found.append((row, text))
    return found


def _ids(row: Claimed, ledger: Ledger) -> list[tuple[str, int]]:
    """What a claim competes with. A count moves with every new id and is no competitor."""
    if row.kind != "constant":
        return [pair for pair in ledger.enum(row.kind).ids if not pair[0].endswith("_COUNT")]
    shader = row.name.split(" ")[0]
    layouts = [layout for layout in ledger.layouts if layout.shader == shader]
    return sorted({(name, id_) for layout in layouts for id_, name in layout.names})


def find_broken_claims(claims: Claims, patch: str, step: Ledger) -> list[str]:
    """What a patch claims and its own tree does not have."""
    return [
        f"{row.name} claims id {row.id} of {row.kind}, which its patch does not give it"
        for row in claims.claimed
        if row.patch == patch and (row.name.split(" ")[-1], row.id) not in _ids(row, step)
    ]


def is_accepted(change: Change, patch: str, claims: Claims) -> bool:
    """Whether somebody wrote down that this patch makes this change on purpose."""
    return any(
        (row.patch, row.kind, row.name) == (patch, change.kind, change.name)
        for row in claims.accepted
    )


def rows_of(ledger: Ledger, kind: str, name: str) -> tuple[str, ...]:
    """The rows that a watched name stands for, each as text; () when the tree has none."""
    if kind == "constant":
        source, _, constant = name.rpartition(" ")
        found = [e for e in ledger.constants if (e.source, e.name) == (source, constant)]
        return tuple(sorted(describe_constant(each) for each in found))
    if kind == "push":
        return tuple(describe_push(e) for e in ledger.sequences if e.function == name)
    if kind == "struct":
        found_structs = [each for each in ledger.structs if each.name == name]
        return tuple(f"{each.size} bytes: {', '.join(each.names)}" for each in found_structs)
    if kind == "supports_op":
        rows = [each for each in ledger.supports if f"{each.backend} {each.op}" == name]
        return tuple(f"{each.digest} {', '.join(each.inner)}".strip() for each in rows)
    if kind == "number":
        numbers = [each for each in ledger.numbers if each.name == name]
        return tuple(f"{each.source}: {each.value}" for each in numbers)
    if kind == "pipeline":
        pipelines = [each for each in ledger.pipelines if each.spirv == name]
        return tuple(f"{e.announced}: {', '.join(e.shaders)}" for e in pipelines)
    return tuple(f"{name} = {value}" for n, value in ledger.enum(kind).ids if n == name)
