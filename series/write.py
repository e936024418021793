"""`--write`: the rebased stack becomes the series directory, all of it or nothing.

The new files are staged beside the state, proved by strict application, and only then moved in
with a journal: a run that was killed in the middle is finished by the next one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tomlkit
from tomlkit.items import AoT, Table

from series.decisions import Acknowledged, Decisions, Pending, load_acknowledged, write_file
from series.mail import write_mail
from series.manifest import digest_series, load_series
from series.model import Dropped, Landed, Series
from series.rebase import Plan
from series.stack import apply_series
from upstream.errors import LabError, UsageError
from upstream.git import Git


@dataclass(frozen=True)
class Staged:
    """New content of the series directory: files to put (relative path, bytes), to remove."""

    put: Mapping[str, bytes]
    remove: tuple[str, ...]


def stage_series(
    git: Git, series: Series, plan: Plan, decisions: Decisions, pending: Pending, scratch: Path
) -> Staged:
    """Work out every file of the series directory after the rebase; nothing is written yet."""
    put = {
        f"patches/{step.patch}": write_mail(git, step.commit, Path(step.patch), scratch)
        for step in plan.new.steps
    }
    gone = [o.patch for o in plan.outcomes if o.fate in ("landed", "dropped")]
    put["series.toml"] = rewrite_manifest(series, plan, pending).encode()
    for resolution in pending.resolutions:
        put[f"resolutions/{resolution.file_name}"] = resolution.to_bytes()
    if pending.acknowledged:
        put["acknowledged.toml"] = render_acknowledged(
            [*load_acknowledged(series.directory), *pending.acknowledged]
        ).encode()
    return Staged(put, tuple(f"patches/{name}" for name in gone))


def verify_staged(git: Git, series: Series, staged: Staged, plan: Plan, scratch: Path) -> None:
    """Prove the staged series: strict application on the new base gives the planned tip tree."""
    copy = scratch / "staged-series"
    shutil.copytree(series.directory, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    _install(copy, staged.put, staged.remove)
    again = apply_series(git, load_series(copy), plan.new.version, plan.new.commit, scratch)
    if again.tip_tree != plan.new.tip_tree:
        raise LabError(
            "the written patches would not give the rebased tree; nothing was changed",
            remedy="report this with `nox -s rebase -- --dry-run --json`",
        )


def commit_series(series: Series, staged: Staged, folder: Path, expected: str) -> None:
    """Move the staged files in. `expected` is the digest of the series that was read."""
    if digest_series(series) != expected:
        raise UsageError(
            "the series directory changed while the rebase ran; nothing was written",
            remedy="run the same command again",
        )
    room = folder / "staged"
    shutil.rmtree(room, ignore_errors=True)
    for name, content in staged.put.items():
        write_file(room / name, content)
    directory = series.directory.resolve()
    journal = {
        "directory": str(directory),
        "before": {name: _hash_file(directory / name) for name in (*staged.put, *staged.remove)},
        "put": {name: _hash(content) for name, content in staged.put.items()},
        "remove": list(staged.remove),
    }
    write_file(folder / "journal.json", json.dumps(journal, indent=1).encode())
    finish_interrupted_write(folder)


def finish_interrupted_write(folder: Path) -> bool:
    """Roll a journalled write forward and forget the decisions that it took over; True when there
    was one. Safe to repeat."""
    path = folder / "journal.json"
    if not path.exists():
        return False
    journal = json.loads(path.read_text("utf-8"))
    put = {name: (folder / "staged" / name).read_bytes() for name in journal["put"]}
    for name, content in put.items():
        if _hash(content) != journal["put"][name]:
            raise LabError(
                f"the staged file {folder / 'staged' / name} was changed",
                remedy=f"remove {path}, then run the rebase again",
            )
    directory = Path(journal["directory"])
    _refuse_edited(directory, journal["before"], journal["put"])
    _install(directory, put, journal["remove"])
    Pending(folder).clear()
    path.unlink()
    shutil.rmtree(folder / "staged", ignore_errors=True)
    return True


def _refuse_edited(
    directory: Path, before: Mapping[str, str | None], after: Mapping[str, str]
) -> None:
    """What a person changed since the write was cut off must not be overwritten."""
    for name, old in before.items():
        if _hash_file(directory / name) not in (None, old, after.get(name)):
            raise UsageError(
                f"{directory / name} was edited after a --write was cut off in the middle",
                remedy="move that file out of the series directory, run the same command again "
                "(it finishes the write), then make your edit again",
            )


def _install(directory: Path, put: Mapping[str, bytes], remove: tuple[str, ...]) -> None:
    # series.toml goes last: until it moves, the directory still names its old base.
    for name in sorted(put, key=lambda name: name == "series.toml"):
        write_file(directory / name, put[name])
    for name in remove:
        (directory / name).unlink(missing_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hash_file(path: Path) -> str | None:
    return _hash(path.read_bytes()) if path.is_file() else None


def rewrite_manifest(series: Series, plan: Plan, pending: Pending) -> str:
    """`series.toml` with the new base, list and records; comments and layout stay."""
    document = tomlkit.parse((series.directory / "series.toml").read_text("utf-8"))
    document["base"] = str(plan.new.version)
    kept = {step.patch for step in plan.new.steps}
    for topic in document.get("topic", []):
        patches = topic["patches"]
        assert isinstance(patches, list)
        for name in [name for name in patches if str(name) not in kept]:
            patches.remove(name)
    landed = [record for record in pending.landed if record not in series.landed]
    dropped = [record for record in pending.dropped if record not in series.dropped]
    append_tables(document, "landed", [_landed_table(record) for record in landed])
    append_tables(document, "dropped", [_dropped_table(record) for record in dropped])
    return tomlkit.dumps(document)


def append_tables(document: tomlkit.TOMLDocument, name: str, tables: list[Table]) -> None:
    """Put tables at the end of the array `name`, made when missing."""
    if not tables:
        return
    if name not in document:
        document.add(tomlkit.nl())
        document[name] = tomlkit.aot()
    array = document[name]
    assert isinstance(array, AoT)
    for table in tables:
        array.append(table)


def _landed_table(record: Landed) -> Table:
    table = tomlkit.table()
    table.update({**vars(record), "version": str(record.version)})
    return table


def _dropped_table(record: Dropped) -> Table:
    table = tomlkit.table()
    table.update(vars(record))
    return table


def render_acknowledged(entries: list[Acknowledged]) -> str:
    """`acknowledged.toml`, each loss once."""
    document = tomlkit.document()
    document.add(tomlkit.comment("Losses that somebody looked at and accepted, with the reason."))
    array = tomlkit.aot()
    for entry in {(e.patch, e.loss): e for e in entries}.values():
        table = tomlkit.table()
        table.update({"patch": entry.patch, "loss": entry.loss, "reason": entry.reason})
        table.add("lines", tomlkit.item(list(entry.lines)).multiline(True))
        array.append(table)
    document.add("acknowledged", array)
    return tomlkit.dumps(document)
