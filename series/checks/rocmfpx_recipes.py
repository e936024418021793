"""Check the ROCmFPx recipes of llama-quantize against a table of their own.

    python rocmfpx_recipes.py --bin BIN --source TREE --work DIR [--root ROOT]

`llama-quantize --dry-run` tells the type that it takes for each tensor of models that hold nothing
but shapes: dense, tied, with 8 experts, with an MTP block, with fused attention, with rows no block
divides. The table here is written from the description of the format, not from the patch; for one
model the counts are those of published files. Real runs show that the file type is written, that
an importance matrix reaches the encoder, and that one without weights destroys nothing.
Exit status: 0 holds, 1 does not hold, 3 llama-quantize is missing.
"""

import argparse
import json
import re
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import tiny_drafters as tiny
from rocmfpx_recipe_table import (
    CENSUS,
    DUAL,
    FAST,
    MODELS,
    Q2,
    Q6,
    RECIPES,
    Model,
    Types,
    describe,
    pack,
    write_hollow,
)
from tiny_drafters import Shapes

CHECK: Final = "rocmfpx-recipes"
PASS, FAIL, NO_ENVIRONMENT = 0, 1, 3
GOLDEN: Final = Path(__file__).with_name("rocmfpx_golden.json")
Row: TypeAlias = dict[str, object]


# --- llama-quantize -----------------------------------------------------------------------------

LINE: Final = re.compile(r"^\[ *\d+/ *\d+\] +(\S+) +- \[.*?\], type = +(\w+),(.*)$", re.M)
TARGET: Final = re.compile(r"-> .*\((\w+)\)$")


@dataclass(frozen=True)
class Quantize:
    """The program under test."""

    program: Path
    work: Path

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run it."""
        return subprocess.run(
            [self.program, *words], capture_output=True, text=True, cwd=self.work, check=False
        )

    def types(self, path: Path, *words: str) -> Types:
        """Ask which types it would take for the tensors of more than one dimension."""
        *options, recipe = words
        done = self.run("--dry-run", *options, path, recipe)
        lines = LINE.findall(done.stdout + done.stderr)
        found = {name: TARGET.search(rest.strip()) for name, _, rest in lines}
        return {name: match[1] for name, match in found.items() if match}


def compare(case: str, got: Types, wanted: Types) -> Row:
    """Report the first few differences."""
    names = [name for name in wanted | got if got.get(name) != wanted.get(name)]
    wrong = {name: [wanted.get(name), got.get(name)] for name in names[:5]}
    return {"case": case, "tensors": len(wanted), "wrong": len(names), "first": wrong} | {
        "passed": bool(wanted) and not names
    }


def table(quantize: Quantize) -> Iterator[Row]:
    """Every recipe on every model."""
    for model in MODELS:
        path = write_hollow(model, quantize.work)
        for name, recipe in RECIPES.items():
            got = quantize.types(path, name)
            yield compare(f"{model.name}/{name}", got, model.wanted(recipe))
            if model.name == "qwen35-mtp" and name in CENSUS:
                counts = dict(Counter(got.values()))
                case = f"published/{name}"
                yield {"case": case, "counts": counts, "passed": counts == CENSUS[name]}


def options(quantize: Quantize) -> Iterator[Row]:
    """Options of the user go before the recipe; numbers and aliases mean the same."""
    model = MODELS[0]
    path = write_hollow(model, quantize.work)
    lean = model.wanted(RECIPES["Q4_0_ROCMFP4_STRIX_LEAN"])
    mix = model.wanted(RECIPES["Q4_0_ROCMFP4"])
    cases: dict[str, tuple[tuple[str, ...], Types]] = {
        "number 106": (("106",), lean),
        "number 100": (("100",), mix),
        "lower case": (("q4_0_rocmfp4_strix_lean",), lean),
        "pure": (("--pure", "Q4_0_ROCMFP4"), dict.fromkeys(lean, DUAL)),
        "alias EVEN": (("Q4_0_ROCMFP4_EVEN",), dict.fromkeys(lean, DUAL)),
        "alias FAST_EVEN": (("Q4_0_ROCMFP4_FAST_EVEN",), dict.fromkeys(lean, FAST)),
        "embeddings": (
            ("--token-embedding-type", "q8_0", "Q4_0_ROCMFP4_STRIX_LEAN"),
            lean | {"token_embd.weight": "q8_0"},
        ),
        "output": (
            ("--output-tensor-type", Q6, "Q4_0_ROCMFP4_STRIX_LEAN"),
            lean | {"output.weight": Q6},
        ),
        "tensor": (
            ("--tensor-type", f"blk.3.attn_k={Q2}", "Q4_0_ROCMFP4_STRIX_LEAN"),
            lean | {"blk.3.attn_k.weight": Q2},
        ),
    }
    for name, (words, wanted) in cases.items():
        yield compare(f"options/{name}", quantize.types(path, *words), wanted)
    for number in ("105000", "113", "107"):
        refused = quantize.run("--dry-run", path, number).returncode != 0
        yield {"case": f"options/{number} is refused", "passed": refused}


# --- real runs ----------------------------------------------------------------------------------

ROW: Final = 8
WEIGHT: Final = "blk.0.ffn_up.weight"


def write_rows(path: Path, row: Sequence[float]) -> None:
    """Write a model with one tensor, all of its rows alike."""
    shapes: Shapes = {WEIGHT: (len(row), ROW)}
    data = struct.pack(f"<{len(row)}f", *row) * ROW
    path.write_bytes(pack(describe(Model("rows", 1, shapes)), shapes) + data)


def write_imatrix(path: Path, weights: Sequence[float]) -> None:
    """Write an importance matrix of one tensor, in the older form, which is enough here."""
    name = WEIGHT.encode()
    entry = struct.pack("<i", len(name)) + name + struct.pack("<ii", 1, len(weights))
    values = struct.pack(f"<{len(weights)}f", *weights)
    path.write_bytes(struct.pack("<i", 1) + entry + values)


def quantised_row(quantize: Quantize, name: str, size: int, *words: str | Path) -> str:
    """Quantise the rows and give the bytes of the first one, all must be alike."""
    target = quantize.work / "quantised.gguf"
    target.unlink(missing_ok=True)
    quantize.run("--pure", *words, quantize.work / "rows.gguf", target, name, "2")
    data = target.read_bytes()[-tiny.padded(ROW * size) :][: ROW * size]
    rows = {data[start : start + size].hex() for start in range(0, len(data), size)}
    return rows.pop() if len(rows) == 1 else "rows differ"


PURE: Final = {
    "Q4_0_ROCMFP4": (18, 2),
    "Q4_0_ROCMFP4_FAST": (17, 1),
    "Q6_0_ROCMFPX": (26, 2),
    "Q8_0_ROCMFPX": (33, 1),
    "Q3_0_ROCMFPX": (14, 2),
    "Q2_0_ROCMFPX": (10, 2),
}


def encodes(quantize: Quantize) -> Iterator[Row]:
    """The golden vectors, through the whole program, with and without an importance matrix."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    vectors = {(v["case"], v["type"]): v["hex"].replace(" ", "") for v in golden["vectors"]}
    write_rows(quantize.work / "rows.gguf", golden["inputs"]["G"])
    matrix = quantize.work / "matrix.dat"
    for name, (size, n_scales) in PURE.items():
        write_imatrix(matrix, golden["inputs"]["W"])
        plain = quantised_row(quantize, name, size)
        weighted = quantised_row(quantize, name, size, "--imatrix", matrix)
        yield {"case": f"encode/{name}", "passed": plain == vectors["G", name]}
        yield {"case": f"imatrix/{name}", "passed": weighted == vectors["G_imatrix", name]}
        yield from without_weights(quantize, matrix, name, size, n_scales)
    yield from half_without_weights(quantize, golden["inputs"]["G"])


def without_weights(
    quantize: Quantize, matrix: Path, name: str, size: int, n_scales: int
) -> Iterator[Row]:
    """A group of weights that are all zero is encoded as if they were alike, the others as ever."""
    half = 32 // n_scales
    found = []
    for weights in ([0.0] * half + [3.0] * (32 - half), [1.0] * half + [3.0] * (32 - half)):
        write_imatrix(matrix, weights)
        found.append(quantised_row(quantize, name, size, "--imatrix", matrix))
    scales = bytes.fromhex(found[0])[-n_scales:]
    passed = found[0] == found[1] and min(scales) > 1
    yield {"case": f"no weights/{name}", "scales": scales.hex(), "passed": passed}


def half_without_weights(quantize: Quantize, row: Sequence[float]) -> Iterator[Row]:
    """A scale of 32 with weights for a half is the encoder's matter: large values without go."""
    mixed = [16 * value for value in row[:16]] + [1.1 * value for value in row[16:]]
    write_rows(quantize.work / "rows.gguf", mixed)
    matrix = quantize.work / "matrix.dat"
    for name, (size, n_scales) in PURE.items():
        if n_scales == 1:
            found = []
            for weight in (0.0, 1e-30):
                write_imatrix(matrix, [weight] * 16 + [3.0] * 16)
                found.append(quantised_row(quantize, name, size, "--imatrix", matrix))
            yield {"case": f"half without weights/{name}", "passed": found[0] == found[1]}


def written_type(quantize: Quantize) -> Iterator[Row]:
    """The file says its recipe's number."""
    key = tiny.pack_text("general.file_type") + struct.pack("<I", 4)
    for name, recipe in RECIPES.items():
        target = quantize.work / "typed.gguf"
        target.unlink(missing_ok=True)
        quantize.run(quantize.work / "rows.gguf", target, name, "2")
        said = target.read_bytes().partition(key)[2][:4] if target.is_file() else b""
        passed = said == struct.pack("<I", recipe.number)
        yield {"case": f"file type/{name}", "passed": passed}


def gather(quantize: Quantize) -> list[Row]:
    """Run all cases; a program that writes nothing fails its case."""
    rows: list[Row] = []
    for group in (table, options, encodes, written_type):
        try:
            rows += group(quantize)
        except (FileNotFoundError, ValueError) as error:
            detail = f"llama-quantize wrote no file: {error}"
            rows.append({"case": group.__name__, "passed": False, "detail": detail})
    return rows


def report(rows: list[Row], reason: str = "") -> int:
    """Write the result, the only output of this program, and give the exit status."""
    passed = bool(rows) and all(row["passed"] for row in rows)
    wrong = [row for row in rows if not row["passed"]]
    document = {"check": CHECK, "cases": len(rows), "passed": passed, "wrong": wrong}
    document |= {"reason": reason} if reason else {}
    sys.stdout.write(json.dumps(document, indent=1) + "\n")
    return PASS if passed else FAIL


def main() -> int:
    """Read the command line, which is that of all checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bin", "--source", "--work"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--root", type=Path, help="not used")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    program = (arguments.bin / "llama-quantize").resolve()
    if not program.is_file():
        report([], f"{program} is missing: build the step")
        return NO_ENVIRONMENT
    return report(gather(Quantize(program, arguments.work.resolve())))


if __name__ == "__main__":
    sys.exit(main())
