"""ggml-cuda's functions for the ROCmFPx types, compiled as plain C++ and run without a GPU.

Used by rocmfpx_cuda_dequantise.py, rocmfpx_cuda_mat_vec.py and rocmfpx_cuda_matmul.py. The step's
own files are compiled, with cuda_on_host.h in place of CUDA; a launch becomes a loop over its
threads. So conversions and get_rows run as they stand; of mat-vec and matmul, the functions of one
thread do, and what is around them (launch, barriers, sums over threads) is not run at all.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from check_rows import report_rows
from rocmfpx_types import GOLDEN, TYPES, floats

NO_ENVIRONMENT, NOT_MEASURED = 3, 4
HERE: Final = Path(__file__).parent
DRIVER: Final = HERE / "rocmfpx_cuda_driver.cpp"
BACKEND: Final = Path("ggml/src/ggml-cuda")
FLAGS: Final = ("-std=c++17", "-O1", "-w", "-ffp-contract=off", "-fsanitize=address")
STAND_INS: Final = ("cuda_runtime.h", "cuda.h", "cublas_v2.h", "cuda_bf16.h", "cuda_fp16.h")
LAUNCH: Final = re.compile(r"([\w:]+(?:<[^;{}]*?>)?)\s*<<<(.*?)>>>", re.DOTALL)
# mmvq.cu up to here: which function each type uses, and how many values a thread takes
MAT_VEC_HEAD: Final = "enum mmvq_parameter_table_id"
MATMUL_KINDS: Final = ("Q4_0_ROCMFP4", "Q4_0_ROCMFP4_FAST", "Q6_0_ROCMFPX")
SUPPORTS: Final = "ggml_backend_cuda_device_supports_op("

Row = dict[str, Any]


class CannotCompile(Exception):
    """The tree has another form than this program knows."""


def read(folder: Path, name: str) -> str:
    """The text of a file of the tree. Raises CannotCompile where there is none."""
    try:
        return (folder / name).read_text("utf-8")
    except FileNotFoundError:
        raise CannotCompile(f"the tree has no {BACKEND / name}") from None


def loops_for_launches(text: str) -> str:
    """`kernel<<<grid, block>>>(x)` as a loop over its threads."""
    return LAUNCH.sub(r"for (launch l(\2); l.next();) \1", text)


@dataclass(frozen=True)
class Place:
    """Where a type must be named: between two marks of a file of ggml-cuda, in these words."""

    file: str
    first: str
    last: str
    words: str = "case GGML_TYPE_{}:"

    def names(self, folder: Path, kind: str) -> bool:
        """Tell whether it does."""
        text = read(folder, self.file)
        start = text.find(self.first, max(text.find(SUPPORTS), 0))
        return self.words.format(kind) in text[start : text.find(self.last, start + 1)]


@dataclass(frozen=True)
class Part:
    """A part of the driver: what it needs of the tree and how it is run.

    function: a file, and the function for a type that it must have. variants: preprocessor names,
    a program each.
    """

    name: str
    define: str
    function: tuple[str, str]
    places: tuple[Place, ...]
    kinds: tuple[str, ...] = tuple(TYPES)
    sources: tuple[str, ...] = ()
    variants: tuple[str, ...] = ("",)
    arguments: tuple[str, ...] = ()


DEQUANTISE: Final = Part(
    "rocmfpx-cuda-dequantise",
    "DECODE",
    ("dequantize.cuh", "dequantize_{}("),
    (Place("ggml-cuda.cu", "case GGML_OP_GET_ROWS:", "case GGML_OP_GET_ROWS_BACK:"),),
    sources=("convert.cu", "getrows.cu"),
    arguments=("decode",),
)
MAT_VEC: Final = Part(
    "rocmfpx-cuda-mat-vec",
    "DOT",
    ("vecdotq.cuh", "vec_dot_{}_q8_1("),
    (
        Place("ggml-cuda.cu", "case GGML_OP_MUL_MAT_ID:", "case GGML_OP_OUT_PROD:"),
        Place(
            "mmvq.cu",
            "static void mul_mat_vec_q_switch_type(",
            "void ggml_cuda_mul_mat_vec_q(",
            "mul_mat_vec_q_switch_ncols_dst<GGML_TYPE_{}>",
        ),
    ),
    arguments=("dot", "2000", "1"),
)
MATMUL: Final = Part(
    "rocmfpx-cuda-matmul",
    "TILES",
    ("mmq-load-tiles.cuh", "ggml_cuda_mmq_load_tiles_{}("),
    (
        Place(
            "mmq.cu", "ggml_cuda_mul_mat_q_switch_type(", "default:", "<GGML_TYPE_{}, GGML_PREC_Q8>"
        ),
        Place("mmq.cu", "bool ggml_cuda_should_use_mmq(", "default:"),
    ),
    kinds=MATMUL_KINDS,
    variants=("", "TURING_MMA_AVAILABLE"),
    arguments=("tiles", "1"),
)


# --- the tree ------------------------------------------------------------------------------------


def absent(part: Part, folder: Path) -> list[str]:
    """List what the tree lacks of a part."""
    file, function = part.function
    text = read(folder, file)
    wanted = [function.format(kind.lower()) for kind in part.kinds]
    found = [f"{file}: no {each}" for each in wanted if each not in text]
    for place in part.places:
        lacking = [kind for kind in part.kinds if not place.names(folder, kind)]
        found += [f"{place.file}: {kind} is not in {place.first}" for kind in lacking]
    return found


def prepare(folder: Path, work: Path) -> Path:
    """Copy ggml-cuda with its launches as loops, and the stand-ins."""
    copy = work / "cuda"
    (copy / "vendors").mkdir(parents=True, exist_ok=True)
    for file in [*folder.glob("*.cuh"), folder / "convert.cu", folder / "getrows.cu"]:
        (copy / file.name).write_text(loops_for_launches(file.read_text("utf-8")), "utf-8")
    head, mark, _ = read(folder, "mmvq.cu").partition(MAT_VEC_HEAD)
    if not mark:
        raise CannotCompile(f"mmvq.cu has no {MAT_VEC_HEAD}")
    (copy / "mmvq_head.cuh").write_text(head, "utf-8")
    shutil.copy(folder / "vendors/cuda.h", copy / "vendors/cuda.h")
    for name in STAND_INS:
        (copy / name).write_text('#include "cuda_on_host.h"\n', "utf-8")
    return copy


# --- the programs --------------------------------------------------------------------------------


def find_compiler() -> list[str]:
    """Find g++ or another, one that has the sanitizer. Raises FileNotFoundError."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++"))), None)
    if compiler is None:
        raise FileNotFoundError("no C++ compiler (CXX, c++, g++)")
    with tempfile.TemporaryDirectory() as folder:
        trial = [compiler, *FLAGS, "-x", "c++", "-", "-o", f"{folder}/trial"]
        done = subprocess.run(trial, input=b"int main() {}", capture_output=True)
    if done.returncode:
        raise FileNotFoundError(f"{compiler} does not compile with {' '.join(FLAGS)}")
    return [*filter(None, [shutil.which("ccache")]), compiler]


@dataclass(frozen=True)
class Workshop:
    """What compiles: the compiler, the step's tree, libraries, and a folder of our own."""

    compiler: Sequence[str]
    source: Path
    binaries: Path
    work: Path

    def compile(self, source: Path, target: Path, *words: str) -> Path:
        """Compile one file. Raises CannotCompile with what the compiler says first."""
        folders = (HERE, self.source / "ggml/include", self.source / "ggml/src", self.work / "cuda")
        include = [f"-I{folder}" for folder in folders]
        command: list[str | Path] = [
            *self.compiler,
            *FLAGS,
            *include,
            "-x",
            "c++",
            *words,
            "-c",
            source,
            "-o",
            target,
        ]
        self._run(command)
        return target

    def link(self, objects: Sequence[Path], target: Path) -> Path:
        """Link against the libraries of the step."""
        libraries = [f"-L{self.binaries}", "-lggml-cpu", "-lggml-base"]
        libraries += [f"-Wl,-rpath,{self.binaries}"]
        self._run([self.compiler[-1], *FLAGS, *objects, "-o", target, *libraries])
        return target

    def _run(self, command: Sequence[str | Path]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            raise CannotCompile("\n".join(lines[:3]) or done.stderr[-300:])


def build(shop: Workshop, part: Part, variant: str) -> Path:
    """Build the program of one variant."""
    name = "-".join(filter(None, [part.define, variant])).lower()
    words = [f"-D{each}" for each in (part.define, variant) if each]
    objects = [shop.compile(DRIVER, shop.work / f"{name}.o", *words)]
    for source in part.sources:
        objects.append(shop.compile(shop.work / "cuda" / source, shop.work / f"{source}.o"))
    return shop.link(objects, shop.work / name)


def run_program(part: Part, program: Path) -> Row:
    """Run it and make a row of what it prints."""
    done = subprocess.run([program, *part.arguments], capture_output=True, text=True)
    row: Row = {"case": program.name, "passed": False}
    try:
        row |= json.loads(done.stdout)
        return row | {"passed": done.returncode == 0 and row["cases"] > 0}
    except json.JSONDecodeError:
        return row | {"reason": f"exit {done.returncode}: {done.stderr[:600]}"}


def judge_vectors(program: Path) -> Iterator[Row]:
    """Decode the golden vectors: all bits of all values."""
    vectors = json.loads(GOLDEN.read_text("utf-8"))["vectors"]
    lines = [f"{TYPES[each['type']][0]} {each['hex'].replace(' ', '')}" for each in vectors]
    asked = "\n".join(lines) + "\n"
    done = subprocess.run([program, "vectors"], input=asked, capture_output=True, text=True)
    answers = done.stdout.splitlines() + [""] * len(vectors)
    for vector, answer in zip(vectors, answers, strict=False):
        bits = bytes(floats(vector["dequant"]))
        same = (
            b"".join(bytes.fromhex(answer)[i : i + 4][::-1] for i in range(0, len(bits), 4)) == bits
        )
        yield {"case": f"golden {vector['case']} {vector['type']}", "passed": same}


def judge(part: Part, source: Path, binaries: Path, work: Path) -> Iterator[Row]:
    """Give every row; a tree that lacks something gives what it lacks."""
    lacking = absent(part, source / BACKEND)
    if lacking:
        yield {"case": "the tree has it", "passed": False, "reason": "; ".join(lacking)}
        return
    shop = Workshop(find_compiler(), source, binaries, work)
    prepare(source / BACKEND, work)
    for variant in part.variants:
        program = build(shop, part, variant)
        yield run_program(part, program)
        if part.define == "DECODE":
            yield from judge_vectors(program)


def run_check(part: Part, text: str | None) -> int:
    """Read the command line, judge one part, and give the exit status."""
    parser = argparse.ArgumentParser(description=text)
    for name in ("--bin", "--source", "--work"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--root", type=Path, help="not used")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    source, binaries = arguments.source.resolve(), arguments.bin.resolve()
    try:
        rows = list(judge(part, source, binaries, arguments.work.resolve()))
    except FileNotFoundError as error:
        report_rows(part.name, [], str(error))
        return NO_ENVIRONMENT
    except CannotCompile as error:
        report_rows(part.name, [], f"does not compile on the host: {error}")
        return NOT_MEASURED
    return report_rows(part.name, rows)
