"""Files from the package index: streamed, resumed where they were cut, checked, then renamed."""

from __future__ import annotations

import errno
import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
import urllib3

from upstream.errors import EnvironmentFault
from upstream.lab import Lab, require_space
from upstream.progress import Meter, show_progress

LOGGER = logging.getLogger("lab")
CHUNK = 1 << 18
TIME_LIMITS = (10.0, 60.0)  # seconds to connect, seconds without a byte
TRIES = 4  # in a row, without getting any further
PAUSE = 0.5  # seconds before the second try, doubled for each later one
UNKNOWN_SIZE = 100_000_000  # bytes to keep free where the index gives no size
CUT = (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError)
BUSY = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class RemoteFile:
    """A file as the index describes it: size in bytes (None: not said) and sha256 in hex."""

    name: str
    url: str
    size: int | None
    sha256: str


class _CutError(Exception):
    """The connection ended before the file did; going on where it stopped may help."""


def download(lab: Lab, file: RemoteFile, session: requests.Session) -> Path:
    """The file below the lab's downloads folder, complete and with the right sha256.

    What is already there, whole or in part, also from a killed run, is used. Raises
    EnvironmentFault for a full disk, a server that does not deliver, a wrong hash.
    """
    target = lab.downloads / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and hash_file(target) == file.sha256:
        return target
    part = target.with_name(f"{file.name}.part")
    missing = (file.size or UNKNOWN_SIZE) - _size(part)
    require_space(lab, max(missing, 0) // 1_000_000 + 1, f"downloading {file.name}")
    try:
        with _explain_full_disk(file):
            _fill(part, file, session)
    except requests.RequestException as error:
        raise EnvironmentFault(f"cannot download {file.name}: {error}") from error
    _check(part, file)
    part.replace(target)
    return target


def hash_file(path: Path) -> str:
    """The sha256 of a file in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _fill(part: Path, file: RemoteFile, session: requests.Session) -> None:
    """Get bytes until the file is complete; stop after TRIES in a row that got no further."""
    furthest, failures = _size(part), 0
    with show_progress(f"downloading {file.name}", file.size or 0) as meter:
        while file.size is None or _size(part) != file.size:
            try:
                _get_rest(part, file, session, meter)
            except _CutError as error:
                failures = 0 if _size(part) > furthest else failures + 1
                furthest = max(furthest, _size(part))
                _pause_or_give_up(file, failures, error)
            else:
                return


def _pause_or_give_up(file: RemoteFile, failures: int, error: Exception) -> None:
    if failures >= TRIES:
        raise EnvironmentFault(
            f"cannot download {file.name}: {error}",
            remedy="check the network, then run the same command; it goes on where it stopped",
        ) from error
    LOGGER.debug("download of %s was cut (%s); going on", file.name, error)
    time.sleep(PAUSE * 2 ** max(failures - 1, 0))


def _get_rest(part: Path, file: RemoteFile, session: requests.Session, meter: Meter) -> None:
    """One request for what is missing; _CutError when it ended early."""
    have = _size(part)
    if file.size is not None and have > file.size:
        have = 0
    # Not compressed once more on the way: offsets and the hash are those of the file itself.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with session.get(file.url, headers=headers, stream=True, timeout=TIME_LIMITS) as answer:
            start = _start_of(answer, have, part, file)
            _write_body(answer, part, start, file.size, meter)
    except CUT as error:
        raise _CutError(str(error)) from error
    if file.size is not None and _size(part) < file.size:
        raise _CutError(f"the server sent {_size(part):,} of {file.size:,} bytes")


def _start_of(answer: requests.Response, have: int, part: Path, file: RemoteFile) -> int:
    """Where in the file the body of an answer starts; a server may ignore the range asked for."""
    if answer.status_code in BUSY:
        raise _CutError(f"the server answered {answer.status_code}")
    if not answer.ok and answer.status_code != 416:
        raise EnvironmentFault(
            f"cannot download {file.name}: the server answered {answer.status_code}",
            remedy="run: python -m upstream list, and choose a version that is there",
        )
    if answer.status_code == 200:
        return 0
    if answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        return have
    part.unlink(missing_ok=True)
    raise _CutError(f"the server has no bytes after {have:,}; starting again")


def _write_body(
    answer: requests.Response, part: Path, start: int, size: int | None, meter: Meter
) -> None:
    """Write the body of an answer: after what is there, or (`start` 0) in place of it."""
    with part.open("ab" if start else "wb") as sink:
        # The body as it was sent: a file that ends in .gz must not be unpacked on the way.
        for chunk in answer.raw.stream(CHUNK, decode_content=False):
            sink.write(chunk)
            meter.update(sink.tell(), size or sink.tell())
            if size is not None and sink.tell() > size:
                return


def _check(part: Path, file: RemoteFile) -> None:
    """Compare size and hash with the index; a wrong file is removed."""
    found, size = hash_file(part), _size(part)
    if found == file.sha256 and file.size in (None, size):
        return
    part.unlink()
    raise EnvironmentFault(
        f"{file.name} is not the file that the index describes: "
        f"sha256 {found} ({size:,} bytes), expected {file.sha256}",
        remedy="run the command again; if it stays so, the index or a proxy changes the file",
    )


@contextmanager
def _explain_full_disk(file: RemoteFile) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise EnvironmentFault(
            f"the disk is full: {file.name} does not fit",
            remedy="free some space or set LAB_DIR to a larger disk; the download goes on then",
        ) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
