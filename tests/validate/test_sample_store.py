"""The database of samples: what is written stays, also after kill -9; old, new and broken files."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.small_disk import mount_small
from upstream.errors import EnvironmentFault, ExitCode
from upstream.lab import Lab, hold_lock
from validate import sample_store
from validate.cells import Cell, Judged, Sample, Speed
from validate.sample_store import SampleStore, SessionKey, open_samples

ROOT = Path(__file__).parent.parent.parent
KEY = SessionKey("p" * 64, "s" * 64, ("a", "b"), "gcc", "box", "model", "{}", seed=1)
CELL = Cell("llama-bench", "pp32", "t/s", 0.05)
SLOWER = Judged(CELL, Speed.SLOWER, -0.2, float("-inf"), -0.1, 8, 0.05, 0.01, "twice")
VERSION_1 = """
CREATE TABLE sessions (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, parent TEXT NOT NULL,
    step TEXT NOT NULL, toolchain TEXT NOT NULL, machine TEXT NOT NULL, document TEXT NOT NULL,
    started REAL NOT NULL, judged TEXT);
CREATE TABLE samples (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, track TEXT NOT NULL,
    cell TEXT NOT NULL, arm TEXT NOT NULL, quad INTEGER NOT NULL, position INTEGER NOT NULL,
    value REAL NOT NULL, seconds REAL NOT NULL, taken REAL NOT NULL);
PRAGMA user_version = 1;
"""
WRITER = """
import sys
from upstream.lab import open_lab
from validate.cells import Sample
from validate.sample_store import SessionKey, open_samples
with open_samples(open_lab()) as store:
    session = store.open_session(SessionKey("p", "s", ("a", "b"), "gcc", "box", "m", "{}", 1))
    for quad in range(10**9):
        store.add(session, "step", [Sample("pp32", "A", quad, 0, 1.0, 1.0)])
        print(quad, flush=True)
"""


def make(quad: int, position: int, cell: str = "pp32") -> Sample:
    return Sample(cell, "A", quad, position, 10.5 + quad, 0.25, {"gpu_info": ""})


def fill(store: SampleStore, written: list[int]) -> None:
    """Write until the disk is full."""
    session = store.open_session(KEY)
    for quad in range(1, 5000):
        store.add(session, "step", [make(quad, 0)])
        written.append(quad)


def file_of(lab: Lab) -> Path:
    return lab.root / "results" / "samples.sqlite"


@contextmanager
def raw(lab: Lab) -> Iterator[sqlite3.Connection]:
    """The file as SQLite alone sees it."""
    file_of(lab).parent.mkdir(exist_ok=True)
    base = sqlite3.connect(file_of(lab), timeout=0)
    try:
        yield base
    finally:
        base.close()


def test_samples_come_back_as_they_were_in_the_next_run(lab: Lab) -> None:
    with open_samples(lab, lambda: 7.0) as store:
        session = store.open_session(KEY)
        store.add(session, "step", [make(1, 0), make(1, 0, "tg8")])
        store.add(session, "control", [make(1, 0)])
    with open_samples(lab) as store:
        found = store.samples(store.open_session(KEY))
    assert [(one.track, one.sample, one.taken) for one in found] == [
        ("step", make(1, 0), 7.0),
        ("step", make(1, 0, "tg8"), 7.0),
        ("control", make(1, 0), 7.0),
    ]


@pytest.mark.parametrize(
    "other",
    [
        replace(KEY, binaries=("a", "c")),
        replace(KEY, toolchain="clang"),
        replace(KEY, machine="other"),
        replace(KEY, model="other"),
        replace(KEY, setting='{"prompt": 1}'),
        replace(KEY, seed=2),
        replace(KEY, run=2),
    ],
)
def test_whatever_decides_the_numbers_makes_another_session(lab: Lab, other: SessionKey) -> None:
    with open_samples(lab) as store:
        store.add(store.open_session(KEY), "step", [make(1, 0)])
        assert store.samples(store.open_session(other)) == []


def test_equal_binaries_of_another_step_share_a_session(lab: Lab) -> None:
    with open_samples(lab) as store:
        assert store.open_session(KEY) == store.open_session(replace(KEY, step="t" * 64))


def test_verdicts_are_kept_until_the_session_is_set_aside(lab: Lab) -> None:
    with open_samples(lab) as store:
        session = store.open_session(KEY)
        store.add(session, "step", [make(1, 0)])
        assert store.verdicts(session) is None
        store.finish(session, [SLOWER])
    with open_samples(lab) as store:
        assert store.verdicts(store.open_session(KEY)) == [SLOWER]
        store.set_aside(session)
        assert store.verdicts(store.open_session(KEY)) is None
        assert len(list(store.export())) == 1  # nothing is thrown away


def test_the_export_has_one_line_a_sample_with_its_key(lab: Lab) -> None:
    with open_samples(lab) as store:
        store.add(store.open_session(KEY), "control", [make(3, 2)])
        (line,) = store.export()
    row = json.loads(line)
    assert (row["track"], row["quad"], row["position"], row["value"]) == ("control", 3, 2, 13.5)
    assert row["facts"] == {"gpu_info": ""}
    assert row["key"]["toolchain"] == "gcc"


def test_an_older_file_is_brought_up_to_date_and_a_copy_stays(lab: Lab) -> None:
    with raw(lab) as base:
        base.executescript(VERSION_1)
        row = (KEY.identity, "p", "s", "gcc", "box", json.dumps({"seed": 1}), 1.0)
        base.execute("INSERT INTO sessions VALUES (1, ?, ?, ?, ?, ?, ?, ?, NULL)", row)
        base.execute("INSERT INTO samples VALUES (1, 1, 'step', 'pp32', 'A', 1, 0, 5.0, 1.0, 9.0)")
        base.commit()
    with open_samples(lab) as store:
        (found,) = store.samples(store.open_session(KEY))
        store.add(1, "step", [make(2, 0)])
    assert (found.sample.value, found.sample.facts) == (5.0, {})
    backup = sqlite3.connect(file_of(lab).with_name("samples.sqlite.v1"))
    assert backup.execute("PRAGMA user_version").fetchone() == (1,)
    assert backup.execute("SELECT count(*) FROM samples").fetchone() == (1,)
    backup.close()
    with raw(lab) as base:
        assert base.execute("PRAGMA user_version").fetchone() == (sample_store.VERSION,)


def test_a_migration_that_fails_leaves_the_older_file(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with raw(lab) as base:
        base.executescript(VERSION_1)
    broken = {2: f"{sample_store.MIGRATIONS[2]}; SELECT nonsense FROM nowhere"}
    monkeypatch.setattr(sample_store, "MIGRATIONS", broken)
    with pytest.raises(EnvironmentFault, match="cannot be used"), open_samples(lab):
        pass
    with raw(lab) as base:
        assert base.execute("PRAGMA user_version").fetchone() == (1,)
        assert "facts" not in [row[1] for row in base.execute("PRAGMA table_info(samples)")]


def test_a_newer_file_is_refused_and_not_touched(lab: Lab) -> None:
    with raw(lab) as base:
        base.execute("PRAGMA user_version = 99")
    with pytest.raises(EnvironmentFault, match="version 99"), open_samples(lab):
        pass
    with raw(lab) as base:
        assert base.execute("PRAGMA user_version").fetchone() == (99,)


def test_a_file_that_is_no_database_is_refused(lab: Lab) -> None:
    file_of(lab).parent.mkdir()
    file_of(lab).write_text("this is no database at all, and it is long enough to be looked at\n")
    with pytest.raises(EnvironmentFault, match="not a database") as caught, open_samples(lab):
        pass
    assert "move the file away" in caught.value.remedy


def test_another_run_of_ours_is_told_of(lab: Lab) -> None:
    with (
        hold_lock(lab, "samples"),
        pytest.raises(EnvironmentFault, match="another run") as caught,
        open_samples(lab),
    ):
        pass
    assert caught.value.exit_code is ExitCode.ENVIRONMENT


def test_a_program_that_holds_the_file_is_told_of_at_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_store, "BUSY_SECONDS", 0.1)
    with open_samples(lab):
        pass
    with raw(lab) as base:
        base.execute("BEGIN IMMEDIATE")
        with pytest.raises(EnvironmentFault, match="locked by another run"), open_samples(lab):
            pass


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_told_of_and_what_was_written_stays(lab: Lab) -> None:
    folder = file_of(lab).parent
    with mount_small(folder, "256k"):
        with open_samples(lab) as store:
            written: list[int] = []
            with pytest.raises(EnvironmentFault, match="cannot be written") as caught:
                fill(store, written)
            found = store.samples(store.open_session(KEY))
        assert [one.sample.quad for one in found] == written
        assert "disk space" in caught.value.remedy


def test_kill_9_loses_no_sample_that_was_told_of(lab: Lab) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) == 20:
            break
    os.kill(writer.pid, signal.SIGKILL)
    told = 20 + len(writer.stdout.readlines())
    writer.wait()
    with open_samples(lab) as store:
        session = store.open_session(SessionKey("p", "s", ("a", "b"), "gcc", "box", "m", "{}", 1))
        quads = [one.sample.quad for one in store.samples(session)]
    assert quads == list(range(len(quads)))
    assert told < len(quads) <= told + 2
