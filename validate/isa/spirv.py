"""Compiling the shaders that are needed, once for each text and set of defines."""

from __future__ import annotations

import hashlib
import logging
import re
import shlex
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from validate.isa.compilers import digest
from validate.isa.recording import Bench, Recorded
from validate.isa.workshop import Yard

LOGGER = logging.getLogger("lab")
ANY_CODE = range(-64, 256)
CHUNK = 24  # shaders a process
_MARKED = re.compile(r"LAB_FROM _(?P<key>\S+)(?P<text>.*?)LAB_TO _(?P=key)", re.DOTALL)
_VERSION = re.compile(r"(?:\s|//.*\n|/\*(?s:.*?)\*/)*#\s*version\b.*\n")
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


@dataclass(frozen=True)
class Task:
    """A shader to compile: the digest of its sources, its name, and glslc's arguments."""

    key: str
    name: str
    words: tuple[str, ...]

    @property
    def file(self) -> str:
        """Below `ggml`."""
        (file,) = (word for word in self.words if word.endswith(".comp"))
        return file

    @property
    def defines(self) -> list[str]:
        return [word for word in self.words if word.startswith("-D")]

    @property
    def options(self) -> tuple[str, ...]:
        """All that is neither."""
        return tuple(word for word in self.words if word not in {self.file, *self.defines})


@dataclass(frozen=True)
class Chunk:
    """Shaders of one tree with the same options."""

    subtree: str
    options: tuple[str, ...]
    tasks: Sequence[Task]


def compile_shaders(bench: Bench, wanted: Iterable[tuple[Recorded, str]]) -> dict[str, Shader]:
    """The compiled shaders of trees by their source digest; what is there is not made again."""
    shop = bench.shop
    places = {tree.sources[name]: (tree, name) for tree, name in wanted}
    known = shop.look_up(places)
    found = {key: _read_shader(document) for key, document in known.items()}
    found = {key: each for key, each in found.items() if _path(bench, each.spirv).is_file()}
    missing = {key: place for key, place in places.items() if key not in found}
    shop.make("spirv")
    return found | _compile_missing(bench, missing)


def _compile_missing(
    bench: Bench, missing: Mapping[str, tuple[Recorded, str]]
) -> dict[str, Shader]:
    """A header that all shaders include changes few of them: the same text is compiled once."""
    texts: dict[str, str] = {}
    for read in bench.shop.share_out(partial(_read_texts, bench), _chunk(missing)):
        texts |= read
    known = {key: _read_shader(each) for key, each in bench.shop.look_up(texts.values()).items()}
    known = {key: each for key, each in known.items() if _path(bench, each.spirv).is_file()}
    first: dict[str, str] = {}
    for key in missing:
        first.setdefault(texts.get(key, key), key)
    chosen = {key: missing[key] for text, key in first.items() if text not in known}
    for made in bench.shop.share_out(partial(_compile_chunk, bench), _chunk(chosen)):
        known |= {texts.get(key, key): each for key, each in made.items()}
    found = {key: known[texts.get(key, key)] for key in missing}
    kept = {key: _document(each) for key, each in (known | found).items() if each.spirv}
    bench.shop.keep(kept)
    return found


def _chunk(missing: Mapping[str, tuple[Recorded, str]]) -> Iterator[Chunk]:
    """Shaders of one tree with the same options, so many for each start of the compiler."""
    groups: defaultdict[tuple[str, tuple[str, ...]], list[Task]] = defaultdict(list)
    for key, (tree, name) in missing.items():
        task = Task(key, name, tree.commands[name])
        groups[tree.subtree, task.options].append(task)
    for (subtree, options), tasks in groups.items():
        for start in range(0, len(tasks), CHUNK):
            yield Chunk(subtree, options, tasks[start : start + CHUNK])


def _compile_chunk(bench: Bench, chunk: Chunk) -> dict[str, Shader]:
    made = {}
    with bench.shop.yard(chunk.subtree) as yard:
        halves = _compile_together(bench, yard, chunk)
        for task in chunk.tasks:
            half = halves.get(task.key)
            if half is not None and half.is_file():
                made[task.key] = _keep(bench, half)
            else:
                made[task.key] = _compile_alone(bench, yard, task)
    return made


def _compile_together(bench: Bench, yard: Yard, chunk: Chunk) -> dict[str, Path]:
    """One process for all: what it sets up for itself takes longer than most shaders. Each is a
    copy that begins with its defines, as glslc has one set of them. What fails leaves no file.
    """
    out = bench.shop.make(f"spirv/{yard.work.name}")
    with _copied(yard, chunk) as copies:
        _run_glslc(bench, out, [*chunk.options, "-c"], copies.values())
    return {key: out / f"{copy.name}.spv" for key, copy in copies.items()}


def _read_texts(bench: Bench, chunk: Chunk) -> dict[str, str]:
    """What stands for the preprocessed text and the options of each shader, by key; a shader that
    the preprocessor does not like is missing.
    """
    with bench.shop.yard(chunk.subtree) as yard, _copied(yard, chunk, marked=True) as copies:
        said = _run_glslc(bench, bench.shop.folder, [*chunk.options, "-E"], copies.values())
    parts = ((found["key"], _without_lines(found["text"])) for found in _MARKED.finditer(said))
    return {key: digest("text", bench.glslc, *chunk.options, text) for key, text in parts}


def _without_lines(text: str) -> str:
    """Files and lines are no part of a module: nothing is compiled with -g."""
    lines = text.split("\n")
    return "\n".join(line for line in lines if line.strip() and not line.startswith("#line"))


@contextmanager
def _copied(yard: Yard, chunk: Chunk, *, marked: bool = False) -> Iterator[dict[str, Path]]:
    """Copies with their defines, beside the shaders while the block runs; marked: between words
    that tell them apart.
    """
    copies = {}
    try:
        for task in chunk.tasks:
            shader = yard.ggml / task.file
            text = define(shader, task.defines)
            if text is None:
                continue
            copies[task.key] = shader.with_name(f"lab-{task.key}.comp")
            if marked:
                version = text[: text.index("\n", text.index("version"))].split("version")[1]
                # A word that starts with a digit would be taken apart as a number.
                head = f"LAB_FROM _{task.key} {version}\n"
                text = text.replace("#line", f"{head}#line", 1) + f"\nLAB_TO _{task.key}\n"
            copies[task.key].write_text(text, "utf-8")
        yield copies
    finally:
        for copy in copies.values():
            copy.unlink(missing_ok=True)


def _run_glslc(bench: Bench, folder: Path, options: Sequence[str], files: Iterable[Path]) -> str:
    inside = [bench.place.inside(file) for file in files]
    if not inside:
        return ""
    words = shlex.join(["glslc", *options, *inside])
    shell = f"cd {shlex.quote(bench.place.inside(folder))} && exec {words}"
    return bench.place.run(["sh", "-c", shell], ok=ANY_CODE).text


def define(shader: Path, words: Iterable[str]) -> str | None:
    """The text of a shader with `-D` words as lines after #version; None where it lacks that line.

    The lines keep their numbers.
    """
    text = shader.read_text("utf-8")
    version = _VERSION.match(text)
    if version is None:
        return None
    lines = "".join(f"#define {word[2:].replace('=', ' ', 1)}\n" for word in words)
    return f"{version[0]}{lines}#line {version[0].count(chr(10)) + 1}\n{text[version.end() :]}"


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


def _compile_alone(bench: Bench, yard: Yard, task: Task) -> Shader:
    half = bench.shop.folder / "spirv" / f".{task.key}"
    words = ["glslc", *task.words, "-o", bench.place.inside(half)]
    inside = bench.place.inside(yard.ggml)
    done = bench.place.run(
        ["sh", "-c", f"cd {shlex.quote(inside)} && exec {shlex.join(words)}"], ok=ANY_CODE
    )
    if done.code != 0 or not half.is_file():
        said = done.stderr.decode("utf-8", "replace").strip()[-500:]
        LOGGER.warning("%s does not compile: %s", task.name, said)
        return Shader("", error=f"glslc answers {done.code}: {said}")
    return _keep(bench, half)


def _keep(bench: Bench, half: Path) -> Shader:
    module = half.read_bytes()
    spirv = hashlib.sha256(module).hexdigest()
    half.replace(_path(bench, spirv))
    return Shader(spirv, read_defaults(module))
