"""What RADV makes of the coopmat mul_mm tiles at each pad: loads, stores, LDS, registers, cost.

    python docs/evidence/radv/pads.py ROOT ROOT > pads.json     # from the repository, as root

ROOT: the toolchain roots (`nox -s toolchain`). The pipelines are those that the tip's host code
sets up; only the pad's specialization constant is replaced. Nothing is executed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from series.manifest import load_series
from series.stack import load_stack
from upstream.git import Git
from upstream.lab import open_lab
from validate.isa.banks import PAD_ID, PAD_ID_QUANT, conflict, stride_of
from validate.isa.compilers import find_compilers
from validate.isa.recording import open_bench, read_tree
from validate.isa.run import Session
from validate.isa.statistics import Numbers
from validate.isa.variants import Variant
from validate.isa.workshop import open_workshop

PADS = (0, 2, 4, 6, 8)
LARGE = (128, 128)  # BM, BN
SHADERS = ("matmul_f16_cm1", "matmul_quant_f16_cm1", "matmul_iq3_s_f16_cm1")
ALIGNED = 11  # the id of its constant
Q2_K = 10  # GGML_TYPE_Q2_K, the constant of the shader for quantized types
KEYS = ("vgprs", "spilled_vgprs", "lds", "waves", "instructions", "inverse_throughput")


def main() -> None:
    """Compile and print one JSON document."""
    lab = open_lab()
    git = Git(lab.repository)
    stack = load_stack(git, load_series(Path("series")))
    assert stack is not None, "run: nox -s rebase"
    with open_workshop(lab, git) as shop:
        compilers = find_compilers(lab, shop.folder, [Path(each) for each in sys.argv[1:]])
        tip = read_tree(open_bench(shop, compilers), stack.tip_tree)
        session = Session(open_bench(shop, compilers), compilers)
        tiles = [each for each in tip.variants if is_large(each)]
        session.compile([(tip, tiles)])
        padded = {(tile, pad): set_pad(tile, pad) for tile in tiles for pad in PADS}
        session.ask(padded.values())
        rows = [
            describe(each.name, pad, variant, numbers)
            for each in compilers
            for (_, pad), variant in padded.items()
            if (numbers := session.find(each, variant))
        ]
    print("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]")


def is_large(variant: Variant) -> bool:
    """The large tile of the three types."""
    if variant.shader not in SHADERS or variant.spec[1:3] != LARGE or not variant.spec[ALIGNED]:
        return False
    return "quant" not in variant.shader or variant.spec[PAD_ID] == Q2_K


def set_pad(variant: Variant, pad: int) -> Variant:
    """The same tile with another pad."""
    spec = list(variant.spec)
    spec[PAD_ID_QUANT if "quant" in variant.shader else PAD_ID] = pad
    return replace(variant, spec=tuple(spec))


def describe(compiler: str, pad: int, variant: Variant, numbers: Numbers) -> Mapping[str, object]:
    """One row."""
    stride = stride_of(variant) or 0
    factors = {width: conflict(stride, width) for width in ("b32", "b64", "b128")}
    access = dict(numbers.access or {})
    row = {"compiler": compiler, "pipeline": variant.pipeline, "spec": variant.spec, "pad": pad}
    row |= {"stride": stride, "conflicts": factors, "access": access, "error": numbers.error}
    return row | {key: getattr(numbers, key) for key in KEYS}


if __name__ == "__main__":
    main()
