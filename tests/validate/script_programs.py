"""Fakes of llama.cpp's programs: Python scripts that stand in for the binaries of a step."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from upstream.lab import Lab
from validate.artifacts import Binary, StepBinaries
from validate.room import Model, Room


def make_step(folder: Path, programs: Mapping[str, str], options: str = "") -> StepBinaries:
    """A step whose programs are the given scripts; `sys` is imported in them.

    `options` are Python's: "-IS" halves the start of those that need no package.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, body in programs.items():
        text = f"#!{sys.executable} {options}\nimport sys\n{dedent(body)}"
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
        files[name] = Binary(hashlib.sha256(text.encode()).hexdigest(), len(text))
    return StepBinaries(folder.name, folder, files, {name: (name,) for name in programs}, ())


def make_room(lab: Lab) -> Room:
    """A room with a model file that only fakes read."""
    folder = lab.root / "models"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(b"GGUF a stand-in")
    return Room(lab, Model(folder, "tiny.gguf", "0" * 64))
