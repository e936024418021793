"""Are the ROCmFPx types of a build those of the format's description?

    python rocmfpx_types.py --bin STEPBIN --source TREE --work DIR

Golden vectors (rocmfpx_golden.json) byte by byte, a second encoder written from the description
(rocmfpx_driver.cpp) on random rows, all decodings, all scale bytes, and files that must be refused
by name. Exit status: 0 holds, 1 does not hold, 3 no C++ compiler.
"""

import argparse
import ctypes
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from tiny_drafters import pack_text, padded, write_target

CHECK: Final = "rocmfpx-types"
PASS, FAIL, NO_ENVIRONMENT = 0, 1, 3
GOLDEN: Final = Path(__file__).with_name("rocmfpx_golden.json")
DRIVER: Final = Path(__file__).with_name("rocmfpx_driver.cpp")
ENCODER: Final = "ggml/src/ggml-quants-rocmfpx.c"
ROWS: Final = "3000"
MUTANTS: Final = "4000"

# name: id, bytes of a block of 32 values, bytes of its codes
TYPES: Final = {
    "Q4_0_ROCMFP4": (100, 18, 16),
    "Q4_0_ROCMFP4_FAST": (101, 17, 16),
    "Q6_0_ROCMFPX": (102, 26, 24),
    "Q8_0_ROCMFPX": (103, 33, 32),
    "Q3_0_ROCMFPX": (104, 14, 12),
    "Q2_0_ROCMFPX": (107, 10, 8),
}
HOLES: Final = (43, 99, 105, 106, 108, 0x7FFFFFFF, -1)

Outcome: TypeAlias = tuple[str, int, str]  # what was looked at, cases, what is wrong ("": nothing)


# --- golden vectors ------------------------------------------------------------------------------


def golden_inputs(inputs: dict[str, list[float]]) -> dict[str, tuple[list[float], list[float]]]:
    """Give values and importance ([]: none) of the cases that the vectors name."""
    nan = list(inputs["G"])
    nan[3] = math.nan
    return {
        "G": (inputs["G"], []),
        "G_imatrix": (inputs["G"], inputs["W"]),
        "O": (inputs["O"], []),
        "O_imatrix": (inputs["O"], inputs["WO"]),
        "C_prune": (inputs["C"], []),
        "R64": (inputs["R64"], []),
        "R64_imatrix": (inputs["R64"], inputs["WR64"]),
        "zero": ([0.0] * 32, []),
        "G_nan_at_3": (nan, []),
        "G_nan_at_3_imatrix": (nan, inputs["W"]),
        "G_zero_weights": (inputs["G"], [0.0] * 32),
        "T": (inputs["T"], []),
    }


def floats(values: Sequence[float]) -> ctypes.Array[ctypes.c_float]:
    """Give a C array."""
    return (ctypes.c_float * len(values))(*map(float, values))


@dataclass(frozen=True)
class Base:
    """The library with encoders and decoders."""

    library: ctypes.CDLL

    def encode(self, name: str, values: Sequence[float], weights: Sequence[float]) -> str:
        """Encode one row, in hexadecimal digits."""
        number, size, _ = TYPES[name]
        out = ctypes.create_string_buffer(len(values) // 32 * size)
        counts = (ctypes.c_int64(0), ctypes.c_int64(1), ctypes.c_int64(len(values)))
        importance = floats(weights) if weights else None
        self.library.ggml_quantize_chunk(number, floats(values), out, *counts, importance)
        return out.raw.hex()

    def decode(self, name: str, block: bytes) -> bytes:
        """Decode blocks, the bits of the floats."""
        n = len(block) // TYPES[name][1] * 32
        out = floats([0.0] * n)
        getattr(self.library, f"dequantize_row_{name.lower()}")(block, out, ctypes.c_int64(n))
        return bytes(out)


def golden_lines() -> str:
    """Give all vectors as the driver reads them."""
    document = json.loads(GOLDEN.read_text("utf-8"))
    cases = golden_inputs(document["inputs"])
    lines = []
    for vector in document["vectors"]:
        parts = [bytes(floats(each)) for each in (vector["dequant"], *cases[vector["case"]])]
        words = [vector["hex"].replace(" ", ""), *(each.hex() or "-" for each in parts)]
        lines.append(" ".join([str(TYPES[vector["type"]][0]), *words]) + "\n")
    return "".join(lines)


def judge_golden(base: Base) -> Iterator[Outcome]:
    """Compare every vector: bytes one way, bits the other."""
    document = json.loads(GOLDEN.read_text("utf-8"))
    cases = golden_inputs(document["inputs"])
    for vector in document["vectors"]:
        name, wanted = vector["type"], vector["hex"].replace(" ", "")
        got = base.encode(name, *cases[vector["case"]])
        yield f"{vector['case']} {name}", 1, "" if got == wanted else f"{got}, wanted {wanted}"
        same = base.decode(name, bytes.fromhex(wanted)) == bytes(floats(vector["dequant"]))
        yield f"{vector['case']} {name} decoded", 1, "" if same else "other bits"


# --- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tensor:
    """A tensor of a file; `taken` bytes in it (None: what `data` has, padded)."""

    name: str
    kind: int
    shape: tuple[int, ...]
    data: bytes
    taken: int | None = None

    @property
    def space(self) -> int:
        """The distance to the next tensor."""
        return padded(len(self.data)) if self.taken is None else self.taken


def write_file(path: Path, tensors: Sequence[Tensor], cut: int = 0) -> Path:
    """Write a GGUF file without metadata; `cut` bytes are missing at its end."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0)
    offset = 0
    for each in tensors:
        dims = struct.pack(f"<I{len(each.shape)}Q", len(each.shape), *each.shape)
        head += pack_text(each.name) + dims + struct.pack("<iQ", each.kind, offset)
        offset += each.space
    data = b"".join(each.data.ljust(each.space, b"\0") for each in tensors)
    whole = head.ljust(padded(len(head)), b"\0") + data
    path.write_bytes(whole[: len(whole) - cut])
    return path


def good(name: str, blocks: int = 8) -> Tensor:
    """Give a valid tensor of a type, one row."""
    number, size, codes = TYPES[name]
    block = bytes(range(1, codes + 1)) + bytes([0x30] * (size - codes))
    return Tensor(f"t.{number}", number, (32 * blocks,), block * blocks)


LAST: Final = Tensor("last", 0, (8,), bytes(32))


@dataclass(frozen=True)
class Files:
    """Reads files through the driver; `work` is a folder of its own."""

    program: Path
    work: Path

    def read(self, tensors: Sequence[Tensor], cut: int = 0) -> tuple[str, str]:
        """Give "read", "refused" or how it crashed, and what was said."""
        path = write_file(self.work / "case.gguf", tensors, cut)
        done = subprocess.run([self.program, "load", path], capture_output=True, text=True)
        answer = done.stdout.strip() if done.returncode == 0 else f"exit {done.returncode}"
        return answer, done.stderr

    def judge(
        self, what: str, tensors: Sequence[Tensor], *said: str, read: bool = False, cut: int = 0
    ) -> Outcome:
        """Read a file and look for all of `said` in the message."""
        answer, message = self.read(tensors, cut)
        missing = [text for text in said if text not in message]
        held = answer == ("read" if read else "refused") and not missing
        return what, 1, "" if held else f"{answer}, not said: {missing}: {message[-300:]}"


def judge_types(files: Files) -> Iterator[Outcome]:
    """Read each type; refuse it with an invalid scale, cut, or of another size."""
    for name, (number, size, codes) in TYPES.items():
        tensor = good(name)
        yield files.judge(f"{name} is read", [tensor, LAST], read=True)
        for place in range(codes, size):
            bad = bytearray(tensor.data)
            bad[3 * size + place] = 0x7F if place == codes else 0xA5
            scale = Tensor(tensor.name, number, tensor.shape, bytes(bad))
            where = f"byte {3 * size + place}"
            yield files.judge(f"{name}, scale {place}", [scale, LAST], f"'{tensor.name}'", where)
        longer = Tensor(tensor.name, number, (32 * 9 * 8,), tensor.data)
        yield files.judge(f"{name}, too few blocks", [longer, LAST], "'last' has offset")
        odd = Tensor(tensor.name, number, (32 * 8 - 1,), tensor.data)
        yield files.judge(f"{name}, part of a block", [odd, LAST], f"'{tensor.name}'")
        yield files.judge(f"{name}, cut", [LAST, tensor], f"'{tensor.name}' at", cut=40)


def judge_ids(files: Files) -> Iterator[Outcome]:
    """Refuse ids without a type, and 107 with 240 bytes per 256 values."""
    for number in HOLES:
        hole = Tensor("hole", number, (256,), bytes(256))
        yield files.judge(f"id {number}", [hole, LAST], "'hole'", "ggml type", str(number))
    seven = Tensor("seven", 107, (512,), bytes(480))
    for what, tensors in {"in front": [seven, LAST], "at the end": [LAST, seven]}.items():
        yield files.judge(f"107 of 240 bytes {what}", tensors, "'seven' at offset", "480", "layout")
    two = good("Q2_0_ROCMFPX", 1)
    yield files.judge("107, one block", [two, LAST], read=True)
    yield files.judge("107, one block at the end", [LAST, two], read=True)


# --- llama.cpp's own loader ----------------------------------------------------------------------


def run_quantize(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run llama-quantize, which loads with tensor checking on."""
    command = [folder / "llama-quantize", "--allow-requantize", *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace")


def judge_loader(folder: Path, work: Path) -> Iterator[Outcome]:
    """Write a model of each type with llama-quantize, read it back; spoil it, and it is refused."""
    plain = work / "plain.gguf"
    write_target(plain)
    for name in TYPES:
        model, back = work / f"{name}.gguf", work / "back.gguf"
        kind = f"ffn_up={name.lower()}"
        done = run_quantize(folder, "--tensor-type", kind, plain, model, "Q8_0")
        yield f"{name} is written", 1, "" if done.returncode == 0 else done.stderr[-300:]
        done = run_quantize(folder, model, back, "F16")
        yield f"{name} is loaded", 1, "" if done.returncode == 0 else done.stderr[-300:]
        spoil(model, name)
        done = run_quantize(folder, model, back, "F16")
        refusal = r"tensor 'blk\.\d+\.ffn_up\.weight'( at offset \d+)? has invalid data"
        said = re.search(refusal, done.stderr)
        held = done.returncode > 0 and said and "invalid scale 0xff" in done.stderr
        yield f"{name} is refused when spoilt", 1, "" if held else f"{done.stderr[-300:]}"


def spoil(model: Path, name: str) -> None:
    """Make the last scale of the first tensor of a type invalid."""
    number, size, _ = TYPES[name]
    raw = bytearray(model.read_bytes())
    mark = re.search(
        rb"ffn_up\.weight\x02\x00\x00\x00(.{8})(.{8})" + re.escape(struct.pack("<i", number)),
        bytes(raw),
        re.DOTALL,
    )
    if mark is None:
        raise ValueError(f"{model.name} has no tensor of type {number}")
    offset = struct.unpack_from("<Q", raw, mark.end())[0]
    raw[data_start(bytes(raw)) + offset + size - 1] = 0xFF
    model.write_bytes(bytes(raw))


def data_start(raw: bytes) -> int:
    """Find where the data begins: behind the last tensor info, all of them are two numbers more."""
    infos = [m.end() for m in re.finditer(rb"\.(?:weight|bias)[\x01-\x04]\x00\x00\x00", raw)]
    dims = raw[infos[-1] - 4]
    return padded(infos[-1] + 8 * dims + 4 + 8)


# --- all of it -----------------------------------------------------------------------------------


def build(source: Path, folder: Path, work: Path) -> Path:
    """Compile the driver against the libraries of the step."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++"))), None)
    if compiler is None:
        raise FileNotFoundError("no C++ compiler (CXX, c++, g++)")
    program = work / "driver"
    words = [compiler, "-std=c++17", "-O2", "-ffp-contract=off", f"-I{source / 'ggml/include'}"]
    libraries = [f"-L{folder}", "-lggml-cpu", "-lggml-base", f"-Wl,-rpath,{folder}", "-ldl"]
    subprocess.run([*words, DRIVER, "-o", program, *libraries], check=True)
    return program


def keeps_contraction_off(source: Path, name: str) -> bool:
    """Tell whether ggml's CMakeLists.txt compiles a file without contraction."""
    text = (source / "ggml/src/CMakeLists.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if "-ffp-contract=off" in line]
    return any(Path(name).name in line for line in lines)


def run_driver(program: Path, *arguments: str | Path, lines: str = "") -> Outcome:
    """Run a mode of the driver; `lines` go to its input."""
    command = [program, *arguments]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, errors="replace")
    mode = " ".join(map(str, arguments[:2]))
    try:
        found = json.loads(done.stdout)
    except json.JSONDecodeError:
        return mode, 1, f"exit {done.returncode}: {done.stderr[-300:]}"
    wrong = f"{found['failures']} failures: {found['first']}" if found["failures"] else ""
    return mode, found["cases"], wrong


def judge(program: Path, source: Path, folder: Path, work: Path) -> Iterator[Outcome]:
    """Give every outcome; a build without the types gives one."""
    decode = run_driver(program, "decode")
    yield decode
    if decode[2]:
        return
    yield from judge_golden(Base(ctypes.CDLL(str(folder / "libggml-base.so"))))
    yield run_driver(program, "validate")
    yield run_driver(program, "encode", ROWS, "1")
    yield run_driver(program, "dot", "1000", "1")
    # this step's base library has no FMA anyway, others' may
    off = keeps_contraction_off(source, ENCODER)
    yield "encoder without contraction", 1, "" if off else f"{ENCODER} may contract"
    files = Files(program, work)
    yield from judge_types(files)
    yield from judge_ids(files)
    all_types = write_file(work / "all.gguf", [*map(good, TYPES), LAST])
    yield run_driver(program, "fuzz", MUTANTS, "1", all_types)
    yield from judge_loader(folder, work)


def report(outcomes: Sequence[Outcome], error: str = "") -> int:
    """Write the result, the only output of this program, and give the exit status."""
    wrong = {what: text for what, _, text in outcomes if text}
    passed = bool(outcomes) and not wrong and not error
    detail = {"looked at": len(outcomes), "wrong": wrong} | ({"error": error} if error else {})
    cases = sum(cases for _, cases, _ in outcomes)
    document = {"check": CHECK, "cases": cases, "passed": passed, "detail": detail}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return PASS if passed else NO_ENVIRONMENT if error else FAIL


def main() -> int:
    """Read the command line and judge the build."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bin", "--source", "--work"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--root", type=Path, help="not used")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    folder, work = arguments.bin.resolve(), arguments.work.resolve()
    try:
        program = build(arguments.source, folder, work)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        return report([], str(error))
    return report(list(judge(program, arguments.source, folder, work)))


if __name__ == "__main__":
    sys.exit(main())
