"""Patches in files: a folder of them, or a quilt series.

Nothing outside the folder is read: a series file may be hostile, and so may a symlink.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from series.importing.model import Piece
from upstream.errors import UsageError

PATCHES = (".patch", ".diff", ".eml")
MAILBOXES = (".mbox", ".mbx")
PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz")
_QUILT_STRIP = re.compile(r"-p(\d|ab)")


@dataclass(frozen=True)
class Found:
    """What a folder holds: the pieces in order, remarks on what was left out."""

    pieces: tuple[Piece, ...]
    remarks: tuple[str, ...]


def read_folder(folder: Path) -> Found:
    """Every patch file of a folder by name (numbers count as numbers); folders in it are left."""
    files = sorted((p for p in folder.iterdir() if not p.is_dir()), key=_natural)
    boxes = [path.name for path in files if path.suffix in MAILBOXES]
    patches = [path for path in files if path.suffix in PATCHES]
    if boxes and patches:
        raise UsageError(
            f"{folder} holds patch files and mailboxes ({', '.join(boxes)}): unknown order",
            remedy="import one of them: name the mailbox, or move it out of the folder",
        )
    if not patches:
        raise _refuse_empty(folder, boxes)
    others = [path.name for path in files if path not in patches]
    remarks = [f"left out, no patch by its name: {name}" for name in others]
    pieces = tuple(_read_piece(folder, path, path.name, None) for path in patches)
    return Found(pieces, tuple(remarks))


def read_quilt(folder: Path) -> Found:
    """The patches that the file `series` lists, in its order, with their -p options."""
    entries = _parse_series(folder)
    names = [name for name, _ in entries]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise UsageError(f"{folder / 'series'} lists {doubled} twice", remedy="list it once")
    listed = {(folder / name).resolve() for name in names}
    pieces = [_read_piece(folder, folder / name, name, strip) for name, strip in entries]
    unlisted = [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"), key=_natural)
        if path.suffix in PATCHES and path.resolve() not in listed
    ]
    return Found(tuple(pieces), tuple(f"left out, not in series: {name}" for name in unlisted))


def read_listed(folder: Path, names: Sequence[str]) -> Found:
    """Patch files of a folder in a given order."""
    return Found(tuple(_read_piece(folder, folder / name, name, None) for name in names), ())


def find_quilt(folder: Path) -> Path | None:
    """The quilt series of a source tree, where a folder holds none itself."""
    places = (folder / "patches", folder / "debian" / "patches")
    return next((place for place in places if (place / "series").is_file()), None)


def _parse_series(folder: Path) -> list[tuple[str, int]]:
    path = folder / "series"
    _check_inside(folder, path, "series")
    entries = []
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        words = re.sub(r"(^|\s)#.*", "", line).split()
        if words:
            entries.append((words[0], _read_options(f"{path}, line {number}", words[1:])))
    if not entries:
        raise UsageError(f"{path} lists no patch", remedy="name another folder")
    return entries


def _read_options(where: str, words: list[str]) -> int:
    """The strip level of a line; quilt's default is 1, and `ab` names its a/ and b/ prefixes."""
    strip = 1
    for word in words:
        found = _QUILT_STRIP.fullmatch(word)
        if found is None:
            raise UsageError(
                f"{where}: the option {word} is not supported (a reversed patch is not carried)",
                remedy="write the patch the other way round, then import again",
            )
        strip = 1 if found[1] == "ab" else int(found[1])
    return strip


def _read_piece(folder: Path, path: Path, name: str, strip: int | None) -> Piece:
    _check_inside(folder, path, name)
    if path.suffix in PACKED:
        raise UsageError(f"{path} is compressed", remedy=f"unpack it, then import {folder} again")
    if not path.is_file():
        raise UsageError(
            f"{path} does not exist or is no file", remedy=f"mend {folder}, then import it again"
        )
    stem = re.sub(r"\.(patch|diff|eml)$", "", name)
    return Piece(str(path), stem, path.read_bytes(), int(path.stat().st_mtime), strip)


def _check_inside(folder: Path, path: Path, name: str) -> None:
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"{folder}: {name!r} leads outside the folder, to {path.resolve()}",
            remedy="copy the file into the folder, then import again",
        )


def _natural(path: Path) -> list[tuple[bool, int, str]]:
    """2-x before 10-x, as the person who numbered them meant it."""
    parts = re.split(r"(\d+)", path.name)
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _refuse_empty(folder: Path, boxes: list[str]) -> UsageError:
    if boxes:
        return UsageError(
            f"{folder} holds mailboxes, no patch files",
            remedy=f"name one: nox -s import -- {folder / boxes[0]}",
        )
    quilt = find_quilt(folder)
    if quilt is not None:
        return UsageError(
            f"{folder} is a source tree", remedy=f"its patches: nox -s import -- {quilt}"
        )
    kinds = ", ".join(f"*{suffix}" for suffix in PATCHES)
    return UsageError(
        f"{folder} holds no patch ({kinds}) and no quilt series",
        remedy="name the folder that holds them (folders in it are not searched)",
    )
