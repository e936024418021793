"""What SOURCE on the command line is, and every patch it holds as a draft."""

from __future__ import annotations

from email.utils import parseaddr
from pathlib import Path

from series.importing.folder import Found, find_quilt, read_folder, read_listed, read_quilt
from series.importing.history import read_range
from series.importing.mails import is_cover_letter, read_piece, split_file, split_mailbox
from series.importing.model import Defaults, Draft, Intake, Kind, Piece
from series.manifest import load_series
from upstream.errors import UsageError
from upstream.git import Git
from upstream.git_settings import network_environment


def read_source(
    git: Git, source: str, repository: Path | None, defaults: Defaults, scratch: Path
) -> Intake:
    """All drafts of a folder, a mailbox, a quilt series, another series directory or a range."""
    if repository is not None:
        return read_range(repository, source, scratch)
    path = Path(source)
    if path.is_dir():
        kind, found = _read_directory(path)
        pieces = [each for piece in found.pieces for each in split_file(git, piece, scratch)]
        return _read_pieces(git, kind, pieces, found.remarks, defaults, scratch)
    if path.is_file():
        pieces = _read_file(git, path, scratch)
        return _read_pieces(git, "mbox", pieces, (), defaults, scratch)
    folder, colon, span = source.rpartition(":")
    if colon and ".." in span:
        return read_range(Path(folder), span, scratch)
    raise UsageError(
        f"there is no {source}",
        remedy="name a folder of patches, a mailbox, a quilt series' folder, or PATH:A..B",
    )


def guess_name(source: str, repository: Path | None) -> str:
    """What a topic could be called: after the folder, the file or the repository."""
    path = Path(source) if repository is None else repository
    if not path.exists():
        path = Path(source.rpartition(":")[0])
    path = path.resolve()
    while path.name in ("patches", "debian") and path.parent.name:
        path = path.parent
    return path.name.removesuffix(".git").removesuffix(path.suffix if path.is_file() else "")


def find_author(git: Git, text: str | None) -> tuple[str, str] | None:
    """The author of patches that name none: --author, else the user's git identity."""
    if text is None:
        name, address = (_ask_config(git, key) for key in ("user.name", "user.email"))
        return (name, address) if name and address else None
    name, address = parseaddr(text)
    if not name or "@" not in address:
        raise UsageError(f"'{text}' is no author", remedy="write --author 'NAME <ADDRESS>'")
    return name, address


def _ask_config(git: Git, key: str) -> str:
    return git.run("config", "--get", key, env=network_environment(), ok=(0, 1)).text.strip()


def _read_directory(path: Path) -> tuple[Kind, Found]:
    if (path / "series").is_file():
        return "quilt", read_quilt(path)
    if (path / "series.toml").is_file():
        listed = [patch for _, patch in load_series(path).order()]
        return "folder", read_listed(path / "patches", listed)
    if (path / ".git").exists() and find_quilt(path) is None:
        raise UsageError(
            f"{path} is a git checkout", remedy=f"name a range of it: nox -s import -- {path}:A..B"
        )
    return "folder", read_folder(path)


def _read_file(git: Git, path: Path, scratch: Path) -> list[Piece]:
    raw = path.read_bytes()
    if not raw.strip():
        raise UsageError(f"{path} is empty", remedy="name another file")
    if raw.startswith(b"From "):
        return split_mailbox(git, path, scratch)
    return [Piece(str(path), path.stem, raw, int(path.stat().st_mtime))]


def _read_pieces(
    git: Git,
    kind: Kind,
    pieces: list[Piece],
    remarks: tuple[str, ...],
    defaults: Defaults,
    scratch: Path,
) -> Intake:
    drafts: list[Draft] = []
    for piece in pieces:
        if is_cover_letter(piece):
            remarks = (*remarks, f"left out, a cover letter: {piece.origin}")
        else:
            drafts.append(read_piece(git, piece, defaults, scratch))
    if not drafts:
        raise UsageError("the source holds no patch", remedy="name another source")
    return Intake(kind, tuple(drafts), remarks)
