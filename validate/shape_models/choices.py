"""From what a user asks for to a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upstream.errors import UsageError
from validate.shape_models.files import read_head
from validate.shape_models.mixes import Mix, parse_schema, read_schema, uniform_mix
from validate.shape_models.recipe import Recipe
from validate.shape_models.shapes import PRESETS, Shape, choose_shape, place_drafter
from validate.shape_models.vocabulary import (
    Vocabulary,
    adopt_vocabulary,
    bar_ends,
    generate_vocabulary,
)

GENERATED, SMOLLM2 = "generated", "smollm2"
SNAPSHOTS = "tests/snapshots"


@dataclass(frozen=True)
class Choice:
    """The options of the command line; see docs/reference/commands.md."""

    seed: int = 1
    n_layer: int | None = None
    kind: str = "q4_K"
    mix: str | None = None
    schema: Path | None = None
    tokenizer: str = GENERATED
    n_vocab: int | None = None
    target: Path | None = None
    skew: float = 0.0
    endless: bool = False


def make_recipe(preset: str, choice: Choice) -> Recipe:
    """What to write. Raises UsageError for what does not fit together."""
    shape = choose_shape(preset, choice.n_layer)
    if choice.target:
        shape, vocabulary = fit_target(shape, choice.target)
    else:
        vocabulary = choose_vocabulary(choice, choice.n_vocab or shape.n_vocab)
    if choice.endless:
        vocabulary = bar_ends(vocabulary)
    mix = choose_mix(choice, preset, shape)
    return Recipe(preset, shape, mix, vocabulary, choice.seed, choice.skew)


def fit_target(shape: Shape, target: Path) -> tuple[Shape, Vocabulary]:
    """A drafter for a target: its vocabulary, its depth.

    Raises UsageError when a DFlash drafter is not as wide as the target.
    """
    head = read_head(target)
    vocabulary = adopt_vocabulary(head.entries, 0, target)
    if shape.drafter is None:
        return shape, vocabulary
    arch = head.text("general.architecture")
    width = head.number(f"{arch}.embedding_length")
    if width != shape.n_embd:
        raise UsageError(
            f"the drafter is {shape.n_embd} wide, its target {target} {width}",
            remedy="name a drafter's preset of the same width",
        )
    return place_drafter(shape, head.number(f"{arch}.block_count")), vocabulary


def choose_vocabulary(choice: Choice, size: int) -> Vocabulary:
    """A generated vocabulary, that of SmolLM2, or that of a file."""
    if choice.tokenizer == GENERATED:
        return generate_vocabulary(size)
    if choice.tokenizer == SMOLLM2:
        from validate.shape_models.origins import provide_smollm2

        path = provide_smollm2()
    else:
        path = Path(choice.tokenizer)
    return adopt_vocabulary(read_head(path).entries, size, path)


def choose_mix(choice: Choice, preset: str, shape: Shape) -> Mix:
    """One type for all, or a mix of upstream's for the model that the shape is of."""
    if choice.mix is None:
        return uniform_mix(choice.kind)
    depth = whole_depth(shape.schema)
    if choice.schema:
        return read_schema(choice.schema, choice.mix, depth)
    if not shape.schema:
        raise UsageError(f"upstream has no mixes for {preset}", remedy="name one type: --type q4_K")
    from validate.shape_models.origins import read_upstream

    name = f"{SNAPSHOTS}/{shape.schema}.schema"
    return parse_schema(read_upstream(name), choice.mix, depth, name)


def whole_depth(schema: str) -> int:
    """The layers of the model that a schema was written for: of the deepest preset with it."""
    return max((s.n_layer for s in PRESETS.values() if s.schema == schema), default=0)
