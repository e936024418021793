"""What a C++ file or a shader is compiled from: itself and all that it includes, as one digest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from validate.isa.compilers import digest

_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">\n]+)[">]', re.MULTILINE)


class Sources:
    """The files of one source tree; conditions around an include are not looked at.

    So a digest may change where the compiled code does not, never the other way round.
    """

    def __init__(self, top: Path, search: Iterable[Path] = ()) -> None:
        self._top = top
        self._search = tuple(search)
        self._texts: dict[Path, str | None] = {}
        self._hashes: dict[Path, str] = {}
        self._includes: dict[Path, tuple[Path, ...]] = {}

    def digest(self, path: Path) -> str:
        """The digest of a file and its closure."""
        closure = sorted(self.closure(path))
        return digest(*(part for each in closure for part in (self._name(each), self._hash(each))))

    def closure(self, path: Path) -> set[Path]:
        """The file and all that it includes from the tree."""
        found, waiting = {path}, [path]
        while waiting:
            new = set(self._included(waiting.pop())) - found
            found |= new
            waiting += new
        return found

    def _included(self, path: Path) -> tuple[Path, ...]:
        if path not in self._includes:
            names = _INCLUDE.findall(self._read(path))
            places = (self._resolve(path, name) for name in names)
            self._includes[path] = tuple(place for place in places if place is not None)
        return self._includes[path]

    def _hash(self, path: Path) -> str:
        if path not in self._hashes:
            self._hashes[path] = digest(self._read(path))
        return self._hashes[path]

    def _resolve(self, here: Path, name: str) -> Path | None:
        for folder in (here.parent, *self._search):
            place = (folder / name).resolve()
            if self._load(place) is not None:
                return place
        return None

    def _read(self, path: Path) -> str:
        return self._load(path) or ""

    def _load(self, path: Path) -> str | None:
        if path not in self._texts:
            self._texts[path] = path.read_text("utf-8", "replace") if path.is_file() else None
        return self._texts[path]

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._root)) if path.is_relative_to(self._root) else path.name

    @cached_property
    def _root(self) -> Path:
        return self._top.resolve()
