"""Quantised files of one reference, made once and kept in the lab's models."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from upstream.download import hash_file
from upstream.errors import InvalidMeasurement
from upstream.lab import require_space
from upstream.process import Completed
from validate.artifacts import StepBinaries
from validate.quant_evidence.schemes import TARGET, Scheme
from validate.room import Model, Room, last_line

_TENSOR = re.compile(r"\[ *\d+/ *\d+\] +(\S+) +- \[([\d ,]+)\], type = +\w+, (.*)")
_CONVERTED = re.compile(r"converting to (\w+)")
_BITS = re.compile(r"quant size += +[\d.]+ MiB \(([\d.]+) BPW\)")
REMEDY = "look at the model: a file that is cut off cannot be read; fetch it again"


@dataclass(frozen=True)
class Quantised:
    """A scheme's file: the room that holds it, bytes, bits per weight as llama-quantize counts
    them, and how many weights of the matrices have which type.
    """

    scheme: Scheme
    room: Room
    size: int
    bits: float
    census: Mapping[str, int]


def quantise(reference: Room, scheme: Scheme, binaries: StepBinaries) -> Quantised:
    """The scheme's file of the reference, made by that step's llama-quantize when missing.

    Raises InvalidMeasurement when the program fails, EnvironmentFault for a full disk.
    """
    inputs = {
        "check": "quantised file",
        "binaries": binaries.fingerprint(TARGET),
        "model": reference.model.sha256,
        "options": (*scheme.options, scheme.asked),
    }
    path = reference.model.folder
    found, _ = reference.cache.obtain(inputs, lambda: _make(reference, scheme, binaries))
    if not (path / found["name"]).exists():
        reference.cache.path(inputs).unlink(missing_ok=True)
        found, _ = reference.cache.obtain(inputs, lambda: _make(reference, scheme, binaries))
    model = Model(path, found["name"], found["sha256"])
    room = replace(reference, model=model)
    return Quantised(scheme, room, found["size"], found["bits"], found["census"])


def _make(reference: Room, scheme: Scheme, binaries: StepBinaries) -> dict[str, Any]:
    """Write the file under a name that ends in its hash."""
    source = reference.model.folder / reference.model.name
    require_space(reference.lab, source.stat().st_size // 1_000_000, f"a {scheme.name} file")
    half = reference.model.folder / f".{source.name}.{scheme.slug}.{os.getpid()}"
    try:
        done = _run(reference, scheme, binaries, half)
        digest, size = hash_file(half), half.stat().st_size
        stem = re.sub(r"(\.F16-\w+)?\.gguf$", "", source.name)
        name = f"{stem}.{scheme.slug}-{digest[:12]}.gguf"
        half.replace(reference.model.folder / name)
    finally:
        half.unlink(missing_ok=True)
    bits, census = read_census((done.stdout + done.stderr).decode("utf-8", "replace"))
    return {"name": name, "sha256": digest, "size": size, "bits": bits, "census": census}


def _run(reference: Room, scheme: Scheme, binaries: StepBinaries, target: Path) -> Completed:
    names = (reference.model.name, str(target))
    arguments = (*scheme.options, *names, scheme.asked, str(reference.threads))
    done = reference.run_whole(binaries, TARGET, arguments, _is_whole)
    if done.code != 0 or not target.exists():
        said = last_line(done.stdout, done.stderr)
        raise InvalidMeasurement(
            f"{TARGET} {scheme.how} ended with {done.code} and no file: {said}", remedy=REMEDY
        )
    return done


def _is_whole(done: Completed) -> bool:
    return bool(_BITS.search((done.stdout + done.stderr).decode("utf-8", "replace")))


def read_census(said: str) -> tuple[float, dict[str, int]]:
    """Bits per weight and the number of weights by type, as llama-quantize tells them.

    Raises InvalidMeasurement when it converted nothing.
    """
    bits = _BITS.search(said)
    weights: Counter[str] = Counter()
    for _, shape, rest in _TENSOR.findall(said):
        if converted := _CONVERTED.search(rest):
            weights[converted[1]] += math.prod(int(each) for each in shape.split(","))
    if bits is None or not weights:
        raise InvalidMeasurement(f"{TARGET} does not tell which tensors it converted")
    return float(bits[1]), dict(weights.most_common())
