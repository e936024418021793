"""What a person decided during a rebase, on disk until `--write` moves it into the series.

Losing the process loses nothing: a rebase is recomputed from the series and these decisions.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from series.loss import Loss
from series.manifest import landed_by
from series.model import Dropped, Landed, Series
from series.resolutions import Resolution, load_resolutions
from upstream.errors import UsageError
from upstream.version import Version, parse_version


@dataclass(frozen=True)
class Acknowledged:
    """A loss that a person accepted: the patch, the loss's digest and lines, the reason."""

    patch: str
    loss: str
    lines: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Decisions:
    """Everything decided, from the series directory and from this rebase, by what it decides."""

    resolutions: Mapping[tuple[str, str], Resolution]
    acknowledged: Mapping[tuple[str, str], Acknowledged]
    landed: Mapping[str, Landed]
    dropped: Mapping[str, Dropped]

    def reason_for(self, patch: str, loss: Loss) -> str:
        """Why a loss is accepted, or "" when nobody accepted it."""
        for resolution in self.resolutions.values():
            if resolution.patch == patch and resolution.loss == loss.digest and resolution.reason:
                return f"resolution: {resolution.reason}"
        found = self.acknowledged.get((patch, loss.digest))
        return found.reason if found else ""


class Pending:
    """The decisions of one rebase that no file of the series holds yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "decisions.json"

    def _load(self) -> dict[str, list[dict[str, object]]]:
        if not self._file.exists():
            return {"landed": [], "dropped": [], "acknowledged": []}
        table: dict[str, list[dict[str, object]]] = json.loads(self._file.read_text("utf-8"))
        return table

    def _add(self, kind: str, entry: Mapping[str, object]) -> None:
        table = self._load()
        kept = [e for e in table[kind] if e["patch"] != entry["patch"] or kind == "acknowledged"]
        table[kind] = [*kept, dict(entry)]
        write_file(self._file, json.dumps(table, indent=1).encode())

    def land(self, record: Landed) -> None:
        """Remember that upstream has a patch."""
        self._add("landed", {**vars(record), "version": str(record.version)})

    def drop(self, record: Dropped) -> None:
        """Remember that a patch is given up."""
        self._add("dropped", vars(record))

    def acknowledge(self, record: Acknowledged) -> None:
        """Remember that a loss is accepted."""
        self._add("acknowledged", {**vars(record), "lines": list(record.lines)})

    def resolve(self, resolution: Resolution) -> Path:
        """Remember how a conflict was resolved."""
        path = self.folder / "resolutions" / resolution.file_name
        write_file(path, resolution.to_bytes())
        return path

    @property
    def landed(self) -> list[Landed]:
        return [
            Landed(
                str(e["topic"]),
                str(e["patch"]),
                str(e["reference"]),
                parse_version(str(e["version"])),
                str(e["evidence"]),
            )
            for e in self._load()["landed"]
        ]

    @property
    def dropped(self) -> list[Dropped]:
        return [
            Dropped(str(e["topic"]), str(e["patch"]), str(e["reason"]))
            for e in self._load()["dropped"]
        ]

    @property
    def acknowledged(self) -> list[Acknowledged]:
        return [_acknowledged(e) for e in self._load()["acknowledged"]]

    @property
    def resolutions(self) -> list[Resolution]:
        return list(load_resolutions((self.folder,)).values())

    def clear(self) -> None:
        """Forget all of it."""
        self._file.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "resolutions", ignore_errors=True)


def gather_decisions(series: Series, pending: Pending, onto: Version) -> Decisions:
    """Join what the series directory holds with what this rebase has gathered."""
    known = [*load_acknowledged(series.directory), *pending.acknowledged]
    landed = landed_by(replace(series, landed=(*series.landed, *pending.landed)), onto)
    return Decisions(
        resolutions=load_resolutions((series.directory, pending.folder)),
        acknowledged={(a.patch, a.loss): a for a in known},
        landed=landed,
        dropped={d.patch: d for d in pending.dropped},
    )


def load_acknowledged(directory: Path) -> list[Acknowledged]:
    """Read `acknowledged.toml`; every entry needs a reason."""
    path = directory / "acknowledged.toml"
    if not path.exists():
        return []
    try:
        entries = tomllib.loads(path.read_text("utf-8")).get("acknowledged", [])
        found = [_acknowledged(entry) for entry in entries]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: {error!r}", remedy=f"mend {path}") from error
    for entry in found:
        if not entry.reason.strip():
            raise UsageError(
                f"{path}: the entry for {entry.patch} gives no reason",
                remedy="write why the loss is right",
            )
    return found


def _acknowledged(entry: Mapping[str, object]) -> Acknowledged:
    lines = entry.get("lines", ())
    if not isinstance(lines, list | tuple):
        raise TypeError(f"lines of {entry['patch']} must be a list")
    return Acknowledged(
        str(entry["patch"]),
        str(entry["loss"]),
        tuple(str(line) for line in lines),
        str(entry["reason"]),
    )


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: temporary name, flush, rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as sink:
            sink.write(content)
            sink.flush()
            os.fsync(sink.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
