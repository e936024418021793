"""A folder that a person may upload: one quantised file and a model card that states facts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from upstream.errors import EnvironmentFault, UsageError
from upstream.lab import Lab, require_space
from validate.quant_evidence.document import Document
from validate.quant_evidence.place import LICENCES
from validate.quant_evidence.tables import format_model

CARD = "README.md"
NAMED_ONE_BY_ONE = "* The type was named for each tensor: `general.file_type` says another one"


def write_folder(lab: Lab, document: Document, scheme: str, folder: Path) -> Path:
    """Write the scheme's file of a measured model and its card; nothing is uploaded.

    Raises UsageError for a folder that holds something or a scheme that was not measured,
    EnvironmentFault for a full disk.
    """
    row = next((each for each in document["rows"] if each["scheme"] == scheme), None)
    if row is None:
        names = ", ".join(each["scheme"] for each in document["rows"])
        raise UsageError(f"{scheme} was not measured", remedy=f"take one of {names}")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", remedy="name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    require_space(Lab(folder), row["bytes"] // 1_000_000 + 1, f"the file in {folder}")
    _copy(lab.root / "models" / row["file"], folder / row["file"])
    (folder / CARD).write_text(format_card(document, row))
    return folder


def _copy(source: Path, target: Path) -> None:
    half = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copyfile(source, half)
        half.replace(target)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write {target}: {error.strerror}", remedy="free some space, run it again"
        ) from error
    finally:
        half.unlink(missing_ok=True)


def format_card(document: Document, row: dict[str, Any]) -> str:
    """What the file is, in facts; words about what it is good for are the uploader's."""
    facts, reference = document["facts"], document["reference"]
    licence = LICENCES.get(document["model"], "unknown: look it up before you pass the file on")
    lines = [
        f"# {row['file']}",
        "",
        f"* Base: {reference['origin']}, sha256 {reference['packaged sha256']}",
        f"* Licence of the base: {licence}",
        "* Made from a file that was already quantised, dequantised to F16: not from the original "
        "weights",
        f"* Command: `llama-quantize {row['how']}`, no imatrix",
        f"* llama.cpp {facts.get('upstream', '')} with patches (tree {facts.get('tip', '')})",
        f"* Bytes: {row['bytes']}, {row['bits']:.2f} bits a weight, sha256 {row['sha256']}",
        *([NAMED_ONE_BY_ONE] if "--tensor-type" in row["how"] else []),
        "* Upstream llama.cpp without the patches may refuse the file",
        "",
        "<!-- To be written by the person who uploads: what it is for, and who answers for it. -->",
        "",
        *("\n\n".join(format_model(document)).splitlines()),
    ]
    return "\n".join(lines) + "\n"
