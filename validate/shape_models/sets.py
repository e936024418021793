"""Sets of models for speculation: a target with an MTP head and a drafter of each other kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from upstream.errors import UsageError
from validate.shape_models.choices import Choice, make_recipe
from validate.shape_models.recipe import Recipe

SETS = {
    "tiny": ("tiny-mtp", "tiny-draft", "tiny-dflash", "tiny-dflash2"),
    "small": ("small-mtp", "small-draft", "small-dflash", "small-dflash2"),
    "27b": ("mtp-27b", "draft-0.6b", "dflash-27b", "dflash2-27b"),
}


def list_set(name: str, folder: Path, choice: Choice) -> Iterator[tuple[Recipe, Path]]:
    """Recipes and their files, the target first: a drafter's recipe wants it written.

    What is chosen for layers and a mix is the target's. Raises UsageError for an unknown set.
    """
    if name not in SETS:
        raise UsageError(f"no set {name!r}", remedy=f"name one of {', '.join(SETS)}")
    first, *drafters = SETS[name]
    target = folder / f"{first}.gguf"
    yield make_recipe(first, replace(choice, endless=True)), target
    own = replace(choice, endless=True, target=target, n_layer=None, mix=None, schema=None)
    for preset in drafters:
        yield make_recipe(preset, own), folder / f"{preset}.gguf"
