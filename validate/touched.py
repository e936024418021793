"""Which operations of ggml a patch touches, from the files and functions that it changes.

The table goes from source paths below ggml/src to names that `test-backend-ops -o` knows. Sources:
the names of the shaders and kernels, and tests/test-backend-ops.cpp, of llama.cpp b11549. What the
table does not know is all operations: too much is slow, too little is a fault that is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from upstream.git import Git

MATRIX = ("MUL_MAT", "MUL_MAT_ID")
ROWS = ("GET_ROWS", "SET_ROWS", "CPY")
# An operation also runs inside fused ones, which test-backend-ops names on their own.
FUSED: Mapping[str, tuple[str, ...]] = {
    "RMS_NORM": ("RMS_NORM_MUL_ADD", "RMS_NORM_MUL_ROPE", "RMS_NORM_SCALE", "ADD_RMS_NORM"),
    "NORM": ("NORM_MUL_ADD", "NORM_SCALE"),
    "MUL_MAT": ("MUL_MAT_ADD", "MUL_MAT_HADAMARD"),
    "MUL_MAT_ID": ("MUL_MAT_ID_FUSION", "MUL_MAT_ID_SHARED"),
    "ROPE": ("ROPE_SET_ROWS", "RMS_NORM_MUL_ROPE"),
    "SSM_CONV": ("SSM_CONV_BIAS_SILU",),
    "SSM_SCAN": ("SSM_SCAN_CACHE_FUSION", "SSM_SCAN_ROLLBACK"),
}
# Functions of ggml-cpu whose names are not those of their operations.
RENAMED = {"SOFT_MAX_EXT_BACK": "SOFT_MAX_BACK", "GLA": "GATED_LINEAR_ATTN", "FWHT": "MUL_MAT"}
# The first pattern that fits counts. An empty tuple: no backend computes with it.
TABLE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("*/vulkan-shaders/mul_m*", MATRIX),
    ("*/vulkan-shaders/quantize_q8_1.comp", MATRIX),
    ("*/vulkan-shaders/fwht.comp", ("MUL_MAT",)),
    ("*/vulkan-shaders/flash_attn*", ("FLASH_ATTN_EXT",)),
    ("*/vulkan-shaders/dequant_*", (*MATRIX, *ROWS)),
    ("*/vulkan-shaders/copy*", ("CPY", "CONT", "DUP", "SET_ROWS")),
    ("*/vulkan-shaders/get_rows_back*", ("GET_ROWS_BACK",)),
    ("*/vulkan-shaders/get_rows*", ("GET_ROWS",)),
    ("*/vulkan-shaders/rms_norm_back.comp", ("RMS_NORM_BACK",)),
    ("*/vulkan-shaders/rms_norm*", ("RMS_NORM",)),
    ("*/vulkan-shaders/norm.comp", ("NORM",)),
    ("*/vulkan-shaders/soft_max_back.comp", ("SOFT_MAX_BACK",)),
    ("*/vulkan-shaders/soft_max*", ("SOFT_MAX",)),
    ("*/vulkan-shaders/rope_*", ("ROPE", "ROPE_BACK")),
    ("*/vulkan-shaders/ssm_scan.comp", ("SSM_SCAN",)),
    ("*/vulkan-shaders/ssm_conv.comp", ("SSM_CONV",)),
    ("*/ggml-cuda/mm[fqv]*", MATRIX),
    ("*/ggml-cuda/fattn*", ("FLASH_ATTN_EXT",)),
    ("*/ggml-cuda/softmax.cu*", ("SOFT_MAX", "SOFT_MAX_BACK")),
    ("*/ggml-cuda/rope.cu*", ("ROPE", "ROPE_BACK")),
    ("*/ggml-cuda/norm.cu*", ("NORM", "RMS_NORM", "GROUP_NORM", "L2_NORM", "RMS_NORM_BACK")),
    ("*/ggml-cpu/llamafile/*", MATRIX),
    ("*/ggml-cpu/tiled/*", MATRIX),
    ("*/ggml-cpu/simd-gemm.h", ("FLASH_ATTN_EXT",)),
    ("*/ggml-cpu/repack.*", MATRIX),
    ("*/ggml-cpu/arch/*/repack.*", MATRIX),
    ("*/ggml-cpu/quants.*", (*MATRIX, *ROWS)),
    ("*/ggml-cpu/arch/*/quants.*", (*MATRIX, *ROWS)),
    ("*/ggml-quants.*", (*MATRIX, *ROWS)),
    ("*/gguf.cpp", ()),
    ("*/gguf.h", ()),
    ("*.md", ()),
)
# Files with one function an operation: the functions that a patch changes say which.
BY_FUNCTION = ("ggml/src/ggml-cpu/ops.cpp",)
_FILE = re.compile(r"^diff --git a/(\S+) b/(\S+)$")
_HUNK = re.compile(r"^@@ [^@]* @@(.*)$")
_FUNCTION = re.compile(
    r"ggml_compute_forward_([a-z0-9_]+?)"
    r"(?:_(?:f32|f16|bf16|i32|q|flt|any|impl|tiled|one_chunk|mul_fused|bf16_rows))*\("
)


@dataclass(frozen=True)
class Touched:
    """The ggml files of a patch and the operations to test; `unknown` files stand for all of them.

    `ops` is empty when nothing that computes is touched, or when all operations are meant. Where
    the code of the libraries was compared too (changed_code), `types` are tensor types to test, in
    `stored` those of which only writing has to be tested, and `unknown` are functions.
    """

    files: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether no operation can have changed."""
        return not (self.ops or self.unknown or self.types or self.stored)


def find_touched(git: Git, parent: str, step: str) -> Touched:
    """What the difference between two trees touches."""
    diff = git.diff(parent, step, "-U0").decode("utf-8", "replace")
    return derive_ops(read_places(diff))


def read_places(diff: str) -> dict[str, set[str]]:
    """The changed files, old and new names, each with the heads of the changed functions.

    The heads are those that git prints after a hunk's `@@`.
    """
    places: dict[str, set[str]] = {}
    current: list[str] = []
    for line in diff.splitlines():
        if found := _FILE.match(line):
            current = [found[1], found[2]]
            places |= {name: places.get(name, set()) for name in current}
        elif found := _HUNK.match(line):
            for name in current:
                places[name].add(found[1].strip())
    return places


def derive_ops(places: Mapping[str, set[str]]) -> Touched:
    """Apply the table to changed files and functions."""
    files = sorted(name for name in places if name.startswith("ggml/"))
    found = {name: _find_ops(name, places[name]) for name in files}
    unknown = tuple(name for name, ops in found.items() if ops is None)
    ops = {op for known in found.values() for op in known or ()}
    return Touched(tuple(files), () if unknown else tuple(sorted(add_fused(ops))), unknown)


def _find_ops(path: str, heads: set[str]) -> tuple[str, ...] | None:
    """The operations of one file, None when it may be any."""
    if path in BY_FUNCTION:
        found = [_FUNCTION.search(head) for head in heads]
        names = [match[1].upper() for match in found if match]
        known = bool(found) and len(names) == len(found)
        return tuple(RENAMED.get(name, name) for name in names) if known else None
    return next((ops for pattern, ops in TABLE if fnmatchcase(path, pattern)), None)


def add_fused(ops: set[str]) -> Iterator[str]:
    """The operations and those in which they run fused."""
    for op in ops:
        yield op
        yield from FUSED.get(op, ())
