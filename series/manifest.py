"""Reading `series.toml`, and refusing one that contradicts itself.

Format: docs/reference/series-toml.md.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from series.model import (
    Claim,
    Dropped,
    IsaAllowance,
    Landed,
    Numerics,
    Series,
    Topic,
    Waiver,
)
from upstream.errors import UsageError
from upstream.version import Version, parse_version

# A topic is also a branch and a folder: git refuses "..", and names that end in "." or ".lock".
_NAME = re.compile(r"(?!.*\.\.)(?!.*\.lock$)[a-z0-9][a-z0-9._-]*(?<!\.)")
_PATCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.patch")
ISA_COUNTS = {"spilled": "registers", "scratch": "bytes", "waves": "waves"}
Table = Mapping[str, Any]


def load_series(directory: Path) -> Series:
    """The series in `directory`; UsageError names the file and what is wrong in it."""
    path = directory / "series.toml"
    table = _read_toml(path)
    try:
        series = _build(directory, table)
        _check(series)
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise UsageError(f"{path}: {_explain(error)}", remedy=f"mend {path}") from error
    return series


def digest_series(series: Series) -> str:
    """A hash of all that decides what the stack of this series is."""
    hasher = hashlib.sha256()
    names = ["series.toml", "acknowledged.toml", *(f"patches/{p}" for _, p in series.order())]
    names += sorted(f"resolutions/{p.name}" for p in list_resolution_files(series.directory))
    for name in names:
        path = series.directory / name
        content = path.read_bytes() if path.exists() else b"(absent)"
        hasher.update(f"{name}\0{len(content)}\0".encode() + content)
    return hasher.hexdigest()


def list_resolution_files(directory: Path) -> list[Path]:
    """The stored resolutions of a series directory, by name."""
    return sorted((directory / "resolutions").glob("*.resolution"))


def landed_by(series: Series, onto: Version) -> dict[str, Landed]:
    """The landed records that hold for a version."""
    return {record.patch: record for record in series.landed if record.version <= onto}


def _read_toml(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no {path}", remedy="name a series directory with --series DIR"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}", remedy=f"mend {path}") from error


def _build(directory: Path, table: Table) -> Series:
    known = ("base", "topic", "landed", "dropped", "patch", "waiver")
    _refuse_unknown(table, known, "the top level")
    return Series(
        directory=directory,
        base=_version(table["base"], "base"),
        topics=tuple(_topic(entry) for entry in _tables(table, "topic")),
        landed=tuple(_landed(entry) for entry in _tables(table, "landed")),
        dropped=tuple(_dropped(entry) for entry in _tables(table, "dropped")),
        claims={name: _claim(name, entry) for name, entry in table.get("patch", {}).items()},
        waivers=tuple(_waiver(entry) for entry in _tables(table, "waiver")),
    )


def _tables(table: Table, name: str) -> list[Table]:
    found = table.get(name, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ValueError(f"'{name}' must be a list of tables: write [[{name}]]")
    return found


def _version(value: object, what: str) -> Version:
    if not isinstance(value, str):
        raise ValueError(f'{what} must be a build tag in quotes, such as "b11549"')
    return parse_version(value)


def _topic(entry: Table) -> Topic:
    _refuse_unknown(entry, ("name", "title", "requires", "patches"), "a [[topic]]")
    name = _matching(_NAME, entry["name"], "topic name")
    requires = tuple(_strings(entry.get("requires", ()), f"requires of '{name}'"))
    patches = tuple(_strings(entry["patches"], f"patches of '{name}'"))
    for patch in patches:
        _matching(_PATCH, patch, "patch file name")
    return Topic(name, str(entry["title"]), requires, patches)


def _landed(entry: Table) -> Landed:
    _refuse_unknown(
        entry, ("topic", "patch", "reference", "version", "evidence"), "a [[landed]] record"
    )
    return Landed(
        topic=str(entry["topic"]),
        patch=str(entry["patch"]),
        reference=str(entry["reference"]),
        version=_version(entry["version"], f"version of the record of {entry['patch']}"),
        evidence=str(entry["evidence"]),
    )


def _dropped(entry: Table) -> Dropped:
    _refuse_unknown(entry, ("topic", "patch", "reason"), "a [[dropped]] record")
    return Dropped(str(entry["topic"]), str(entry["patch"]), str(entry["reason"]))


def _waiver(entry: Table) -> Waiver:
    _refuse_unknown(entry, ("topic", "rule", "reason"), "a [[waiver]]")
    waiver = Waiver(str(entry["topic"]), str(entry["rule"]), str(entry["reason"]).strip())
    if not waiver.reason:
        raise ValueError(f"the waiver of '{waiver.rule}' for '{waiver.topic}' has no reason")
    return waiver


def _claim(name: str, entry: Table) -> Claim:
    if not isinstance(entry, dict):
        raise ValueError(f"[patch] {name!r} must be a table")
    _refuse_unknown(entry, ("numerics", "check", "free", "isa"), f"[patch.{name!r}]")
    numerics = entry.get("numerics", {"cpu": "bit-exact"})
    if not isinstance(numerics, dict):
        raise ValueError(f"numerics of {name} must map backends to one of {get_args(Numerics)}")
    for backend, value in numerics.items():
        if value not in get_args(Numerics):
            raise ValueError(
                f"numerics of {name} on {backend}: '{value}' is not one of "
                f"{', '.join(get_args(Numerics))}"
            )
    free = entry.get("free", False)
    if not isinstance(free, bool):
        raise ValueError(f"free of {name} must be true or false")
    return Claim(numerics, str(entry.get("check", "")), free, _allowance(name, entry.get("isa")))


def _allowance(name: str, entry: object) -> IsaAllowance | None:
    """What a patch lets the compilers of AMD GPUs say; a loosened gate needs its reason."""
    if entry is None:
        return None
    where = f"isa of {name}"
    if not isinstance(entry, dict):
        raise ValueError(f'{where} must be a table: {{ allow = "the reason", worse = 5 }}')
    _refuse_unknown(entry, ("allow", "worse", *ISA_COUNTS), where)
    allow, worse = entry["allow"], entry.get("worse", 3.0)
    counts = {key: entry.get(key, 0) for key in ISA_COUNTS}
    if not isinstance(allow, str) or not allow.strip():
        raise ValueError(f"{where}: allow must say why the gate is loosened")
    if isinstance(worse, bool) or not isinstance(worse, int | float) or worse < 0:
        raise ValueError(f"{where}: worse must be a number of percent, not {worse!r}")
    for key, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError(f"{where}: {key} must be a number of {ISA_COUNTS[key]}, not {count!r}")
    return IsaAllowance(allow, float(worse), **counts)


def _check(series: Series) -> None:
    _refuse_twice((topic.name for topic in series.topics), "topic")
    _refuse_twice((patch for _, patch in series.order()), "patch")
    seen: set[str] = set()
    names = {topic.name for topic in series.topics}
    for topic in series.topics:
        _check_requires(topic, seen, names)
        seen.add(topic.name)
    records = [(record.topic, record.patch) for record in series.landed]
    records += [(record.topic, record.patch) for record in series.dropped]
    for name, patch in records:
        if name not in names:
            raise ValueError(f"the record of {patch} names the unknown topic '{name}'")
    known = {patch for _, patch in (*series.order(), *records)}
    for patch in series.claims:
        if patch not in known:
            raise ValueError(f"[patch.{patch!r}] is about a patch that is nowhere listed")
    _check_waivers(series, names)
    _check_landed(series)


def _check_waivers(series: Series, names: set[str]) -> None:
    for waiver in series.waivers:
        if waiver.topic not in names:
            raise ValueError(
                f"the waiver of '{waiver.rule}' names the unknown topic '{waiver.topic}' "
                f"(known: {', '.join(sorted(names))})"
            )


def _check_requires(topic: Topic, seen: set[str], names: set[str]) -> None:
    for other in topic.requires:
        if other not in names:
            raise ValueError(f"topic '{topic.name}' requires the unknown topic '{other}'")
        if other not in seen:
            raise ValueError(
                f"topic '{topic.name}' requires '{other}', which is not before it "
                "(a cycle, or the wrong order)"
            )


def _check_landed(series: Series) -> None:
    listed = {patch for _, patch in series.order()}
    for record in series.landed:
        if record.patch in listed and record.version <= series.base:
            raise ValueError(
                f"{record.patch} landed in {record.version} but is still listed on {series.base}"
            )
    for gone in series.dropped:
        if gone.patch in listed:
            raise ValueError(f"{gone.patch} is dropped and listed at once")


def _refuse_twice(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} '{name}' is named twice")
        seen.add(name)


def _refuse_unknown(entry: Table, known: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in known:
            raise ValueError(f"{where} has the unknown key '{key}' (known: {', '.join(known)})")


def _matching(pattern: re.Pattern[str], value: object, what: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{what} {value!r} must match {pattern.pattern}")
    return value


def _strings(value: object, what: str) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise ValueError(f"{what} must be a list of strings")
    return list(value)


def _explain(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the key '{error.args[0]}' is missing"
    if isinstance(error, UsageError):
        return error.what
    return str(error)
