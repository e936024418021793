"""Every sample that was ever measured: one row each, in SQLite, written before it is used.

A session is one comparison of two builds by one program; it is found again by all that decides
its numbers (builds, toolchain, machine, model, settings, seed), so that an interrupted one goes on
and a finished one is not measured again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from upstream.errors import EnvironmentFault
from upstream.lab import Lab, hold_lock
from validate.cells import Arm, Cell, Judged, Sample, Speed
from validate.quads import Track

VERSION = 2
BUSY_SECONDS = 5.0
SCHEMA = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE,
    parent TEXT NOT NULL,           -- key of the step folder: source tree, toolchain, options
    step TEXT NOT NULL,
    toolchain TEXT NOT NULL,
    machine TEXT NOT NULL,
    document TEXT NOT NULL,         -- the whole key, JSON
    started REAL NOT NULL,          -- seconds since 1970
    judged TEXT                     -- JSON; NULL while it is not finished
);
CREATE TABLE samples (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    track TEXT NOT NULL,            -- step, or control: the parent against its own copy
    cell TEXT NOT NULL,
    arm TEXT NOT NULL,
    quad INTEGER NOT NULL,          -- 0: the warm-up, which is not used
    position INTEGER NOT NULL,
    value REAL NOT NULL,
    seconds REAL NOT NULL,          -- what the process took
    facts TEXT NOT NULL DEFAULT '{}',
    taken REAL NOT NULL             -- seconds since 1970
);
CREATE INDEX samples_of_session ON samples (session, track);
"""
# From the version before to the one named. Version 1 was that of the first experiments.
MIGRATIONS = {2: "ALTER TABLE samples ADD COLUMN facts TEXT NOT NULL DEFAULT '{}'"}


@dataclass(frozen=True)
class SessionKey:
    """What decides the numbers of a session.

    parent, step: keys of the step folders, for people; `binaries` are the hashes of what runs, so
    that equal binaries share their samples. setting: the command line, looks and thresholds.
    run: 1, or 2 for the confirmation of a SLOWER.
    """

    parent: str
    step: str
    binaries: tuple[str, str]
    toolchain: str
    machine: str
    model: str
    setting: str
    seed: int
    run: int = 1

    @property
    def identity(self) -> str:
        """A hash of all but the keys of the folders."""
        document = asdict(self) | {"parent": "", "step": ""}
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class StoredSample:
    """A sample with its track and the time it was taken at, in seconds since 1970."""

    track: Track
    sample: Sample
    taken: float


class SampleStore:
    """The open database. Errors of SQLite come out as EnvironmentFault."""

    def __init__(self, base: sqlite3.Connection, path: Path, clock: Callable[[], float]) -> None:
        self._base = base
        self._clock = clock
        self.path = path

    def open_session(self, key: SessionKey) -> int:
        """The number of the session, which is made when there is none."""
        document = json.dumps(asdict(key), sort_keys=True)
        row = (key.identity, key.parent, key.step, key.toolchain, key.machine, document)
        with self._write() as base:
            base.execute(
                "INSERT OR IGNORE INTO sessions "
                "(identity, parent, step, toolchain, machine, document, started) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, self._clock()),
            )
        (found,) = self._read("SELECT id FROM sessions WHERE identity = ?", key.identity)
        return int(found["id"])

    def recall(self, key: SessionKey) -> list[Judged] | None:
        """The verdicts of a session that was finished, None where it was not, or never begun."""
        rows = self._read("SELECT id FROM sessions WHERE identity = ?", key.identity)
        return self.verdicts(int(rows[0]["id"])) if rows else None

    def add(self, session: int, track: Track, samples: Sequence[Sample]) -> None:
        """Write the samples of one process; on return they survive a power cut."""
        taken = self._clock()
        rows = [(session, track, *_write_sample(sample), taken) for sample in samples]
        with self._write() as base:
            base.executemany(
                "INSERT INTO samples "
                "(session, track, cell, arm, quad, position, value, seconds, facts, taken) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def samples(self, session: int) -> list[StoredSample]:
        """All samples of a session in the order in which they were taken."""
        rows = self._read("SELECT * FROM samples WHERE session = ? ORDER BY id", session)
        return [_read_sample(row) for row in rows]

    def finish(self, session: int, judged: Sequence[Judged]) -> None:
        """Keep the verdicts: the session is not measured again."""
        text = json.dumps([asdict(one) | {"verdict": one.verdict.value} for one in judged])
        with self._write() as base:
            base.execute("UPDATE sessions SET judged = ? WHERE id = ?", (text, session))

    def verdicts(self, session: int) -> list[Judged] | None:
        """The verdicts of a finished session, else None."""
        (row,) = self._read("SELECT judged FROM sessions WHERE id = ?", session)
        text = row["judged"]
        return None if text is None else [_read_judged(cell) for cell in json.loads(text)]

    def set_aside(self, session: int) -> None:
        """Keep the rows, but begin anew when the same comparison is asked for again."""
        with self._write() as base:
            base.execute(
                "UPDATE sessions SET identity = identity || ' ' || id WHERE id = ?", (session,)
            )

    def export(self) -> Iterator[str]:
        """Every sample as one line of JSON, its session's key included."""
        rows = self._read(
            "SELECT samples.*, sessions.document FROM samples "
            "JOIN sessions ON sessions.id = samples.session ORDER BY samples.id"
        )
        for row in rows:
            key, facts = json.loads(row.pop("document")), json.loads(row.pop("facts"))
            yield json.dumps(row | {"key": key, "facts": facts}, sort_keys=True)

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with _explain(self.path), self._base:
            yield self._base

    def _read(self, query: str, *values: object) -> list[dict[str, Any]]:
        with _explain(self.path):
            return [dict(row) for row in self._base.execute(query, values)]


@contextmanager
def open_samples(lab: Lab, clock: Callable[[], float] = time.time) -> Iterator[SampleStore]:
    """The database of the lab, made or brought up to date; for one run at a time.

    Raises EnvironmentFault when another run has it, when it is damaged, or of a newer version.
    """
    path = lab.root / "results" / "samples.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(lab, "samples"), _explain(path):
        base = sqlite3.connect(path, timeout=BUSY_SECONDS)
        base.row_factory = sqlite3.Row
        try:
            _prepare(base, path)
            yield SampleStore(base, path, clock)
        finally:
            base.close()


def _prepare(base: sqlite3.Connection, path: Path) -> None:
    base.execute("PRAGMA journal_mode = WAL")
    base.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut
    version = int(base.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise EnvironmentFault(
            f"{path} is of version {version}, this program knows {VERSION}",
            remedy="use the newer program, or move the file away",
        )
    if version == 0:
        _apply(base, SCHEMA, VERSION)
    elif version < VERSION:
        _migrate(base, path, version)
    # Another program that holds it open for writing shows now, not after an hour of measuring.
    base.execute("BEGIN IMMEDIATE")
    base.rollback()


def _migrate(base: sqlite3.Connection, path: Path, version: int) -> None:
    """Bring an older file up to date; a copy of it stays beside it."""
    base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    backup = path.with_name(f"{path.name}.v{version}")
    half = backup.with_name(f".{backup.name}")
    shutil.copy2(path, half)
    half.replace(backup)
    for number in range(version + 1, VERSION + 1):
        _apply(base, MIGRATIONS[number], number)


def _apply(base: sqlite3.Connection, statements: str, version: int) -> None:
    """All or nothing: executescript alone would commit each statement."""
    base.executescript(f"BEGIN IMMEDIATE; {statements}; PRAGMA user_version = {version}; COMMIT;")


@contextmanager
def _explain(path: Path) -> Iterator[None]:
    """SQLite's errors in our words."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            fault, remedy = "is locked by another run", "wait until it ends, then run again"
        elif "full" in text or "I/O" in text:
            fault, remedy = f"cannot be written: {text}", "free some disk space, then run again"
        else:
            fault, remedy = f"cannot be used: {text}", "move the file away, then run again"
        raise EnvironmentFault(f"{path} {fault}", remedy=remedy) from error


def _write_sample(sample: Sample) -> tuple[object, ...]:
    place = (sample.cell, sample.arm, sample.quad, sample.position)
    facts = json.dumps(dict(sample.facts), sort_keys=True)
    return (*place, sample.value, sample.seconds, facts)


def _read_sample(row: Mapping[str, Any]) -> StoredSample:
    sample = Sample(
        row["cell"],
        cast(Arm, row["arm"]),
        row["quad"],
        row["position"],
        row["value"],
        row["seconds"],
        json.loads(row["facts"]),
    )
    return StoredSample(cast(Track, row["track"]), sample, row["taken"])


def _read_judged(document: dict[str, Any]) -> Judged:
    cell, verdict = Cell(**document.pop("cell")), Speed(document.pop("verdict"))
    return Judged(cell, verdict, **document)
