"""What is measured with: a GGUF of the user's, or a shape model that is made when missing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from upstream.errors import UsageError
from upstream.lab import Lab
from validate.models import open_model
from validate.room import Model
from validate.shape_models.choices import Choice, make_recipe
from validate.shape_models.files import Head, read_head
from validate.shape_models.shapes import PRESETS
from validate.shape_models.writer import write_model

FOLDER = "shapes"  # in the lab's models


def provide_models(lab: Lab, names: list[str], choice: Choice) -> list[Model]:
    """Every model that is named: a path, or PRESET or PRESET/LAYERS of shape models.

    Raises UsageError for neither, EnvironmentFault where the disk has no room for it.
    """
    return [_provide(lab, name, choice) for name in dict.fromkeys(names)]


def _provide(lab: Lab, name: str, choice: Choice) -> Model:
    preset, _, layers = name.partition("/")
    if Path(name).is_file():
        return open_model(Path(name))
    if preset not in PRESETS:
        raise UsageError(
            f"{name} is neither a file nor a shape model",
            remedy="name a .gguf file, or one of: python -m validate.shape_models list",
        )
    if layers and not layers.isdigit():
        raise UsageError(f"{name}: {layers!r} are no layers", remedy=f"for example {preset}/8")
    recipe = make_recipe(preset, replace(choice, n_layer=int(layers) if layers else None))
    parts = [preset, f"{layers}-layers" if layers else "", choice.mix or choice.kind]
    parts += [f"skew-{choice.skew:g}" if choice.skew else ""]
    folder = lab.root / "models" / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{'-'.join(filter(None, parts))}.gguf"
    return open_model(write_model(recipe, path, os.cpu_count() or 1).path)


def head_of(model: Model) -> Head:
    """The metadata and the tensors of a model."""
    return read_head(model.folder / model.name)


def count_experts(head: Head) -> tuple[int, int]:
    """Experts, and those that a token uses; 0 and 0 of a dense model."""
    arch = head.text("general.architecture")
    if f"{arch}.expert_count" not in head.entries:
        return 0, 0
    return head.number(f"{arch}.expert_count"), head.number(f"{arch}.expert_used_count")
