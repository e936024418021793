"""Writing small git objects without starting a process for each.

A loose object is a zlib stream named by the SHA-1 of its content
(https://git-scm.com/book/en/v2/Git-Internals-Git-Objects). A rebase writes a few per patch, and
starting git for each was a third of its time. What git would tidy or refuse is left to git.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

# git trims these from the ends of names (strbuf_addstr_without_crud() in its ident.c).
_ENDS = r"[\x00-\x20.,:;<>\"\\']"
_CRUD = re.compile(rf"^{_ENDS}|{_ENDS}\Z|[<>\n\0]|[\ud800-\udfff]")
_DATE = re.compile(r"(?:0|[1-9]\d*) (?:\+\d{4}|-(?!0000)\d{4})")


def write_object(directory: Path, kind: str, body: bytes) -> str:
    """Store an object in a repository's folder and return its id; harmless when it is there."""
    content = f"{kind} {len(body)}\0".encode() + body
    name = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    path = directory / "objects" / name[:2] / name[2:]
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        _put(path, zlib.compress(content, 1))
    return name


def _put(path: Path, content: bytes) -> None:
    """Write beside and rename, so that a half-written object never has a name."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix="tmp_obj_")
    try:
        with os.fdopen(descriptor, "wb") as sink:
            sink.write(content)
        os.chmod(temporary, 0o444)  # noqa: PTH101
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def commit_body(
    tree: str, parents: Sequence[str], author: str, committer: str, date: str, message: str
) -> bytes | None:
    """The body of a commit, or None where git would tidy something first.

    `author` and `committer` are `Name <address>`, `date` git's raw form.
    """
    plain = all(_is_plain(person) for person in (author, committer))
    if not plain or not _DATE.fullmatch(date) or not _is_message(message):
        return None
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {author} {date}", f"committer {committer} {date}", "", message]
    return "\n".join(lines).encode()


def _is_plain(person: str) -> bool:
    name, bracket, address = person.removesuffix(">").rpartition(" <")
    return bool(bracket) and not any(not part or _CRUD.search(part) for part in (name, address))


def _is_message(message: str) -> bool:
    encodable = not re.search(r"[\0\ud800-\udfff]", message)
    return encodable and message.endswith("\n")
