"""One piece to one draft: a mail through git's mailinfo, a plain diff by the text above it.

A transport that turned line ends into CRLF is undone where it did so to every line; a diff whose
own header lines have none keeps its CRs, which then belong to the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from email import message_from_bytes
from email.header import decode_header, make_header
from email.utils import parseaddr
from pathlib import Path

from series.importing.model import Defaults, Draft, Piece
from series.mail import (
    blames_input,
    check_totals,
    list_paths,
    read_date,
    refuse,
    split_mail,
    tidy_message,
)
from upstream.errors import CommandError, UsageError
from upstream.git import Git, Person

_START = re.compile(rb"^(diff --git |Index: |--- \S.*\n\+\+\+ \S)", re.M)
_HUNK = re.compile(rb"^(@@ .*|diff --git .*)$", re.M)
_FIELD = re.compile(r"([A-Za-z][A-Za-z-]*):[ \t]*(.*)")
_COVER = re.compile(r"\[[^\]]*\b0+/\d+\]")
_NEEDED = ("Author", "Email", "Subject")


def split_mailbox(git: Git, path: Path, scratch: Path) -> list[Piece]:
    """The mails of a mailbox as git's mailsplit finds them, numbered from 1."""
    room = scratch / "mails"
    room.mkdir()
    try:
        git.run("mailsplit", "--keep-cr", f"-o{room}", "--", str(path.resolve()))
    except CommandError as error:
        if not blames_input(error):
            raise
        said = error.failure.stderr_tail.strip()
        raise refuse(path, f"is no mailbox for git: {said}") from error
    modified = int(path.stat().st_mtime)
    files = sorted(room.iterdir())
    if not files:
        raise refuse(path, "holds no mail")
    return [
        Piece(f"{path}: mail {number}", "", file.read_bytes(), modified)
        for number, file in enumerate(files, 1)
    ]


def split_file(git: Git, piece: Piece, scratch: Path) -> list[Piece]:
    """The mails of a patch file that holds several; itself when it is one mail or a plain diff."""
    starts = re.findall(rb"^From [0-9a-f]{40} Mon Sep 17 00:00:00 2001\r?$", piece.raw, re.M)
    if len(starts) < 2:
        return [piece]
    box = scratch / "box"
    box.write_bytes(piece.raw)
    room = scratch / "several"
    room.mkdir()
    git.run("mailsplit", "--keep-cr", f"-o{room}", "--", str(box))
    pieces = [
        Piece(f"{piece.origin}: mail {number}", "", file.read_bytes(), piece.modified, piece.strip)
        for number, file in enumerate(sorted(room.iterdir()), 1)
    ]
    for file in room.iterdir():
        file.unlink()
    room.rmdir()
    return pieces


def is_cover_letter(piece: Piece) -> bool:
    """A mail 0/N without a diff."""
    subject = message_from_bytes(piece.raw)["Subject"]
    if subject is None or _START.search(piece.raw):
        return False
    return _COVER.search(str(make_header(decode_header(str(subject))))) is not None


def read_piece(git: Git, piece: Piece, defaults: Defaults, scratch: Path) -> Draft:
    """What a piece says; UsageError names it (in a mailbox by number) and what is wrong."""
    path = Path(piece.origin)
    if not piece.raw.strip():
        raise refuse(path, "the file is empty")
    if is_mail(piece.raw):
        draft = _read_mail(git, piece, defaults, scratch)
    else:
        draft = _read_plain(git, piece, defaults)
    list_paths(git, path, draft.diff, draft.strip)
    return draft


def is_mail(raw: bytes) -> bool:
    """Whether git would take it for a mail: headers From and Subject above everything else."""
    mail = message_from_bytes(raw)
    return raw.startswith(b"From ") or not (mail["From"] is None or mail["Subject"] is None)


def _read_mail(git: Git, piece: Piece, defaults: Defaults, scratch: Path) -> Draft:
    path = Path(piece.origin)
    raw = _undo_transport(piece.raw)
    probe = Path(f"{scratch.name}-piece")
    try:
        info, text, rest = split_mail(git, probe, raw, scratch, _NEEDED)
    except UsageError as error:
        raise refuse(path, error.what.removeprefix(f"{probe}: ")) from error
    diff = _undo_encoding(rest)
    start = _START.search(diff)
    if start is None:
        raise refuse(path, "is a mail without a diff")
    strip = _strip_of(piece, defaults)
    if strip == 1 and diff[start.start() :].startswith(b"diff --git "):
        check_totals(git, path, diff[: start.start()], diff)
    when = read_date(path, info["Date"]) if info.get("Date") else _default_date(piece, defaults)
    author = Person(info["Author"], info["Email"], when)
    message = tidy_message(f"{info['Subject']}\n\n{text}")
    return Draft(piece.origin, piece.stem, author, message, diff, strip)


def _undo_transport(raw: bytes) -> bytes:
    """Headers never end in CR; the body loses one CR a line where every line of it has one."""
    head, blank, body = raw.partition(b"\r\n\r\n")
    if not blank or b"\n\n" in head:
        return raw
    if body.count(b"\n") == body.count(b"\r\n"):
        body = body.replace(b"\r\n", b"\n")
    return head.replace(b"\r\n", b"\n") + b"\n\n" + body


def _undo_encoding(diff: bytes) -> bytes:
    """The same for a body that came as base64 or quoted-printable, or for a plain diff."""
    heads = _HUNK.findall(diff)
    converted = heads and all(head.endswith(b"\r") for head in heads)
    return diff.replace(b"\r\n", b"\n") if converted else diff


def _read_plain(git: Git, piece: Piece, defaults: Defaults) -> Draft:
    path = Path(piece.origin)
    diff = _undo_encoding(piece.raw)
    start = _START.search(diff)
    if start is None:
        raise refuse(path, "is not a patch: no mail header and no diff")
    fields, rest = _read_fields(diff[: start.start()].decode("utf-8", "replace"))
    subject, _, more = fields.get("description", fields.get("subject", "")).partition("\n")
    words = re.sub(r"^\d+[-_. ]+", "", piece.stem.rsplit("/", 1)[-1])
    title = subject.strip() or re.sub(r"[-_ ]+", " ", words).strip() or "imported patch"
    author = _find_author(path, fields, defaults, _plain_date(piece, fields, defaults))
    message = tidy_message(f"{title}\n\n{more}\n\n{rest}")
    return Draft(
        piece.origin, piece.stem, author, message, diff[start.start() :], _strip_of(piece, defaults)
    )


def _read_fields(text: str) -> tuple[Mapping[str, str], str]:
    """The headers above a plain diff (DEP-3, https://dep-team.pages.debian.net/deps/dep3/), by
    their names in small letters, and the text that is none of those we use."""
    fields: dict[str, str] = {}
    rest: list[str] = []
    name = ""
    for line in text.split("\n---", 1)[0].splitlines():
        found = _FIELD.fullmatch(line)
        if found is not None:
            name = found[1].lower()
            fields.setdefault(name, found[2])
            rest += [] if name in _USED else [line]
        elif line.startswith((" ", "\t")) and name in _USED:
            fields[name] += "\n" + ("" if line.strip() == "." else line.strip())
        else:
            name = ""
            rest.append(line)
    return fields, "\n".join(rest)


_USED = ("description", "subject", "author", "from", "last-update", "date")


def _find_author(path: Path, fields: Mapping[str, str], defaults: Defaults, when: str) -> Person:
    name, address = parseaddr(fields.get("author", fields.get("from", "")).split("\n", 1)[0])
    if address:
        return Person(name or address, address, when)
    if defaults.author is None:
        raise UsageError(
            f"{path}: a plain diff names no author, and neither does your git configuration",
            remedy="add --author 'NAME <ADDRESS>', or set git's user.name and user.email",
        )
    return Person(*defaults.author, when)


def _plain_date(piece: Piece, fields: Mapping[str, str], defaults: Defaults) -> str:
    said = fields.get("last-update", "").strip()
    if re.fullmatch(r"\d{4}-\d\d-\d\d", said):
        days = date.fromisoformat(said).toordinal() - date(1970, 1, 1).toordinal()
        return f"{days * 86400} +0000"
    if fields.get("date"):
        return read_date(Path(piece.origin), fields["date"])
    return _default_date(piece, defaults)


def _strip_of(piece: Piece, defaults: Defaults) -> int:
    return defaults.strip if piece.strip is None else piece.strip


def _default_date(piece: Piece, defaults: Defaults) -> str:
    return defaults.date or f"{piece.modified} +0000"
