"""The pipelines that the host makes: which SPIR-V, how many bytes of push constants.

A pipeline whose shader reads more bytes than the host announces runs with garbage and says nothing
(llama.cpp issue 18634: text generation 75 % slower).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from validate.ledger.generator import Build, Generator
from validate.ledger.macros import expand
from validate.ledger.model import Block, Layout, Pipeline, Struct
from validate.ledger.push import TYPES, read_blocks
from validate.ledger.shaders import Shaders
from validate.ledger.text import close_of, normalise, split_arguments, strip_comments

_CALL = re.compile(r"\b(?:\w*create\w*)\s*\(")
_DATA = re.compile(r"\b(\w+)_data\b")
_SET = re.compile(r"\b(\w+)\s*=(?!=)\s*([^;={}]*\b\w+_data\b[^;{}]*);")
_SIZEOF = re.compile(r"sizeof\s*\(\s*([\w:]+)\s*\)")
Chosen = dict[str, list[str]]
CREATES = ("ggml_vk_create_pipeline", "ggml_vk_create_pipeline2")


@dataclass(frozen=True)
class Call:
    """One call that names SPIR-V and bytes. `constants`: -1 where the list is no literal."""

    spirv: str
    announced: str
    constants: int


def find_calls(text: str) -> Iterator[Call]:
    """The calls in host code, macros expanded. A call without `sizeof` announces ""."""
    return _find_calls(expand(strip_comments(text)))


def _find_calls(code: str) -> Iterator[Call]:
    chosen: Chosen = {}
    at = 0
    for match in _CALL.finditer(code):
        name = code[match.start() : match.end() - 1].strip()
        inside = code[match.end() : close_of(code, match.end() - 1) - 1]
        if ("_data" not in inside and name not in CREATES) or ("{" in inside and ";" in inside):
            continue
        chosen |= _choices(code[at : match.start()])
        at = match.end()
        yield from _read_call(name, split_arguments(inside), chosen)


def _choices(code: str) -> Chosen:
    """Variables that are set to SPIR-V, e.g. `spv_data = aligned ? a_data : b_data;`."""
    found: Chosen = {}
    for name, value in _SET.findall(code):
        found.setdefault(name, []).extend(_DATA.findall(value))
    return found


def _read_call(name: str, arguments: Sequence[str], chosen: Chosen) -> Iterator[Call]:
    places = [a for a in arguments if a in chosen or _DATA.search(a)]
    sizes = [n for n in range(1, len(arguments)) if "sizeof" in arguments[n]]
    if not places or " spv_data" in places[0]:
        return  # a declaration
    if not sizes and "spv_data" in places[0]:
        return  # a helper that hands on what its caller says
    announced = normalise(arguments[sizes[0]]) if sizes else ""
    literal = -1
    if name in CREATES and sizes and len(arguments) > sizes[0] + 2:
        literal = _count_literal(arguments[sizes[0] + 2])
    for spirv in dict.fromkeys(chosen.get(places[0]) or _DATA.findall(places[0])):
        yield Call(spirv, announced, literal)


def _count_literal(argument: str) -> int:
    if not argument.startswith("{") or close_of(argument, 0) != len(argument):
        return -1
    return len([part for part in split_arguments(argument[1:-1]) if part])


def size_of(expression: str, structs: Mapping[str, Struct]) -> int | None:
    """The bytes of `sizeof(T)`, `3*sizeof(T)` and sums and products of those; None: unknown."""

    def value(match: re.Match[str]) -> str:
        struct = structs.get(match[1])
        known = struct.size if struct else TYPES.get(match[1], (-1, 0, ""))[0]
        return str(known) if known >= 0 else "unknown"

    text = _SIZEOF.sub(value, expression)
    if not re.fullmatch(r"\d+(?:[*+]\d+)*", text):
        return None
    total = 0
    for part in text.split("+"):
        product = 1
        for factor in part.split("*"):
            product *= int(factor)
        total += product
    return total


class Reader:
    """Joins calls, generator and shaders."""

    def __init__(
        self,
        shaders: Shaders,
        generator: Generator,
        structs: Sequence[Struct],
        layouts: Sequence[Layout],
    ) -> None:
        self._shaders = shaders
        self._generator = generator
        self._structs = {struct.name: struct for struct in structs}
        self._capacity: dict[str, int] = {}
        for layout in layouts:
            size = layout.names[-1][0] + 1
            self._capacity[layout.shader] = max(size, self._capacity.get(layout.shader, 0))
        self._blocks: dict[Build, tuple[Block, ...]] = {}
        self.unread: list[str] = []

    def read(self, files: Mapping[str, str]) -> list[Pipeline]:
        """The pipelines of all host files; `unread` names what could not be derived."""
        codes = [expand(strip_comments(text)) for text in files.values()]
        calls = [call for code in codes for call in _find_calls(code)]
        self._note_missed(codes, {call.spirv for call in calls})
        found = [pipeline for call in dict.fromkeys(calls) if (pipeline := self._join(call))]
        return sorted(dict.fromkeys(found), key=lambda each: (each.spirv, each.announced))

    def _note_missed(self, codes: Sequence[str], seen: set[str]) -> None:
        """SPIR-V that the host names and no call that was understood takes."""
        named = {name for code in codes for name in _DATA.findall(code)}
        for name in sorted(named - seen):
            if self._generator.builds(name):
                self._note(f"pipeline of {name}: no call that was understood")

    def _join(self, call: Call) -> Pipeline | None:
        builds = self._generator.builds(call.spirv) or self._generator.builds(
            call.spirv + "_f32_f32_f32"
        )
        size = size_of(call.announced, self._structs)
        if not builds or size is None:
            why = "its shader is not known" if not builds else f"bytes: {call.announced or 'none'}"
            self._note(f"pipeline of {call.spirv}: {why}")
            return None
        names = tuple(dict.fromkeys(build.shader for build in builds))
        blocks = tuple(dict.fromkeys(b for build in builds for b in self._blocks_of(build)))
        capacity = max(self._capacity.get(name, 0) for name in names)
        return Pipeline(call.spirv, call.announced, size, names, blocks, call.constants, capacity)

    def _blocks_of(self, build: Build) -> tuple[Block, ...]:
        if build not in self._blocks:
            try:
                maybe = [name for name in self._generator.maybe if name not in build.without]
                found = read_blocks(self._shaders, build.shader, build.defines, maybe)
            except ValueError as error:
                self._note(f"push constants of {build.shader}: {error}")
                found = []
            self._blocks[build] = tuple(found)
        return self._blocks[build]

    def _note(self, text: str) -> None:
        self.unread += [] if text in self.unread else [text]
