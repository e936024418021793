"""Kept documents: one JSON file each, and the README.md that is made from them."""

from __future__ import annotations

import json
from pathlib import Path

from upstream.errors import UsageError
from validate.quant_evidence.document import VERSION, Document
from validate.quant_evidence.tables import format_documents

TABLES = "README.md"
KINDS = ("model", "weights")


def keep(document: Document, folder: Path) -> Path:
    """Write one document; the tables are made anew from all of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    name = str(document.get("model", document["kind"])).removesuffix(".gguf")
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    write_tables(folder)
    return path


def read_documents(folder: Path) -> list[Document]:
    """Every kept document, by file name.

    Raises UsageError when there is none or one is something else.
    """
    documents = []
    for path in sorted(folder.glob("*.json")):
        try:
            document = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} is no JSON document: {error}") from error
        if not isinstance(document, dict) or document.get("kind") not in KINDS:
            raise UsageError(f"{path} is no document of quant-evidence")
        if document.get("version") != VERSION:
            raise UsageError(
                f"{path} was written by another version of quant-evidence",
                remedy="measure again with --keep: what is in the lab is not run again",
            )
        documents.append(document)
    if not documents:
        raise UsageError(
            f"{folder} holds no kept document", remedy="run: nox -s quant-evidence -- --keep DIR"
        )
    return documents


def write_tables(folder: Path) -> str:
    """Make the tables of a folder again, and return them."""
    text = format_documents(read_documents(folder))
    (folder / TABLES).write_text(text)
    return text
