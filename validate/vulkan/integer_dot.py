"""Make a device in software report an accelerated integer dot product, so that q8_1 shaders run.

llama.cpp takes these shaders only where the driver calls the packed product of four signed bytes
accelerated. lavapipe has the instruction and says no, so a patch of such a shader would not be run
at all. Its result is an exact integer on every device; what hardware makes of the floats around it
stays unknown, as with all checks in software. integer_dot.c changes that one answer, in the
programs that are started with it and in no other, and counts which pipelines they bind.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from upstream import process
from validate.artifacts import StepBinaries
from validate.room import Room
from validate.vulkan.device import Device, read_path
from validate.vulkan.kit import Kit

LOGGER = logging.getLogger("lab")
SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-std=c11", "-O1", "-shared", "-fPIC")
REPORTED = "integer dot reported as accelerated"
SHIM, COUNTS = "LD_PRELOAD", "LAB_PIPELINES"
_PRODUCT = re.compile(r"(?:mul_mat_vec|matmul)\w*_q8_1")
_COUNT = re.compile(r"^(\d+) (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Watched:
    """A room whose programs write which pipelines they bound, and the file; "" without."""

    room: Room
    log: Path | None = None

    @property
    def bound(self) -> dict[str, int]:
        """How often each pipeline was bound, by the name that upstream gives it."""
        if self.log is None or not self.log.exists():
            return {}
        return count_pipelines(self.log.read_text("utf-8", "replace"))


def report_integer_dot(
    room: Room, binaries: StepBinaries, kit: Kit, found: Device, compiler: Path
) -> Device | None:
    """The same device in software, its integer dot product reported as accelerated.

    None where the backend does not take it: a driver without the extension, or a backend that does
    not say which paths are live.
    """
    shim = build_shim(kit, compiler)
    # Upstream names its pipelines only for debuggers.
    names = {SHIM: os.fspath(shim), "GGML_VK_DEBUG_MARKERS": "1"}
    launch = replace(found.launch, variables={**found.launch.variables, **names})
    path = read_path(room, binaries, launch, found.name)
    there = replace(launch, identity="\n".join((launch.identity, shim.name, path)))
    reported = replace(found, launch=there, path=path, reported=REPORTED)
    if path and reported.integer_dot:
        return reported
    LOGGER.warning("%s: no integer dot product there: %s", found.description, path or "not said")
    return None


def build_shim(kit: Kit, compiler: Path) -> Path:
    """The library to start programs with, made when missing, for this machine's C library."""
    folder = kit.glslc.parent
    key = "\n".join((SOURCE.read_text(), kit.identity, os.fspath(compiler), *FLAGS))
    shim = folder / f"integer_dot-{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"
    if not shim.is_file():
        half = shim.with_name(f".{shim.name}.{os.getpid()}")
        process.run((compiler, *FLAGS, "-I", kit.headers, SOURCE, "-o", half, "-ldl"))
        half.replace(shim)
    return shim


@contextmanager
def watch_pipelines(room: Room) -> Iterator[Watched]:
    """The room to run programs in; they are watched where they are started with the library."""
    if SHIM not in room.launch.variables:
        yield Watched(room)
        return
    with tempfile.TemporaryDirectory(dir=room.lab.scratch) as folder:
        log = Path(folder, "pipelines")
        variables = {**room.launch.variables, COUNTS: os.fspath(log)}
        yield Watched(replace(room, launch=replace(room.launch, variables=variables)), log)


def count_pipelines(log: str) -> dict[str, int]:
    """`12 mul_mat_vec_q4_0_q8_1_f32` for each pipeline and process, added up."""
    counts: Counter[str] = Counter()
    for number, name in _COUNT.findall(log):
        counts[name] += int(number)
    return dict(counts)


def take_quantised(bound: Mapping[str, int]) -> dict[str, int]:
    """The pipelines that multiply by q8_1 activations, not the one that makes these."""
    return {name: number for name, number in sorted(bound.items()) if _PRODUCT.match(name)}
