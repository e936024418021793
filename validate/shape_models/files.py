"""Read the head of a GGUF file: metadata and where the tensors are.

gguf.GGUFReader takes 10 s and 700 MB for a vocabulary of 248,320 tokens, as it makes an array of
every text; this takes 0.3 s. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gguf import GGML_QUANT_SIZES, GGUF_MAGIC, GGMLQuantizationType, GGUFValueType

from upstream.errors import UsageError
from validate.shape_models.tensors import Entry

MAGIC = GGUF_MAGIC.to_bytes(4, "little")
VERSIONS = (2, 3)
ALIGNMENT = 32  # of tensors, unless the file says another
ALIGNMENT_KEY = "general.alignment"
_T = GGUFValueType
FORMS = {
    _T.UINT8: "B", _T.INT8: "b", _T.UINT16: "H", _T.INT16: "h", _T.UINT32: "I", _T.INT32: "i",
    _T.FLOAT32: "f", _T.UINT64: "Q", _T.INT64: "q", _T.FLOAT64: "d", _T.BOOL: "?",
}  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """A tensor in a file: its shape (a row's length first), type, and first byte in the file."""

    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    begin: int

    @property
    def size(self) -> int:
        """Bytes of its data."""
        elements, size = GGML_QUANT_SIZES[self.kind]
        return math.prod(self.shape) // elements * size


@dataclass(frozen=True)
class Head:
    """What stands before the data of a GGUF file, which begins at byte `data`."""

    path: Path
    entries: Mapping[str, Entry]
    tensors: Mapping[str, Stored]
    data: int

    def text(self, key: str) -> str | None:
        """A text; None when it is not there."""
        entry = self.entries.get(key)
        return None if entry is None else str(entry.value)

    def number(self, key: str) -> int:
        """A whole number. Raises UsageError when it is not there."""
        entry = self.entries.get(key)
        if entry is None or not isinstance(entry.value, int):
            raise UsageError(f"{self.path} has no number {key}", remedy="name a language model")
        return entry.value


def read_head(path: Path) -> Head:
    """The head of a GGUF file.

    Raises UsageError when it cannot be read, is no GGUF file or is cut short.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
            if magic != MAGIC:
                raise UsageError(
                    f"{path} is no GGUF file: it begins with {magic!r}", remedy="name a .gguf file"
                )
            with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
                return _read(path, _Cursor(data, len(MAGIC)))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", remedy="name a .gguf file"
        ) from error
    except (struct.error, ValueError, KeyError) as error:
        raise UsageError(
            f"{path} is cut short or broken: {error}", remedy="write or fetch it again"
        ) from error


class _Cursor:
    """Reads values one after another."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self.data, self.at = data, at

    def numbers(self, form: str, count: int = 1) -> tuple[int, ...]:
        layout = struct.Struct(f"<{count}{form}")
        found = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return found

    def text(self) -> str:
        (length,) = self.numbers("Q")
        raw = self.data[self.at : self.at + length]
        if len(raw) != length:
            raise ValueError("a text ends beyond the file")
        self.at += length
        return raw.decode("utf-8", "surrogateescape")

    def place(self) -> Stored:
        """A tensor; `begin` is counted from where the data begins."""
        shape = self.numbers("Q", *self.numbers("I"))
        (kind,), (offset,) = self.numbers("I"), self.numbers("Q")
        return Stored(shape, GGMLQuantizationType(kind), offset)

    def entry(self) -> Entry:
        kind = _T(self.numbers("I")[0])
        if kind is not _T.ARRAY:
            return Entry(self.text() if kind is _T.STRING else self.numbers(FORMS[kind])[0], kind)
        item = _T(self.numbers("I")[0])
        (count,) = self.numbers("Q")
        if item is _T.STRING:
            return Entry([self.text() for _ in range(count)], kind, item)
        return Entry(list(self.numbers(FORMS[item], count)), kind, item)


def _read(path: Path, cursor: _Cursor) -> Head:
    (version,) = cursor.numbers("I")
    if version not in VERSIONS:
        raise ValueError(f"version {version} is not known")
    n_tensors, n_entries = cursor.numbers("Q", 2)
    entries = {cursor.text(): cursor.entry() for _ in range(n_entries)}
    places = {cursor.text(): cursor.place() for _ in range(n_tensors)}
    alignment = entries[ALIGNMENT_KEY].value if ALIGNMENT_KEY in entries else ALIGNMENT
    assert isinstance(alignment, int)
    begin = -(-cursor.at // alignment) * alignment
    tensors = {name: replace(each, begin=begin + each.begin) for name, each in places.items()}
    return Head(path, entries, tensors, begin)
