"""Downloads from a real local HTTP server with the faults of real ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import requests

from tests.upstream.local_index import LocalIndex
from upstream import download as module
from upstream.download import RemoteFile, download
from upstream.errors import EnvironmentFault
from upstream.lab import Lab

NAME = "xllamacpp-2026.1.100.tar.gz"
CONTENT = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.01)


@pytest.fixture
def file(index: LocalIndex) -> RemoteFile:
    index.add(NAME, CONTENT)
    return RemoteFile(NAME, index.address(NAME), len(CONTENT), index.hashes[NAME])


def get(lab: Lab, file: RemoteFile) -> Path:
    with requests.Session() as session:
        return download(lab, file, session)


def part_of(lab: Lab, content: bytes) -> Path:
    path = lab.downloads / f"{NAME}.part"
    path.parent.mkdir()
    path.write_bytes(content)
    return path


def test_whole_file(lab: Lab, file: RemoteFile) -> None:
    path = get(lab, file)
    assert path == lab.downloads / NAME
    assert path.read_bytes() == CONTENT
    assert list(lab.downloads.iterdir()) == [path]


def test_file_that_is_there_costs_no_request(lab: Lab, file: RemoteFile, index: LocalIndex) -> None:
    get(lab, file)
    get(lab, file)
    assert index.downloads(NAME) == [""]


def test_damaged_file_that_is_there_is_fetched_again(lab: Lab, file: RemoteFile) -> None:
    get(lab, file).write_bytes(b"damaged")
    assert get(lab, file).read_bytes() == CONTENT


def test_cut_connections_go_on_where_they_stopped(
    lab: Lab, file: RemoteFile, index: LocalIndex
) -> None:
    index.cuts, index.cut_after = 6, 100_000  # more cuts than tries: each got further
    assert get(lab, file).read_bytes() == CONTENT
    starts = [int(text[6:-1]) for text in index.downloads(NAME)[1:]]
    assert starts == [100_000 * n for n in range(1, 7)]


def test_part_of_an_earlier_run_is_used(lab: Lab, file: RemoteFile, index: LocalIndex) -> None:
    part_of(lab, CONTENT[:300_000])
    assert get(lab, file).read_bytes() == CONTENT
    assert index.downloads(NAME) == ["bytes=300000-"]


def test_complete_part_needs_no_request(lab: Lab, file: RemoteFile, index: LocalIndex) -> None:
    part_of(lab, CONTENT)
    assert get(lab, file).read_bytes() == CONTENT
    assert index.downloads(NAME) == []


def test_server_that_ignores_ranges_starts_again(
    lab: Lab, file: RemoteFile, index: LocalIndex
) -> None:
    index.ignore_range = True
    part_of(lab, b"x" * 300_000)
    assert get(lab, file).read_bytes() == CONTENT


def test_part_that_is_too_long_starts_again(lab: Lab, file: RemoteFile) -> None:
    part_of(lab, CONTENT + b"more")
    assert get(lab, file).read_bytes() == CONTENT


def test_range_that_the_server_does_not_have_starts_again(
    lab: Lab, file: RemoteFile, index: LocalIndex
) -> None:
    part_of(lab, CONTENT)
    unsized = RemoteFile(file.name, file.url, None, file.sha256)
    assert get(lab, unsized).read_bytes() == CONTENT
    assert index.downloads(NAME) == [f"bytes={len(CONTENT)}-", ""]


def test_server_that_always_cuts_is_given_up(lab: Lab, file: RemoteFile, index: LocalIndex) -> None:
    index.cuts, index.cut_after, index.ignore_range = 1000, 50_000, True
    with pytest.raises(EnvironmentFault, match=f"cannot download {NAME}") as caught:
        get(lab, file)
    assert "goes on where it stopped" in caught.value.remedy
    assert len(index.downloads(NAME)) == module.TRIES + 1
    assert (lab.downloads / f"{NAME}.part").stat().st_size == 50_000


def test_wrong_hash_removes_the_file_and_names_both(
    lab: Lab, file: RemoteFile, index: LocalIndex
) -> None:
    wrong = RemoteFile(file.name, file.url, file.size, "ab" * 32)
    with pytest.raises(EnvironmentFault) as caught:
        get(lab, wrong)
    assert hashlib.sha256(CONTENT).hexdigest() in caught.value.what
    assert "ab" * 32 in caught.value.what
    assert list(lab.downloads.iterdir()) == []


@pytest.mark.parametrize("size", [len(CONTENT) - 1, len(CONTENT) + 1])
def test_wrong_size_is_never_accepted(lab: Lab, file: RemoteFile, size: int) -> None:
    with pytest.raises(EnvironmentFault):
        get(lab, RemoteFile(file.name, file.url, size, file.sha256))
    assert not (lab.downloads / NAME).exists()


def test_missing_file_is_no_reason_to_try_again(
    lab: Lab, file: RemoteFile, index: LocalIndex
) -> None:
    index.status = 404
    with pytest.raises(EnvironmentFault, match="answered 404"):
        get(lab, file)
    assert len(index.downloads(NAME)) == 1


def test_busy_server_is_asked_again(lab: Lab, file: RemoteFile, index: LocalIndex) -> None:
    index.status = 503
    with pytest.raises(EnvironmentFault, match="answered 503"):
        get(lab, file)
    assert len(index.downloads(NAME)) == module.TRIES


def test_server_that_is_away(lab: Lab) -> None:
    file = RemoteFile(NAME, "http://127.0.0.1:9/x", 10, "ab" * 32)
    with pytest.raises(EnvironmentFault, match=f"cannot download {NAME}"):
        get(lab, file)


def test_too_little_space_is_known_before_the_first_byte(
    lab: Lab, file: RemoteFile, index: LocalIndex
) -> None:
    with pytest.raises(EnvironmentFault, match=r"needs about \d+ MB"):
        get(lab, RemoteFile(file.name, file.url, 10**18, file.sha256))
    assert index.downloads(NAME) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_disk_that_fills_up(lab: Lab, file: RemoteFile) -> None:
    lab.downloads.mkdir()
    (lab.downloads / f"{NAME}.part").symlink_to("/dev/full")
    with pytest.raises(EnvironmentFault, match="disk is full"):
        get(lab, file)
