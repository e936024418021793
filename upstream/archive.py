"""A source package's upstream tree, streamed into git without being unpacked.

Every member passes the standard library's `tarfile.data_filter` (PEP 706) and rules of our own;
nothing of the package is executed or written to disk.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

from upstream.errors import EnvironmentFault
from upstream.git import Git

if TYPE_CHECKING or sys.version_info >= (3, 11, 4):
    import tarfile
else:  # the data filter came with 3.11.4; Debian 12 has 3.11.2
    from backports import tarfile

TREE_PARTS = ("thirdparty", "llama.cpp")
CHUNK = 1 << 20
TAR_BUFFER = 1 << 16  # tarfile copies it again for every member: a large one is slow
UNPACKED_LIMIT = 4_000_000_000  # bytes; a tree has about 150 MB
# What a file system may take for .git: case, trailing dots and blanks, the short name of FAT.
_DOT_GIT = re.compile(r"(\.git|git~1)[ .]*", re.IGNORECASE)
# No blob is like the one before it, so looking for deltas only costs time.
_FAST_IMPORT = (
    *("-c", "core.compression=1", "fast-import"),
    *("--quiet", "--force", "--done", "--depth=0"),
)


def import_tree(git: Git, archive: Path, ref: str) -> str:
    """Store the upstream tree of a tar.gz and return the tree's id.

    `ref` is a throw-away ref that keeps the tree until a commit does. Raises EnvironmentFault for
    a member that has no business in a source package, and then stores nothing under `ref`.
    """
    with _open_archive(archive) as tar, git.feed(*_FAST_IMPORT) as stream:
        writer = _TreeWriter(stream, archive)
        for member in tar:
            writer.add(tar, member)
        writer.finish(ref)
    return git.tree_of(ref)


@contextmanager
def _open_archive(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(archive, "r|gz", bufsize=TAR_BUFFER, encoding="utf-8") as tar:
            yield tar
    except (tarfile.TarError, EOFError) as error:
        raise EnvironmentFault(
            f"{archive.name} is no readable tar.gz: {error}",
            remedy="run the command again; it downloads the package anew",
        ) from error


@dataclass
class _TreeWriter:
    """Feeds checked members to `git fast-import`: blobs at once, the tree at the end."""

    stream: IO[bytes]
    archive: Path
    entries: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    blobs: int = 0
    unpacked: int = 0

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Check one member; store it when it belongs to the tree."""
        parts = self._split(member)
        self.unpacked += member.size
        if self.unpacked > UNPACKED_LIMIT:
            self._refuse(member, f"unpacks to more than {UNPACKED_LIMIT:,} bytes")
        inside = parts[1:3] == TREE_PARTS
        path = "/".join(parts[3:] if inside else parts)
        checked = self._filter(member, path, parts[:3] if inside else ())
        # A submodule's checkout has a file .git that names a folder of the packager's machine.
        if not inside or not path or path == ".git" or checked.isdir():
            return
        self._claim(member, path)
        self.entries[path] = self._store(tar, member, checked)

    def finish(self, ref: str) -> None:
        """Write the tree as a commit on `ref`; nothing before the last line moves a ref."""
        if not self.entries:
            raise EnvironmentFault(
                f"{self.archive.name} holds no {'/'.join(TREE_PARTS)}",
                remedy="choose another version, see: python -m upstream list",
            )
        self.stream.write(b"commit %s\ncommitter a <a> 0 +0000\ndata 0\n" % ref.encode())
        for path, (mode, mark) in self.entries.items():
            self.stream.write(b"M %s :%d %s\n" % (mode, mark, quote_path(path)))
        self.stream.write(b"\ndone\n")

    def _split(self, member: tarfile.TarInfo) -> tuple[str, ...]:
        """The components of a member's name."""
        if member.name.startswith("/"):
            self._refuse(member, "has an absolute name")
        parts = tuple(part for part in member.name.split("/") if part not in ("", "."))
        if ".." in parts:
            self._refuse(member, "names a folder above itself")
        allowed = parts[3:] == (".git",) and parts[1:3] == TREE_PARTS and member.isreg()
        if not allowed and any(_DOT_GIT.fullmatch(part) for part in parts):
            self._refuse(member, "would write into a git repository")
        return parts

    def _filter(self, member: tarfile.TarInfo, path: str, top: tuple[str, ...]) -> tarfile.TarInfo:
        """The member as PEP 706's data filter lets it pass, named from the top of the tree."""
        link = member.linkname
        if member.islnk() and top:
            link = link.removeprefix("/".join(top) + "/")
        try:
            # Nothing lies below a device: no link on this disk plays a part, and it is quick.
            moved = member.replace(name=path or ".", linkname=link, deep=False)
            checked = tarfile.data_filter(moved, os.devnull)
        except tarfile.FilterError as error:
            self._refuse(member, str(error))
        if checked.issym() and goes_up_again(link):
            # Through another link this could leave the tree where the text alone does not.
            self._refuse(member, f"is a link that goes down and up again: {link}")
        # Newer filters tidy link targets; git must get the bytes that upstream has.
        return checked.replace(linkname=link, deep=False)

    def _claim(self, member: tarfile.TarInfo, path: str) -> None:
        """Refuse a path that is there already, or that goes through a file or a link."""
        above = _folders_of(path)
        if path in self.entries or path in self.folders:
            self._refuse(member, "appears twice")
        if any(folder in self.entries for folder in above):
            self._refuse(member, "lies below a file or a link")
        self.folders.update(above)

    def _store(
        self, tar: tarfile.TarFile, member: tarfile.TarInfo, checked: tarfile.TarInfo
    ) -> tuple[bytes, int]:
        """Write the member's bytes as a blob; the result is its mode and mark."""
        if checked.islnk():
            if checked.linkname not in self.entries:
                self._refuse(member, f"is a hard link to {checked.linkname}, which is not there")
            return self.entries[checked.linkname]
        self.blobs += 1
        self.stream.write(b"blob\nmark :%d\n" % self.blobs)
        if checked.issym():
            target = checked.linkname.encode("utf-8", "surrogateescape")
            self.stream.write(b"data %d\n%s\n" % (len(target), target))
            return b"120000", self.blobs
        self._copy(tar, member)
        return b"100755" if checked.mode & 0o100 else b"100644", self.blobs

    def _copy(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        content = tar.extractfile(member)
        assert content is not None
        self.stream.write(b"data %d\n" % member.size)
        while chunk := content.read(CHUNK):
            self.stream.write(chunk)
        self.stream.write(b"\n")

    def _refuse(self, member: tarfile.TarInfo, why: str) -> NoReturn:
        raise EnvironmentFault(
            f"{self.archive.name} is not safe to import: member {member.name!r} {why}",
            remedy="report it to its authors; choose another version or --upstream remote",
        )


def _folders_of(path: str) -> list[str]:
    """Every folder above a path: a/b for a/b/c, then a."""
    found = []
    while "/" in path:
        path = path.rsplit("/", 1)[0]
        found.append(path)
    return found


def goes_up_again(link: str) -> bool:
    """Whether a link's target names a folder and then `..`, as in `../a/../b`."""
    parts = (part for part in link.split("/") if part not in ("", "."))
    return ".." in dropwhile(lambda part: part == "..", parts)


def quote_path(path: str) -> bytes:
    """A path as fast-import reads it: quoted, so that it may hold any byte but NUL."""
    raw = path.encode("utf-8", "surrogateescape")
    return b'"%s"' % raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
