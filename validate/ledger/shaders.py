"""GLSL sources cut into what ledgers ask about, with includes followed.

A file is read once; a shader (.comp) is itself and all it includes, each part under the
conditions of its own and of the includes that lead to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from validate.ledger.text import Condition, atoms_of, strip_comments, walk_conditions

_INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
_DEFINE = re.compile(r"\s*#\s*define\s+(\w+)(?:\s+(\w+))?\s*$")
_CONSTANT = re.compile(
    r"\s*layout\s*\(\s*constant_id\s*=\s*(\d+)\s*\)\s*const\s+(\w+)\s+(\w+)\s*=\s*([^;]+);"
)
_LOCAL = re.compile(r"\blocal_size_([xyz])_id\s*=\s*(\d+)")
_BLOCK = re.compile(r"\s*layout\s*\(\s*push_constant\s*\)\s*uniform\s+(\w+)")
_STRUCT = re.compile(r"\s*struct\s+(\w+)")
_FIELD = re.compile(r"(\w+)\s+(\w[\w\s,\[\]]*)$")


@dataclass(frozen=True)
class Item:
    """A part of a file: include, define, constant, block or struct; `words` says the rest."""

    kind: str
    condition: Condition
    words: tuple[str, ...]
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Field:
    """One declarator of a block or struct, e.g. `uint` `nb[12][4]`, under its conditions."""

    condition: Condition
    type: str
    name: str


def read_items(text: str) -> list[Item]:
    """The parts of one GLSL file, in order."""
    found: list[Item] = []
    lines = iter(walk_conditions(strip_comments(text)))
    for condition, line in lines:
        if match := _INCLUDE.match(line):
            found.append(Item("include", condition, (match[1],)))
        elif match := _DEFINE.match(line):
            found.append(Item("define", condition, (match[1], match[2] or "")))
        elif match := _CONSTANT.match(line):
            id_, type_, name, default = match.groups()
            found.append(Item("constant", condition, (name, id_, type_, default.strip())))
        elif sizes := _LOCAL.findall(line):
            found += [
                Item("constant", condition, (f"local_size_{axis}", id_, "uint", ""))
                for axis, id_ in sizes
            ]
        elif match := _BLOCK.match(line) or _STRUCT.match(line):
            kind = "block" if "push_constant" in line else "struct"
            fields = tuple(_fields(line, condition, lines))
            found.append(Item(kind, condition, (match[1],), fields))
    return found


def _fields(line: str, outer: Condition, lines: Iterator[tuple[Condition, str]]) -> Iterator[Field]:
    """The declarators up to the closing brace; conditions are those inside the braces only."""
    text, condition = line.partition("{")[2], outer
    while True:
        body, closed, _ = text.replace("{", " ").partition("}")
        for statement in body.split(";"):
            if match := _FIELD.match(statement.strip()):
                inner = condition[len(outer) :]
                yield from (Field(inner, match[1], n.strip()) for n in match[2].split(","))
        if closed:
            return
        condition, text = next(lines, (outer, "}"))


class Shaders:
    """All GLSL files of a tree, read once."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._items = {name: read_items(text) for name, text in files.items()}
        self.names = sorted(name for name in files if name.endswith(".comp"))
        self.lost: list[str] = []
        self._whole: dict[str, list[Item]] = {}

    def items(self, shader: str) -> list[Item]:
        """The parts of a shader with those of its includes, each file taken once."""
        if shader not in self._whole:
            self._whole[shader] = list(self._walk(shader, (), set()))
        return self._whole[shader]

    def files(self) -> Iterator[tuple[str, Item]]:
        """Every part of every file as it stands there."""
        for name, items in sorted(self._items.items()):
            yield from ((name, item) for item in items)

    def _walk(
        self, name: str, outer: Condition, seen: set[tuple[str, Condition]]
    ) -> Iterator[Item]:
        if name not in self._items:
            self.lost += [] if name in self.lost else [name]
            return
        if any(file == name and outer[: len(cond)] == cond for file, cond in seen):
            return
        seen.add((name, outer))
        for item in self._items[name]:
            condition = tuple(dict.fromkeys(outer + item.condition))
            if item.kind == "include":
                yield from self._walk(item.words[0], condition, seen)
            else:
                yield replace(item, condition=condition)


def own_macros(items: Sequence[Item]) -> set[str]:
    """Macros that the sources themselves define: nobody outside knows whether they do."""
    return {item.words[0] for item in items if item.kind == "define"}


def atoms(items: Sequence[Item]) -> list[str]:
    """The macros that decide what these parts are."""
    conditions = [item.condition for item in items]
    conditions += [field.condition for item in items for field in item.fields]
    return atoms_of(conditions)
