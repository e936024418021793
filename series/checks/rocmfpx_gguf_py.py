"""Check that gguf-py encodes and decodes the ROCmFPx types as ggml does, byte for byte.

    python rocmfpx_gguf_py.py --bin BIN --source TREE --work DIR [--blocks N] [--root ROOT]

Compares numpy with the built libggml-base on random blocks (of every scale), on the edge cases of
upstream's test file (ties, zeros with a sign, NaN, infinities, overflow) and on random bytes, which
hold every code and every scale byte, the invalid ones too. Also: the golden vectors, names, sizes
and numbers against the headers, and a file written and read back. `--blocks` is per type; 1000000
takes a minute of CPU time.
Exit status: 0 holds, 1 does not hold, 3 numpy, PyYAML or the library is missing.
"""

import argparse
import ctypes
import importlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from check_rows import report_rows

CHECK: Final = "rocmfpx-gguf-py"
NO_ENVIRONMENT: Final = 3
GOLDEN: Final = Path(__file__).with_name("rocmfpx_golden.json")
BLOCK: Final = 32
ROW: Final = 256  # blocks
PIECE: Final = 16384  # blocks
# name, id, bytes of a block (facts of the format, not read from the patch)
TYPES: Final = (
    ("Q4_0_ROCMFP4", 100, 18),
    ("Q4_0_ROCMFP4_FAST", 101, 17),
    ("Q6_0_ROCMFPX", 102, 26),
    ("Q8_0_ROCMFPX", 103, 33),
    ("Q3_0_ROCMFPX", 104, 14),
    ("Q2_0_ROCMFPX", 107, 10),
)
Row: TypeAlias = dict[str, object]


class Missing(Exception):
    """Something that the check needs is not installed or not built."""


class Subject:
    """gguf-py of the source tree and the library of the build."""

    def __init__(self, source: Path, folder: Path) -> None:
        """Import gguf-py from the tree, with upstream's own wrapper of the library."""
        sys.path[:0] = [str(source / "gguf-py"), str(source / "gguf-py" / "tests")]
        try:
            self.np = importlib.import_module("numpy")
            self.gguf = importlib.import_module("gguf")
            self.tests = importlib.import_module("test_quants")
        except ModuleNotFoundError as error:
            raise Missing(f"{error}: pip install numpy pyyaml") from error
        found = sorted(folder.glob("libggml-base.*"))
        if not found:
            raise Missing(f"no libggml-base in {folder}: build the step")
        self.path = found[0]
        self.header = (source / "include" / "llama.h").read_text(encoding="utf-8")

    def library(self) -> Any:  # noqa: ANN401 - a class of the tree
        """Give upstream's wrapper; raises AttributeError where the library lacks a type."""
        return self.tests.GGMLQuants(self.path)

    def qtype(self, name: str) -> Any:  # noqa: ANN401 - an enumeration of the tree
        """Give a type; raises KeyError where gguf-py lacks it."""
        return self.gguf.GGMLQuantizationType[name]


def same(a: Any, b: Any, per_row: int = 1) -> int:  # noqa: ANN401 - numpy arrays
    """Count the different blocks, `per_row` in a row, by their bits: -0.0 is not 0.0."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return -1
    left, right = (x.view("uint8").reshape((a.size // a.shape[-1] * per_row, -1)) for x in (a, b))
    return int((left != right).any(axis=-1).sum())


def row(case: str, wrong: int, total: int) -> Row:
    """Report a comparison; nothing compared is wrong too."""
    return {"case": case, "compared": total, "wrong": wrong, "passed": wrong == 0 and total > 0}


def identity(subject: Subject) -> Iterator[Row]:
    """Names, ids and sizes, of gguf-py and of the library; numbers of the file types."""
    library = ctypes.CDLL(str(subject.path))
    library.ggml_type_name.restype = ctypes.c_char_p
    library.ggml_type_size.restype = ctypes.c_size_t
    library.ggml_blck_size.restype = ctypes.c_int64
    for name, number, size in TYPES:
        qtype = subject.qtype(name)
        python = (qtype.value, name.lower(), subject.gguf.GGML_QUANT_SIZES[qtype])
        c_name = (library.ggml_type_name(number) or b"").decode()
        c = (number, c_name, (library.ggml_blck_size(number), library.ggml_type_size(number)))
        wanted = (number, name.lower(), (BLOCK, size))
        yield row(f"{name}/identity", (python != wanted) + (c != wanted), 2)
    declared = re.findall(r"LLAMA_FTYPE_(MOSTLY_\w*ROCMFP\w+)\s*=\s*(\d+)", subject.header)
    numbers = {member.name: member.value for member in subject.gguf.LlamaFileType}
    wrong = [name for name, number in declared if numbers.get(name) != int(number)]
    extra = {name for name in numbers if "ROCMFP" in name} - {name for name, _ in declared}
    yield row("file types", len(wrong) + len(extra), len(declared))


def edge_cases(subject: Subject) -> Any:  # noqa: ANN401 - a numpy array
    """Give the rows of upstream's test file, whose first plane has the edge cases."""
    values = subject.np.random.default_rng(1).standard_normal((1, 16, 64 * BLOCK))
    rows = values.astype(subject.np.float32)
    subject.tests.add_rocmfpx_edge_cases(rows)
    return rows


def random_rows(subject: Subject, n_blocks: int) -> Iterator[Any]:
    """Give random blocks in pieces, each block with a scale of its own, from 2^-16 to 2^12.

    Rows of many blocks: gguf-py works on 16 rows at once, and with one block each it only waits.
    """
    source = subject.np.random.default_rng(2)
    for start in range(0, n_blocks, PIECE):
        count = min(PIECE, n_blocks - start)
        spread = 2.0 ** source.uniform(-16, 12, (count, 1))
        values = (source.standard_normal((count, BLOCK)) * spread).astype(subject.np.float32)
        yield values.reshape((-1, math.gcd(count, ROW) * BLOCK))


def encode(subject: Subject, name: str, n_blocks: int) -> Iterator[Row]:
    """Encode with both, and decode what came out with both."""
    quants, qtype, library = subject.gguf.quants, subject.qtype(name), subject.library()
    cases = {"edges": [edge_cases(subject)], "random": random_rows(subject, n_blocks)}
    for case, pieces in cases.items():
        wrong = decoded = total = 0
        for piece in pieces:
            with subject.np.errstate(all="ignore"):
                packed = quants.quantize(piece, qtype)
            per_row = piece.shape[-1] // BLOCK
            wrong += abs(same(packed, library.quantize(piece, qtype), per_row))
            values = quants.dequantize(packed, qtype)
            decoded += abs(same(values, library.dequantize(packed, qtype), per_row))
            total += piece.size // BLOCK
        yield row(f"{name}/encode {case}", wrong, total)
        yield row(f"{name}/decode {case}", decoded, total)


def decode(subject: Subject, name: str, n_blocks: int) -> Iterator[Row]:
    """Decode random bytes: all codes, all scale bytes."""
    qtype, library = subject.qtype(name), subject.library()
    size = subject.gguf.GGML_QUANT_SIZES[qtype][1]
    shape = (max(n_blocks, 4096), size)
    raw = subject.np.random.default_rng(3).integers(0, 256, shape, dtype=subject.np.uint8)
    values = subject.gguf.quants.dequantize(raw, qtype)
    yield row(
        f"{name}/decode random bytes", abs(same(values, library.dequantize(raw, qtype))), len(raw)
    )


def golden(subject: Subject) -> Iterator[Row]:
    """Encode and decode the golden vectors; gguf-py has no importance matrix."""
    document = json.loads(GOLDEN.read_text(encoding="utf-8"))
    np, quants = subject.np, subject.gguf.quants
    inputs = {key: np.array(value, np.float32) for key, value in document["inputs"].items()}
    inputs |= {"zero": np.zeros(BLOCK, np.float32), "C_prune": inputs["C"]}
    inputs["G_nan_at_3"] = np.where(np.arange(BLOCK) == 3, np.float32(np.nan), inputs["G"])
    encoded = decoded = n_encoded = 0
    for vector in document["vectors"]:
        qtype = subject.qtype(vector["type"])
        raw = np.frombuffer(bytes.fromhex(vector["hex"]), np.uint8)
        wanted = np.array(vector["dequant"], np.float32)
        decoded += same(quants.dequantize(raw, qtype)[: wanted.size], wanted) != 0
        if vector["case"] in inputs:
            n_encoded += 1
            encoded += same(quants.quantize(inputs[vector["case"]], qtype), raw) != 0
    yield row("golden/encode", encoded, n_encoded)
    yield row("golden/decode", decoded, len(document["vectors"]))


def files(subject: Subject, work: Path) -> Iterator[Row]:
    """Write a file with every type and read it back."""
    path, gguf = work / "types.gguf", subject.gguf
    values = edge_cases(subject)[0]
    packed = {name: gguf.quants.quantize(values, subject.qtype(name)) for name, _, _ in TYPES}
    writer = gguf.GGUFWriter(path, "llama")
    for name, data in packed.items():
        writer.add_tensor(name, data, raw_dtype=subject.qtype(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    read = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    for name, data in packed.items():
        tensor = read[name]
        kept = tensor.tensor_type == subject.qtype(name) and same(tensor.data, data) == 0
        yield row(f"{name}/file", int(not kept or tuple(tensor.shape) != values.shape[::-1]), 1)


def gather(subject: Subject, n_blocks: int, work: Path) -> list[Row]:
    """Run all cases; a type that is missing fails each of its own."""
    groups: dict[str, Callable[[], Iterator[Row]]] = {
        "identity": partial(identity, subject),
        "golden": partial(golden, subject),
        "file": partial(files, subject, work),
    }
    for name, _, _ in TYPES:
        groups[f"{name}/encode"] = partial(encode, subject, name, n_blocks)
        groups[f"{name}/decode"] = partial(decode, subject, name, n_blocks)
    rows: list[Row] = []
    for title, group in groups.items():
        try:
            rows += group()
        except (AttributeError, KeyError, NotImplementedError) as error:
            rows.append({"case": title, "passed": False, "detail": f"missing: {error}"})
    return rows


def main() -> int:
    """Read the command line, which is that of all checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bin", "--source", "--work"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--root", type=Path, help="not used")
    parser.add_argument("--blocks", type=int, default=100000, help="random blocks of each type")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    try:
        subject = Subject(arguments.source, arguments.bin)
        return report_rows(CHECK, gather(subject, arguments.blocks, arguments.work))
    except Missing as error:
        report_rows(CHECK, [], str(error))
        return NO_ENVIRONMENT


if __name__ == "__main__":
    sys.exit(main())
