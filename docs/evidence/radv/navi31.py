"""Are the occupancy cliffs of Strix Point those of a larger register file? Ask for Navi 31.

    python docs/evidence/radv/navi31.py ROOT ROOT > navi31.json    # from the repository, as root

Strix Halo has 768 VGPRs of a wave64 per SIMD, as Navi 31; Strix Point has 512. The drm-shim knows
Navi 31 (gfx1100), not Strix Halo. ROOT: the toolchain roots (`nox -s toolchain`). Nothing is
executed.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from series.manifest import load_series
from series.stack import load_stack
from upstream.git import Git
from upstream.lab import open_lab
from validate.isa.compilers import Compiler, digest, find_compilers
from validate.isa.recording import open_bench, read_tree
from validate.isa.run import Session
from validate.isa.variants import Variant
from validate.isa.workshop import open_workshop

GPU = "navi31"
COLUMNS = (4, 6, 7, 8)
HOST_ROWS = ("q2_k", "q3_k", "q6_k", "iq2_xxs", "iq2_xs", "iq2_s", "iq4_xs")
TWO_ROWS = ("iq4_xs",)
KEYS = ("vgprs", "spilled_vgprs", "waves", "latency", "inverse_throughput")


def main() -> None:
    """Compile for both GPUs and print one JSON document."""
    lab = open_lab()
    git = Git(lab.repository)
    stack = load_stack(git, load_series(Path("series")))
    assert stack is not None, "run: nox -s rebase"
    with open_workshop(lab, git) as shop:
        compilers = find_compilers(lab, shop.folder, [Path(each) for each in sys.argv[1:]])
        bench = open_bench(shop, compilers)
        tip = read_tree(bench, stack.tip_tree)
        pair = [bench.recorder, for_navi31(bench.recorder)]
        session = Session(bench, pair)
        variants = choose(tip.variants)
        session.compile([(tip, variants)])
        session.ask(variants)
        rows = [describe(session, compiler, each) for each in variants for compiler in pair]
    print("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]")


def for_navi31(compiler: Compiler) -> Compiler:
    """The same Mesa, told of another GPU."""
    return replace(
        compiler,
        name=compiler.name.replace("strix1", GPU),
        variables={**compiler.variables, "AMDGPU_GPU_ID": GPU},
        fingerprint=digest(compiler.fingerprint, GPU),
    )


def choose(variants: tuple[Variant, ...]) -> list[Variant]:
    """The mat-vecs with a cliff, and those with two rows that are asked for."""
    some = [
        each
        for each in variants
        if each.small and each.input == "f32" and each.columns in COLUMNS and each.type in HOST_ROWS
    ]
    return [*some, *(each.with_rows(2) for each in some if each.type in TWO_ROWS)]


def describe(session: Session, compiler: Compiler, variant: Variant) -> dict[str, object]:
    """One row."""
    numbers = session.find(compiler, variant)
    assert numbers is not None
    row = {"compiler": compiler.name, "type": variant.type, "rows": variant.rows}
    row |= {"columns": variant.columns, "error": numbers.error}
    return row | {key: getattr(numbers, key) for key in KEYS}


if __name__ == "__main__":
    main()
