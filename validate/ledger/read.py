"""From a git tree to its ledger."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from upstream.errors import InvalidMeasurement
from upstream.git import Git
from upstream.lab import Lab
from validate.ledger.constants import read_constants, read_layouts
from validate.ledger.enums import read_enums, read_numbers
from validate.ledger.generator import Generator
from validate.ledger.host import read_sequences
from validate.ledger.model import Ledger, from_document, to_document
from validate.ledger.ops import read_supports
from validate.ledger.pipelines import Reader
from validate.ledger.push import read_structs
from validate.ledger.shaders import Shaders
from validate.ledger.sources import GENERATOR, Files, host_files, read_sources, shader_files
from validate.result_cache import ResultCache

PARTS = (
    "enums",
    "numbers",
    "constants",
    "layouts",
    "sequences",
    "structs",
    "blocks",
    "pipelines",
    "supports",
)


def read_ledger(git: Git, tree: str) -> Ledger:
    """The ledger of a tree (an id or `commit^{tree}`).

    Raises InvalidMeasurement when a source is missing, cannot be read, or gives no entry.
    """
    files = read_sources(git, tree)
    try:
        ledger = _read(tree, files)
    except (ValueError, SyntaxError) as error:
        raise InvalidMeasurement(
            f"the ledgers of tree {tree[:10]} cannot be read: {error}",
            remedy="mend the source, or teach validate/ledger its form",
        ) from error
    return _require_entries(ledger)


def obtain_ledger(lab: Lab, git: Git, tree: str) -> tuple[Ledger, bool]:
    """The same from the results of earlier runs, and whether it was there."""
    inputs = {"check": "ledger", "tree": tree, "reader": reader_id()}
    document, known = ResultCache(lab).obtain(inputs, lambda: to_document(read_ledger(git, tree)))
    return from_document(document), known


@cache
def reader_id() -> str:
    """A hash of this package: another reader may read other facts from the same tree."""
    hasher = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()[:16]


def _read(tree: str, files: Files) -> Ledger:
    shaders, host = Shaders(shader_files(files)), host_files(files)
    enums, unread_enums = read_enums(files)
    layouts, unread_layouts = read_layouts(shaders)
    structs, unread_structs = read_structs(host)
    supports, unread_supports = read_supports(files)
    generator = Generator(files.get(GENERATOR, ""), shaders.names)
    reader = Reader(shaders, generator, structs, layouts)
    pipelines = reader.read(host)
    unread = [*unread_enums, *unread_layouts, *unread_structs, *unread_supports, *reader.unread]
    unread += [f"included file {name}" for name in shaders.lost]
    used = {shader for pipeline in pipelines for shader in pipeline.shaders}
    unread += [f"shader {name}: no pipeline" for name in shaders.names if name not in used]
    return Ledger(
        tree=tree,
        enums=tuple(enums),
        numbers=tuple(read_numbers(files)),
        constants=tuple(read_constants(shaders)),
        layouts=tuple(layouts),
        sequences=tuple(read_sequences(host)),
        structs=tuple(structs),
        blocks=tuple(dict.fromkeys(block for each in pipelines for block in each.blocks)),
        pipelines=tuple(pipelines),
        supports=tuple(supports),
        unread=tuple(unread),
    )


def _require_entries(ledger: Ledger) -> Ledger:
    """A part without entries was not read, whatever the reason."""
    empty = [part for part in PARTS if not getattr(ledger, part)]
    empty += [f"enum {each.name}" for each in ledger.enums if not each.ids]
    if empty:
        raise InvalidMeasurement(
            f"the ledgers of tree {ledger.tree[:10]} have no entry for: {', '.join(empty)}",
            remedy="teach validate/ledger the form in which upstream writes it now",
        )
    return ledger
