"""Reading GGUF files: their metadata, typed errors for what is none."""

from __future__ import annotations

from pathlib import Path

from gguf import GGUFReader

from upstream.errors import UsageError
from validate.models import GGUF_MAGIC
from validate.shape_models.tensors import Entry


def open_reader(path: Path) -> GGUFReader:
    """A reader of a GGUF file; tensors are mapped, not read.

    Raises UsageError when it cannot be read, is no GGUF file or is cut short.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
        if magic != GGUF_MAGIC:
            raise UsageError(
                f"{path} is no GGUF file: it begins with {magic!r}", remedy="name a .gguf file"
            )
        return GGUFReader(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", remedy="name a .gguf file"
        ) from error
    except (ValueError, IndexError) as error:
        raise UsageError(
            f"{path} is cut short or broken: {error}", remedy="write or fetch it again"
        ) from error


def read_entries(reader: GGUFReader, prefix: str) -> dict[str, Entry]:
    """The metadata whose keys begin like this."""
    return {
        key: Entry(found.contents(), found.types[0], found.types[-1] if found.types[1:] else None)
        for key, found in reader.fields.items()
        if key.startswith(prefix)
    }


def read_text(reader: GGUFReader, key: str) -> str | None:
    """A text of the metadata; None when it is not there."""
    field = reader.fields.get(key)
    return None if field is None else str(field.contents())


def read_number(reader: GGUFReader, key: str) -> int:
    """A whole number of the metadata. Raises UsageError when it is not there."""
    field = reader.fields.get(key)
    value = None if field is None else field.contents()
    if not isinstance(value, int):
        raise UsageError(f"the file has no number {key}", remedy="name a model of llama.cpp")
    return value
