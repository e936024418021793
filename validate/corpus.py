"""The text that perplexity is measured on; its source and licence are in data/README.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upstream.download import hash_file
from upstream.errors import EnvironmentFault

PATH = Path(__file__).parent / "data" / "corpus.txt"
CHUNKS = 4


@dataclass(frozen=True)
class Corpus:
    """A text file, the sha256 of its bytes, and how many chunks of it are read."""

    path: Path
    sha256: str
    chunks: int = CHUNKS


def open_corpus(path: Path = PATH) -> Corpus:
    """The text shipped with the project. Raises EnvironmentFault when it is not there."""
    if not path.is_file():
        raise EnvironmentFault(
            f"the text {path} is missing", remedy="restore it: git checkout validate/data"
        )
    return Corpus(path.absolute(), hash_file(path))
