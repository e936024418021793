"""kill -9 at several moments: the store stays usable, and the next run ends as if nothing was."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.upstream.commands import start
from tests.upstream.local_index import LocalIndex
from tests.upstream.packages import make_sdist, tree_files
from upstream.git import Git
from upstream.lab import Lab
from upstream.provider import open_upstream
from upstream.store import IMPORTING, Held
from upstream.version import Version

Moment = Callable[[Lab], bool]
BIG = 400  # files, enough for git to write a pack that takes a while


def some(folder: Path, pattern: str) -> bool:
    return any(folder.glob(pattern))


def downloading(lab: Lab) -> bool:
    return some(lab.downloads, "*.part")


def writing_a_pack(lab: Lab) -> bool:
    return some(lab.repository / "objects" / "pack", "tmp_pack_*")


def first_one_tagged(lab: Lab) -> bool:
    return some(lab.repository / "refs" / "tags" / "upstream", "*")


def writing_the_second_pack(lab: Lab) -> bool:
    return first_one_tagged(lab) and writing_a_pack(lab)


@cache
def big_package(version: str, build: int) -> bytes:
    """An upstream tree of many files whose bytes do not compress."""
    files = {f"{n % 9}/{n}.bin": os.urandom(8000) for n in range(BIG)}
    return make_sdist(version, {**files, **tree_files(build)})


@pytest.fixture
def big_index(index: LocalIndex) -> LocalIndex:
    """b100 and b200, big."""
    index.files.clear()
    for month, build in ((1, 100), (2, 200)):
        version = f"2026.{month}.{build}"
        index.add(f"xllamacpp-{version}.tar.gz", big_package(version, build))
    return index


def import_both(lab: Lab) -> dict[Version, Held]:
    """What an import that nobody interrupts ends with."""
    upstream = open_upstream(lab, "snapshots", None)
    for build in (100, 200):
        upstream.provide(Version(build))
    return upstream.imported()


def children_of(pid: int) -> list[int]:
    """The process ids of a process's children, from the kernel."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def kill_at(lab: Lab, moment: Moment, with_git: bool) -> None:
    """Start an import of b200, then b100, and kill it when the moment has come."""
    child = start("fetch", "--upstream", "snapshots", "b100", "b200")
    deadline = time.monotonic() + 60
    while not moment(lab):
        assert child.poll() is None, f"ended before the moment: {child.communicate()}"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    victims = [child.pid, *(children_of(child.pid) if with_git else [])]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    child.communicate()
    assert child.returncode == -signal.SIGKILL


def check_store(lab: Lab) -> None:
    """All that is tagged is complete."""
    git = Git(lab.repository)
    if git.directory.exists():
        git.run("fsck", "--full", "--connectivity-only", "--no-dangling")


@pytest.mark.parametrize(
    ("moment", "with_git"),
    [
        (downloading, False),
        (writing_a_pack, False),
        (writing_a_pack, True),
        (first_one_tagged, False),
        (writing_the_second_pack, True),
    ],
)
def test_killed_import(
    big_index: LocalIndex, lab: Lab, tmp_path: Path, moment: Moment, with_git: bool
) -> None:
    big_index.pause = 0.001 if moment is downloading else 0.0
    kill_at(lab, moment, with_git)
    check_store(lab)
    big_index.pause = 0.0
    ended = import_both(lab)
    check_store(lab)
    assert ended == import_both(Lab(tmp_path / "clean"))
    assert not some(lab.downloads, "*")
    assert not some(lab.repository / "objects" / "pack", "tmp_*")
    assert Git(lab.repository).list_refs(IMPORTING) == {}


def test_killed_download_goes_on(big_index: LocalIndex, lab: Lab) -> None:
    def half_there(lab: Lab) -> bool:
        return any(path.stat().st_size > 500_000 for path in lab.downloads.glob("*.part"))

    big_index.pause = 0.002
    kill_at(lab, half_there, False)
    big_index.pause = 0.0
    import_both(lab)
    again = big_index.downloads("xllamacpp-2026.1.100.tar.gz")[-1]
    assert int(again.removeprefix("bytes=").rstrip("-")) > 500_000


def test_killed_at_any_time(big_index: LocalIndex, lab: Lab) -> None:
    """Not a moment of our choice: the same run is killed again and again, each time later."""
    for delay in (0.5, 0.65, 0.8, 1.0):
        child = start("fetch", "--upstream", "snapshots", "b100", "b200")
        time.sleep(delay)
        child.kill()
        child.communicate()
        check_store(lab)
    assert list(import_both(lab)) == [Version(100), Version(200)]
