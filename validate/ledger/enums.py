"""Ids that files and wires carry: ggml_type, llama_ftype, their Python twins, ops, RPC versions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from validate.ledger.model import Enumeration, Number
from validate.ledger.sources import (
    GGML_C,
    GGML_H,
    LLAMA_H,
    PYTHON,
    RPC_H,
    SHADERS,
    Files,
)
from validate.ledger.text import body_of, close_of, split_arguments, strip_comments

C_ENUMS = (
    ("ggml_type", GGML_H),
    ("ggml_op", GGML_H),
    ("ggml_unary_op", GGML_H),
    ("ggml_glu_op", GGML_H),
    ("llama_ftype", LLAMA_H),
)
SHADER_ENUM = "shader GGML_TYPE"
PYTHON_ENUMS = ("GGMLQuantizationType", "LlamaFileType")
SHADER_TYPES = "ggml_type_ids.glsl"
# a C enumeration and what has to say the same, by the prefixes of the names
TWINS = (
    ("ggml_type", "GGML_TYPE_", "GGMLQuantizationType"),
    ("llama_ftype", "LLAMA_FTYPE_", "LlamaFileType"),
)
RPC_VERSIONS = tuple(f"RPC_PROTO_{part}_VERSION" for part in ("MAJOR", "MINOR", "PATCH"))
_ASSERT = re.compile(r"static_assert\s*\(\s*(\w+_COUNT)\s*==\s*(\d+)")
_RETIRED = re.compile(r"//\s*([A-Z][A-Z0-9_]+)\s*=\s*(\d+)")
_TABLE = re.compile(r"\b(GGML_OP_NAME|GGML_OP_SYMBOL)\s*\[\s*GGML_OP_COUNT\s*\]\s*=\s*")
_SHADER_ID = re.compile(r"^\s*#\s*define\s+(GGML_TYPE_\w+)\s+(\d+)u?\s*$", re.MULTILINE)


def read_enums(files: Files) -> tuple[list[Enumeration], list[str]]:
    """All enumerations, and the names of those that could not be read."""
    found = [_read_c(name, path, files[path]) for name, path in C_ENUMS]
    found += [read_python_enum(name, PYTHON, files[PYTHON]) for name in PYTHON_ENUMS]
    shader = files.get(SHADERS + SHADER_TYPES)
    if shader is not None:
        ids = tuple((name, int(value)) for name, value in _SHADER_ID.findall(shader))
        found.append(Enumeration(SHADER_ENUM, SHADERS + SHADER_TYPES, ids))
    return found, [f"enum {each.name} in {each.source}" for each in found if not each.ids]


def _read_c(name: str, path: str, text: str) -> Enumeration:
    body = body_of(text, rf"\benum\s+{name}\b")
    ids = tuple(parse_c_enum(body or ""))
    retired = tuple((word, int(value)) for word, value in _RETIRED.findall(body or ""))
    return Enumeration(name, path, ids, retired)


def parse_c_enum(body: str) -> Iterator[tuple[str, int]]:
    """Names and values of the text between the braces; a value may name an earlier one.

    Raises ValueError naming what is neither a number nor a known name.
    """
    seen: dict[str, int] = {}
    value = -1
    for entry in split_arguments(strip_comments(body)):
        if not entry:
            continue
        name, _, expression = (part.strip() for part in entry.partition("="))
        value = _value(expression, seen) if expression else value + 1
        seen[name] = value
        yield name, value


def _value(expression: str, seen: Mapping[str, int]) -> int:
    if expression in seen:
        return seen[expression]
    return int(expression, 0)


def read_python_enum(name: str, path: str, text: str) -> Enumeration:
    """The plain integers of an IntEnum, read without running it."""
    ids: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(_cut_class(name, text))):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = ast.literal_eval(node.value) if _is_number(node.value) else None
            ids += [] if value is None else [(node.targets[0].id, int(value))]
    return Enumeration(name, path, tuple(ids))


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _cut_class(name: str, text: str) -> str:
    """The lines of one class: parsing the whole module would take longer than all the rest."""
    match = re.search(rf"^class {name}\b.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return match[0] if match else ""


def read_numbers(files: Files) -> list[Number]:
    """Asserted counts (one row an assertion), RPC versions, lengths of the op tables."""
    found = []
    for path in (GGML_C, RPC_H):
        for at, (name, value) in enumerate(_ASSERT.findall(strip_comments(files[path])), 1):
            found.append(Number(f"static_assert {name} #{at}", path, int(value)))
    for name in RPC_VERSIONS:
        match = re.search(rf"#\s*define\s+{name}\s+(\d+)", files[RPC_H])
        found += [Number(name, RPC_H, int(match[1]))] if match else []
    return found + list(_count_tables(strip_comments(files[GGML_C])))


def _count_tables(text: str) -> Iterator[Number]:
    for match in _TABLE.finditer(text):
        body = text[match.end() + 1 : close_of(text, match.end()) - 1]
        entries = [entry for entry in split_arguments(body) if entry]
        yield Number(f"entries of {match[1]}", GGML_C, len(entries))
