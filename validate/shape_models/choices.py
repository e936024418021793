"""From what a user asks for to a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upstream.errors import EnvironmentFault, UsageError
from upstream.git import Git
from upstream.lab import open_lab
from upstream.provider import open_upstream
from validate.models import provide_model
from validate.shape_models.files import open_reader, read_entries, read_number, read_text
from validate.shape_models.mixes import Mix, parse_schema, read_schema, uniform_mix
from validate.shape_models.recipe import Recipe
from validate.shape_models.shapes import PRESETS, Shape, choose_shape, place_drafter
from validate.shape_models.vocabulary import (
    PREFIX,
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
    reader = open_reader(target)
    vocabulary = adopt_vocabulary(read_entries(reader, PREFIX), 0, target)
    if shape.drafter is None:
        return shape, vocabulary
    arch = read_text(reader, "general.architecture")
    width = read_number(reader, f"{arch}.embedding_length")
    if width != shape.n_embd:
        raise UsageError(
            f"the drafter is {shape.n_embd} wide, its target {target} {width}",
            remedy="name a drafter's preset of the same width",
        )
    return place_drafter(shape, read_number(reader, f"{arch}.block_count")), vocabulary


def choose_vocabulary(choice: Choice, size: int) -> Vocabulary:
    """A generated vocabulary, that of SmolLM2, or that of a file."""
    if choice.tokenizer == GENERATED:
        return generate_vocabulary(size)
    if choice.tokenizer == SMOLLM2:
        model = provide_model(open_lab())
        path = model.folder / model.name
    else:
        path = Path(choice.tokenizer)
    return adopt_vocabulary(read_entries(open_reader(path), PREFIX), size, path)


def choose_mix(choice: Choice, preset: str, shape: Shape) -> Mix:
    """One type for all, or a mix of upstream's for the model that the shape is of."""
    if choice.mix is None:
        return uniform_mix(choice.kind)
    depth = whole_depth(shape.schema)
    if choice.schema:
        return read_schema(choice.schema, choice.mix, depth)
    if not shape.schema:
        raise UsageError(f"upstream has no mixes for {preset}", remedy="name one type: --type q4_K")
    name = f"{SNAPSHOTS}/{shape.schema}.schema"
    return parse_schema(read_upstream(name), choice.mix, depth, name)


def whole_depth(schema: str) -> int:
    """The layers of the model that a schema was written for: of the deepest preset with it."""
    return max((s.n_layer for s in PRESETS.values() if s.schema == schema), default=0)


def read_upstream(path: str) -> str:
    """A file of the newest upstream version that the lab has. Asks no network.

    Raises EnvironmentFault when there is none.
    """
    lab = open_lab()
    held = open_upstream(lab, "auto", None).imported()
    newest = held[max(held)].commit if held else ""
    content = Git(lab.repository).read_blob(f"{newest}:{path}") if newest else None
    if content is None:
        raise EnvironmentFault(
            f"the lab has no upstream source with {path}",
            remedy="run: nox -s fetch; or name a file: --schema FILE",
        )
    return content.decode()
