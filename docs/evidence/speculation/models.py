"""Models for CPU lanes: as deep as a 27B model, and narrow, so that a drafter costs what it does there.

    python docs/evidence/speculation/models.py FOLDER

FOLDER gets deep.gguf (64 layers with an MTP head), a draft-simple drafter, DFlash and DFlash2 drafters for
it; and twin.gguf with twin-draft.gguf. Of the twin's 48 layers all but the first two add nothing (their
output matrices are zero), and these two are the drafter: greedy it agrees always, at a high temperature
rarely. So slots, or questions, get different real acceptance.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, os.fspath(Path(__file__).parents[3]))

from validate.shape_models.mixes import uniform_mix
from validate.shape_models.recipe import Recipe
from validate.shape_models.shapes import PRESETS, Shape, place_drafter
from validate.shape_models.vocabulary import bar_ends, generate_vocabulary
from validate.shape_models.writer import data_size, plan_parts, write_model

DEPTH, WIDTH_FF, VOCAB, STATE = 64, 1024, 8192, 32
TWIN_DEPTH, TWIN_SHARED = 48, 2
SILENT = ("attn_output.weight", "ffn_down.weight")


def deepen(preset: str, n_layer: int) -> Shape:
    shape = replace(PRESETS[preset], n_layer=n_layer, n_ff=WIDTH_FF, n_vocab=VOCAB)
    # a copy of the recurrent states, one for each token that may be rejected, in proportion to the
    # weights: 2 % (27B: 1 %), not 7 %
    return replace(shape, recurrent=shape.recurrent and replace(shape.recurrent, state=STATE))


def make(name: str, shape: Shape) -> Recipe:
    vocabulary = bar_ends(generate_vocabulary(VOCAB))
    return Recipe(name, shape, uniform_mix("q4_K"), vocabulary)


def silence(recipe: Recipe, path: Path) -> None:
    """Zero what the layers behind the shared ones would add."""
    parts = plan_parts(recipe)
    begin = path.stat().st_size - data_size(parts)
    with path.open("r+b") as file:
        for part in parts:
            _, _, rest = part.tensor.name.partition("blk.")
            layer, _, kind = rest.partition(".")
            if kind in SILENT and int(layer) >= TWIN_SHARED:
                file.seek(begin + part.offset)
                file.write(bytes(part.size))


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    shapes = {
        "deep": deepen("tiny-mtp", DEPTH),
        "deep-draft": deepen("tiny-draft", 2),
        "deep-dflash": place_drafter(deepen("tiny-dflash", 4), DEPTH),
        "deep-dflash2": place_drafter(deepen("tiny-dflash2", 4), DEPTH),
        "twin": deepen("tiny-draft", TWIN_DEPTH),
        "twin-draft": deepen("tiny-draft", TWIN_SHARED),
    }
    for name, shape in shapes.items():
        written = write_model(make(name, shape), folder / f"{name}.gguf", os.cpu_count() or 1)
        print(f"{written.path.name}: {written.size / 1e6:.0f} MB")
    silence(make("twin", shapes["twin"]), folder / "twin.gguf")


if __name__ == "__main__":
    main()
