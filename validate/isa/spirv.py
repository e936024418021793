"""Compiling the shaders that are needed, once for each text and set of defines."""

from __future__ import annotations

import hashlib
import logging
import shlex
import struct
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from validate.isa.recording import Bench, Recorded

LOGGER = logging.getLogger("lab")
ANY_CODE = range(-64, 256)
# https://registry.khronos.org/SPIR-V/specs/unified1/SPIRV.html, in words of 32 bits
HEADER_WORDS, SPEC_ID = 5, 1
OP_DECORATE, OP_SPEC_TRUE, OP_SPEC_FALSE, OP_SPEC_CONSTANT = 71, 48, 49, 50


@dataclass(frozen=True)
class Shader:
    """A compiled shader: the digest of its content, or why there is none.

    defaults: the values of its specialization constants when nobody sets them, by id.
    """

    spirv: str
    defaults: Mapping[int, int] = field(default_factory=dict)
    error: str = ""

    def effective(self, spec: Sequence[int]) -> dict[int, int]:
        """The constants that make a difference: those of the shader that are not its defaults."""
        given = {number: value for number, value in enumerate(spec) if number in self.defaults}
        return {number: value for number, value in given.items() if value != self.defaults[number]}


def compile_shaders(bench: Bench, recorded: Recorded, names: Iterable[str]) -> dict[str, Shader]:
    """The compiled shaders of a tree by their source digest; what is there is not made again."""
    sources = {each.shader: each.source for each in recorded.variants}
    wanted = {sources[name]: name for name in names}
    known = bench.shop.look_up(wanted)
    found = {key: _read_shader(document) for key, document in known.items()}
    found = {key: each for key, each in found.items() if _path(bench, each.spirv).is_file()}
    missing = {key: name for key, name in wanted.items() if key not in found}
    if not missing:
        return found
    bench.shop.move(recorded.subtree)
    bench.shop.make("spirv")
    work = partial(_compile, bench, recorded.commands)
    with ThreadPoolExecutor(bench.jobs) as pool:
        made = dict(zip(missing, pool.map(work, missing.items()), strict=True))
    bench.shop.keep({key: _document(each) for key, each in made.items() if each.spirv})
    return found | made


def read_defaults(module: bytes) -> dict[int, int]:
    """The specialization constants of a SPIR-V module and their defaults, 32 bits each."""
    words = struct.unpack(f"<{len(module) // 4}I", module[: len(module) // 4 * 4])
    numbers, values = {}, dict[int, int]()
    at = HEADER_WORDS
    while at < len(words) and (length := words[at] >> 16):
        code, operands = words[at] & 0xFFFF, words[at + 1 : at + length]
        if code == OP_DECORATE and operands[1] == SPEC_ID:
            numbers[operands[0]] = operands[2]
        elif code in (OP_SPEC_TRUE, OP_SPEC_FALSE):
            values[operands[1]] = int(code == OP_SPEC_TRUE)
        elif code == OP_SPEC_CONSTANT:
            values[operands[1]] = operands[2]
        at += length
    return {number: values[target] for target, number in numbers.items() if target in values}


def _read_shader(document: Mapping[str, Any]) -> Shader:
    defaults = {int(number): int(value) for number, value in document["defaults"].items()}
    return Shader(str(document["spirv"]), defaults)


def _document(shader: Shader) -> dict[str, Any]:
    return {"spirv": shader.spirv, "defaults": dict(shader.defaults)}


def _path(bench: Bench, spirv: str) -> Path:
    return bench.shop.folder / "spirv" / f"{spirv}.spv"


def _compile(
    bench: Bench, commands: Mapping[str, tuple[str, ...]], item: tuple[str, str]
) -> Shader:
    key, name = item
    half = bench.shop.folder / "spirv" / f".{key}"
    words = ["glslc", *commands[name], "-o", bench.place.inside(half)]
    inside = bench.place.inside(bench.shop.ggml)
    done = bench.place.run(
        ["sh", "-c", f"cd {shlex.quote(inside)} && exec {shlex.join(words)}"], ok=ANY_CODE
    )
    if done.code != 0 or not half.is_file():
        said = done.stderr.decode("utf-8", "replace").strip()[-500:]
        LOGGER.warning("%s does not compile: %s", name, said)
        return Shader("", error=f"glslc answers {done.code}: {said}")
    module = half.read_bytes()
    spirv = hashlib.sha256(module).hexdigest()
    half.replace(_path(bench, spirv))
    return Shader(spirv, read_defaults(module))
