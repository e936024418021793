"""Push constants: the blocks of the shaders and the structs of the host, laid out in bytes.

GLSL blocks are std430: scalars are aligned to their size, arrays of scalars are dense, a struct is
aligned to its largest member; the host's structs follow the same rules for these types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from validate.ledger.model import Block, Struct
from validate.ledger.shaders import Field, Item, Shaders, atoms, own_macros
from validate.ledger.text import assignments, close_of, holds, split_arguments, strip_comments

# name of a type -> (bytes, alignment, scalars)
TYPES: Mapping[str, tuple[int, int, str]] = {
    **dict.fromkeys(("uint", "int", "uint32_t", "int32_t", "bool"), (4, 4, "i")),
    "float": (4, 4, "f"),
    **dict.fromkeys(("uint64_t", "int64_t", "size_t"), (8, 8, "l")),
    **dict.fromkeys(("uint16_t", "int16_t"), (2, 2, "h")),
    "uvec2": (8, 8, "l"),
    "vk::DeviceAddress": (8, 8, "l"),
    "VkDeviceAddress": (8, 8, "l"),
}
_STRUCT = re.compile(r"\bstruct\s+(vk_\w*push_constants)\s*(?::\s*(\w+)\s*)?(?=\{)")
_NUMBER = re.compile(r"^\s*#\s*define\s+(\w+)\s+\(?([\w\s+*-]+?)\)?\s*$", re.MULTILINE)


@dataclass
class Shape:
    """Bytes that grow field by field."""

    size: int = 0
    alignment: int = 4
    scalars: str = ""

    def add(self, size: int, alignment: int, scalars: str, count: int) -> None:
        """Append `count` values of one type."""
        self.size = -(-self.size // alignment) * alignment + size * count
        self.alignment = max(self.alignment, alignment)
        self.scalars += scalars * count

    def close(self) -> Shape:
        """Round up to the alignment, as a struct inside another one is."""
        return Shape(-(-self.size // self.alignment) * self.alignment, self.alignment, self.scalars)


Shapes = dict[str, Shape]


class UnknownTypeError(ValueError):
    """A field whose type or count this module does not know; the text names it."""


def read_blocks(
    shaders: Shaders, shader: str, sure: Sequence[str], maybe: Sequence[str]
) -> list[Block]:
    """The distinct push-constant blocks that builds of a shader may have.

    `sure` are macros that the build defines, `maybe` those that it may define. No block at all is
    a block of 0 bytes. Raises ValueError (UnknownTypeError) for what cannot be laid out.
    """
    items = shaders.items(shader)
    wanted = [item for item in items if item.kind == "block"]
    used = {field.type for item in wanted for field in item.fields}
    wanted += [item for item in items if _defines_type(item, used)]
    unsure = [*maybe, *own_macros(items)]
    found = [
        _lay_out(shader, wanted, defined) for defined in assignments(atoms(wanted), sure, unsure)
    ]
    return list(dict.fromkeys(found))


def _defines_type(item: Item, used: set[str]) -> bool:
    if item.kind == "define":
        return item.words[0] in used and item.words[1] in TYPES
    return item.kind == "struct" and item.words[0] in used


def _lay_out(shader: str, items: Sequence[Item], defined: Mapping[str, str]) -> Block:
    known: Shapes = {}
    blocks = []
    for item in sorted(items, key=lambda item: item.kind == "block"):
        if holds(item.condition, defined) is False:
            continue
        if item.kind == "define":
            known[item.words[0]] = Shape(*TYPES[item.words[1]])
        elif item.kind == "struct":
            known[item.words[0]] = _shape_of(item, defined, known).close()
        else:
            blocks.append(_shape_of(item, defined, known))
    largest = max(blocks, key=lambda shape: shape.size, default=Shape())
    return Block(shader, largest.size, largest.scalars)


def _shape_of(item: Item, defined: Mapping[str, str], known: Shapes) -> Shape:
    shape = Shape()
    for field in item.fields:
        if holds(field.condition, defined) is not False:
            _append(shape, field, known, {})
    return shape


def _append(shape: Shape, field: Field, known: Shapes, numbers: Mapping[str, str]) -> None:
    kind = known.get(field.type)
    row = (kind.size, kind.alignment, kind.scalars) if kind else TYPES.get(field.type)
    if row is None:
        raise UnknownTypeError(f"type {field.type} of {field.name}")
    shape.add(*row, _count(field.name, numbers))


def _count(declarator: str, numbers: Mapping[str, str]) -> int:
    """How many values `nb[12][4]` is."""
    total = 1
    for text in re.findall(r"\[([^\]]*)\]", declarator):
        total *= evaluate(text, numbers)
    return total


def evaluate(text: str, numbers: Mapping[str, str]) -> int:
    """An array bound: a number or the name of one. Raises UnknownTypeError."""
    word = text.strip().strip("()").strip()
    for _ in range(8):
        if re.fullmatch(r"\d+u?", word):
            return int(word.rstrip("u"))
        if word not in numbers:
            break
        word = numbers[word].strip()
    raise UnknownTypeError(f"array bound {text}")


def read_structs(files: Mapping[str, str]) -> tuple[list[Struct], list[str]]:
    """The push-constant structs of the host, and those that could not be laid out."""
    found: dict[str, Struct] = {}
    unread: list[str] = []
    numbers = {n: v for text in files.values() for n, v in _NUMBER.findall(strip_comments(text))}
    for path, text in files.items():
        code = strip_comments(text)
        for match in _STRUCT.finditer(code):
            body = code[match.end() + 1 : close_of(code, match.end()) - 1]
            try:
                found[match[1]] = _struct(match[1], path, match[2], body, found, numbers)
            except ValueError as error:
                unread.append(f"struct {match[1]}: {error}")
    return list(found.values()), unread


def _struct(
    name: str,
    path: str,
    base: str | None,
    body: str,
    found: Mapping[str, Struct],
    numbers: Mapping[str, str],
) -> Struct:
    known = {e.name: Shape(e.size, 8 if "l" in e.scalars else 4, e.scalars) for e in found.values()}
    shape = Shape()
    fields = [Field((), base, base)] if base else []
    fields += _members(body)
    for field in fields:
        _append(shape, field, known, numbers)
    return Struct(name, path, shape.close().size, shape.scalars, tuple(f.name for f in fields))


def _members(body: str) -> Iterator[Field]:
    """Data members: no functions, no static ones. Default values are cut off."""
    text = re.sub(r"\)\s*(?:const\s*)?\{", ")\0{", body)
    while "\0" in text:
        at = text.index("\0")
        text = text[:at] + ";" + text[close_of(text, at + 1) :]
    for statement in text.split(";"):
        statement = statement.strip()
        if not statement or re.match(r"static\b|[^={]*\(", statement):
            continue
        match = re.fullmatch(r"(?:const\s+|struct\s+)*([\w:]+)\s+(.+)", statement, re.DOTALL)
        if match is None:
            raise UnknownTypeError(f"member {statement!r}")
        for name in split_arguments(match[2]):
            yield Field((), match[1], re.sub(r"\s*[={].*", "", name, flags=re.DOTALL))
