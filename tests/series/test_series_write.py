"""--write: patches, base and records are rewritten together, or nothing is."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from series.decisions import Pending
from series.manifest import digest_series, load_series
from series.model import Dropped, Landed
from series.write import Staged, commit_series, finish_interrupted_write
from tests.series.conftest import MakeLab
from tests.series.lab import ROOT, Lab, read_folder
from tests.series.miniature import (
    CLASH,
    MOVED,
    OFFSET,
    STEADY,
    TAKEN,
    Miniature,
    lines,
    write_series,
)
from tests.small_disk import mount_small
from upstream.errors import LabError, UsageError
from upstream.version import Version

LAND = ("--landed", "taken.patch", "--reference", "#17", "--evidence", "the same 'tree'")


@pytest.fixture
def lab(upstream: Miniature, tmp_path: Path, make_lab: MakeLab) -> Lab:
    patches = upstream.patches("b100", STEADY, TAKEN, OFFSET, MOVED)
    claims = '# What each promises.\n[patch."offset.patch"]\nnumerics = { cpu = "nmse" } # odd\n'
    return make_lab(write_series(tmp_path / "series", "b100", patches, extra=claims))


def test_written_series_applies_with_git_am_on_the_new_base_and_keeps_comments(
    lab: Lab, upstream: Miniature, tmp_path: Path
) -> None:
    before = lab.files()
    done = lab.rebase("--onto", "b200", *LAND, "--write", "--json")
    assert done.code == 0, done.err
    assert f"wrote {lab.series}: base b200" in done.err
    names = ["steady.patch", "offset.patch", "moved.patch"]
    mails = [lab.series / "patches" / name for name in names]
    tip = upstream.apply_mails("b200", mails, tmp_path / "checkout")
    assert tip == done.document()["tip"]
    after = lab.files()
    assert set(after) == {"series.toml", *(f"patches/{name}" for name in names)}
    assert after["patches/steady.patch"] == before["patches/steady.patch"]  # no churn
    text = after["series.toml"].decode()
    for comment in ("# The series, by hand.", "# where it was written", "# in order", "# odd"):
        assert comment in text
    series = load_series(lab.series)
    assert series.base == Version(200)
    assert [patch for _, patch in series.order()] == names
    assert series.landed == (
        Landed("first", "taken.patch", "#17", Version(200), "the same 'tree'"),
    )
    assert series.claim("offset.patch").numerics == {"cpu": "nmse"}
    again = lab.rebase("--onto", "b200", "--write")
    assert (again.code, again.out[:13]) == (0, "nothing to do")
    assert lab.files() == after


def test_series_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    series = load_series(write_series(tmp_path / "series", "b100", {"a.patch": b"old\n"}))
    digest = digest_series(series)
    (series.directory / "patches/a.patch").write_bytes(b"edited meanwhile\n")
    files = read_folder(series.directory)
    staged = Staged({"patches/a.patch": b"new\n"}, ())
    with pytest.raises(UsageError, match="changed while the rebase ran; nothing was written"):
        commit_series(series, staged, tmp_path / "state", digest)
    assert read_folder(series.directory) == files
    assert not finish_interrupted_write(tmp_path / "state")


def interrupted(tmp_path: Path) -> tuple[Path, Path]:
    """A series directory with a write that stopped half way: an obstacle in the file system."""
    old = {"a.patch": b"old a\n", "b.patch": b"old b\n", "gone.patch": b"gone\n"}
    series = load_series(write_series(tmp_path / "series", "b100", old))
    state = tmp_path / "state"
    put = {"patches/a.patch": b"new a\n", "patches/b.patch": b"new b\n", "series.toml": b"new\n"}
    obstacle = series.directory / "patches" / ".b.patch.tmp"
    obstacle.mkdir()
    Pending(state).drop(Dropped("first", "gone.patch", "r"))
    with pytest.raises(IsADirectoryError):
        commit_series(series, Staged(put, ("patches/gone.patch",)), state, digest_series(series))
    obstacle.rmdir()
    return series.directory, state


def test_write_that_stopped_half_way_is_rolled_forward(tmp_path: Path) -> None:
    directory, state = interrupted(tmp_path)
    assert (directory / "patches/a.patch").read_bytes() == b"new a\n"
    assert (directory / "patches/b.patch").read_bytes() == b"old b\n"
    assert finish_interrupted_write(state)
    assert read_folder(directory) == {
        "patches/a.patch": b"new a\n", "patches/b.patch": b"new b\n", "series.toml": b"new\n",
    }  # fmt: skip
    assert Pending(state).dropped == []
    assert not finish_interrupted_write(state)


@pytest.mark.parametrize("name", ["patches/b.patch", "series.toml", "patches/gone.patch"])
def test_edit_made_after_the_interruption_is_not_overwritten(name: str, tmp_path: Path) -> None:
    directory, state = interrupted(tmp_path)
    (directory / name).write_bytes(b"my edit\n")
    with pytest.raises(UsageError, match="was edited after a --write was cut off") as refusal:
        finish_interrupted_write(state)
    assert "move that file out" in refusal.value.remedy
    assert (directory / name).read_bytes() == b"my edit\n"
    (directory / name).unlink()
    assert finish_interrupted_write(state)


def test_staged_file_that_rotted_is_refused(tmp_path: Path) -> None:
    directory, state = interrupted(tmp_path)
    (state / "staged/patches/b.patch").write_bytes(b"rot\n")
    with pytest.raises(LabError, match="was changed"):
        finish_interrupted_write(state)
    assert (directory / "patches/b.patch").read_bytes() == b"old b\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mount_small(tmp_path / "small", "64k") as folder:
        yield folder


def test_full_disk_is_said_and_the_next_run_finishes(
    small_disk: Path, upstream: Miniature, make_lab: MakeLab
) -> None:
    lab = make_lab(write_series(small_disk / "series", "b100", upstream.patches("b100", OFFSET)))
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(65536))
    full = lab.rebase("--onto", "b200", "--write")
    assert full.code == 3
    assert "No space left on device" in full.err
    assert "next: free some space" in full.err
    assert "unexpected" not in full.err
    assert load_series(lab.series).base == Version(100)
    assert not list(lab.series.rglob(".*.tmp"))
    filler.unlink()
    done = lab.rebase("--onto", "b200", "--write")
    assert done.code == 0, done.err
    assert "finished a --write that was interrupted" in done.err
    assert load_series(lab.series).base == Version(200)


def limit_files(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_file_size_limit_is_said_and_nothing_is_lost(
    upstream: Miniature, tmp_path: Path, make_lab: MakeLab
) -> None:
    """The patch file is larger than the limit, all that git stores is smaller."""
    change = {"src/gamma.c": lines("gamma", 400)}
    patches = upstream.patches("b100", ("big.patch", change))
    lab = make_lab(write_series(tmp_path / "series", "b100", patches))
    assert lab.rebase("--onto", "b200").code == 0
    files = lab.files()
    done = subprocess.run(
        lab.command("rebase", "--onto", "b200", "--write"), env=lab.environment(), cwd=ROOT,
        capture_output=True, text=True, preexec_fn=limit_files(4096), check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "unexpected" not in done.stderr
    assert "File too large" in done.stderr or "exit code -25" in done.stderr
    assert lab.files() == files
    assert lab.rebase("--onto", "b200", "--write").code == 0


def test_records_are_appended_once(lab: Lab, upstream: Miniature, tmp_path: Path) -> None:
    """A decision that outlived its write (a kill between the two) must not be recorded twice."""
    assert lab.rebase("--onto", "b200", *LAND, "--write").code == 0
    pending = Pending(lab.state)
    pending.land(load_series(lab.series).landed[0])
    done = lab.rebase("--onto", "b300", "--write")
    assert done.code == 0, done.err
    assert (lab.series / "series.toml").read_text().count("[[landed]]") == 1


def test_write_waits_like_everything_else_for_a_conflict(
    upstream: Miniature, tmp_path: Path, make_lab: MakeLab
) -> None:
    patches = upstream.patches("b100", STEADY, CLASH)
    lab = make_lab(write_series(tmp_path / "series", "b100", patches))
    files = lab.files()
    assert lab.rebase("--onto", "b200", "--write").code == 5
    assert lab.files() == files
