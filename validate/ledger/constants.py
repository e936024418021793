"""Specialization constants of the shaders: a row each, and the layouts that builds give them."""

from __future__ import annotations

from collections.abc import Iterator

from validate.ledger.model import Constant, Layout
from validate.ledger.shaders import Item, Shaders, atoms
from validate.ledger.text import assignments, holds


def read_constants(shaders: Shaders) -> list[Constant]:
    """Every constant where its source declares it, .comp and .glsl alike."""
    return [
        Constant(file, " && ".join(item.condition), *_words(item))
        for file, item in shaders.files()
        if item.kind == "constant"
    ]


def _words(item: Item) -> tuple[str, int, str, str]:
    name, id_, type_, default = item.words
    return name, int(id_), type_, default


def read_layouts(shaders: Shaders) -> tuple[list[Layout], list[str]]:
    """The distinct layouts of every shader that has constants, and what could not be told."""
    found: list[Layout] = []
    unread: list[str] = []
    for shader in shaders.names:
        items = [item for item in shaders.items(shader) if item.kind == "constant"]
        try:
            found += dict.fromkeys(_layouts(shader, items))
        except ValueError as error:
            unread.append(f"layouts of {shader}: {error}")
    return found, unread


def _layouts(shader: str, items: list[Item]) -> Iterator[Layout]:
    names = atoms(items)
    for defined in assignments(names, (), names):
        present = [item for item in items if holds(item.condition, defined) is not False]
        # a build in which one name has two ids is no build: its conditions exclude each other
        rows = sorted({(int(item.words[1]), item.words[0]) for item in present})
        if rows:
            yield Layout(shader, tuple(rows))
