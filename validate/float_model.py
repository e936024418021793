"""A copy of the model in 32-bit floats, for patches that may change the last bits.

Activations of a quantised model are rounded to 8 bits, so that one last bit in an RMS norm moves
its logits as far as a kernel that is off by 1e-3 does: measured on SmolLM2-135M Q4_1, NMSE 6e-4 and
a mean KL divergence of 3.5e-3, for both. In floats, the KV cache too, it is an NMSE of 3e-13
against 2.6e-6. Quantised kernels do not run here; `divergence` looks at those, coarsely.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from upstream.download import hash_file
from upstream.errors import InvalidMeasurement
from upstream.lab import require_space
from validate.artifacts import StepBinaries
from validate.room import Model, Room, last_line, require_target

TARGET = "llama-quantize"
GROWTH = 10  # a 4-bit file has at least 3.5 bits a weight
Kind = Literal["F32", "F16"]
_MARK = ".F32-"


def is_float(model: Model) -> bool:
    """Whether a model is such a copy in 32 bits."""
    return _MARK in model.name


def cache_type(model: Model) -> str:
    """The type of the KV cache that goes with a model; f16 is what llama.cpp takes by itself."""
    return "f32" if is_float(model) else "f16"


def open_float_room(room: Room, quantizer: StepBinaries, kind: Kind = "F32") -> Room:
    """The same room with the copy, made by the llama-quantize of the base when missing.

    Raises InvalidMeasurement when that program fails.
    """
    require_target(quantizer, TARGET)
    inputs = {
        "check": "float model",
        "binaries": quantizer.fingerprint(TARGET),
        "model": room.model.sha256,
    } | ({} if kind == "F32" else {"kind": kind})
    folder = room.lab.root / "models"
    found, _ = room.cache.obtain(inputs, lambda: _make(room, quantizer, folder, kind))
    if not (folder / found["name"]).exists():
        room.cache.path(inputs).unlink(missing_ok=True)
        found, _ = room.cache.obtain(inputs, lambda: _make(room, quantizer, folder, kind))
    return replace(room, model=Model(folder, found["name"], found["sha256"]))


def _make(room: Room, quantizer: StepBinaries, folder: Path, kind: Kind) -> dict[str, Any]:
    """Write the copy under a name that ends in its hash."""
    source = room.model.folder / room.model.name
    megabytes = GROWTH * source.stat().st_size // 1_000_000
    require_space(room.lab, megabytes, f"a copy of {source.name} in floats")
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / f".{source.name}.{os.getpid()}"
    try:
        _dequantize(room, quantizer, half, kind)
        digest = hash_file(half)
        name = f"{source.name.removesuffix('.gguf')}.{kind}-{digest[:12]}.gguf"
        half.replace(folder / name)
    finally:
        half.unlink(missing_ok=True)
    return {"name": name, "sha256": digest}


def _dequantize(room: Room, quantizer: StepBinaries, target: Path, kind: Kind) -> None:
    arguments = ("--allow-requantize", room.model.name, str(target), kind, str(room.threads))
    done = room.run(quantizer, TARGET, *arguments)
    if done.code != 0 or not target.exists():
        said = last_line(done.stdout, done.stderr)
        raise InvalidMeasurement(f"{TARGET} ended with {done.code} and no copy: {said}")
