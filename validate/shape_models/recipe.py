"""Everything that decides the bytes of a shape model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256

from validate.shape_models.mixes import Mix
from validate.shape_models.shapes import Shape
from validate.shape_models.tensors import Entry, list_metadata, text, u32
from validate.shape_models.vocabulary import Vocabulary

VERSION = 1  # of the bytes: raise it when a recipe begins to mean others
KEY = "shape_model.recipe"


@dataclass(frozen=True)
class Recipe:
    """A model to write. `skew` is how unequal experts are: 0 as random weights have it."""

    preset: str
    shape: Shape
    mix: Mix
    vocabulary: Vocabulary
    seed: int = 1
    skew: float = 0.0

    def describe(self) -> str:
        """The recipe as JSON; two files with the same have the same bytes."""
        vocabulary = {
            "name": self.vocabulary.name,
            "size": self.vocabulary.size,
            "barred": list(self.vocabulary.barred),
        }
        whole = {
            "version": VERSION,
            "preset": self.preset,
            "seed": self.seed,
            "skew": self.skew,
            "shape": asdict(self.shape),
            "mix": {"name": self.mix.name, "sha256": _digest(asdict(self.mix))},
            "vocabulary": vocabulary,
        }
        return json.dumps(whole, sort_keys=True)

    def metadata(self) -> dict[str, Entry]:
        """All entries of the file."""
        general = {
            "general.architecture": text(self.shape.arch),
            "general.name": text(f"shape of {self.preset}, random weights"),
            "general.quantization_version": u32(2),
            KEY: text(self.describe()),
        }
        return general | list_metadata(self.shape) | dict(self.vocabulary.entries)


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
