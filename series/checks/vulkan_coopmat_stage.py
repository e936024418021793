"""Does the shared-memory estimate of mul_mm count its staging buffer as the shader declares it?

    python vulkan_coopmat_stage.py --source TREE --work DIR [--root TOOLCHAIN_ROOT]

Reads the staging term of ggml_vk_matmul_shmem_support and the size of coopmat_stage in mul_mm.comp,
and compares their bytes for workgroups of 1 to 8 warps. With a toolchain root it also compiles the
large tile of AMD with RADV: what is left of its LDS beside the tiles is the staging buffer.
Exit status: 0 they agree, 1 they do not, 2 a tool failed, 3 the root is incomplete, 4 nothing was
found.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from isa_toolchain import Compiled, Pipeline, Toolchain, report, run_check

CHECK = "vulkan_coopmat_stage"
HOST = Path("ggml/src/ggml-vulkan/ggml-vulkan.cpp")
SOURCE = "mul_mm.comp"
SHADER = Path("ggml/src/ggml-vulkan/vulkan-shaders") / SOURCE
VARIANT = "matmul_f16_cm1"
DEFINES = ("GGML_VULKAN_COOPMAT_GLSLC_SUPPORT",)
# the large tile of AMD, aligned, without padding; BK is 32 in the f16 shader
TILE = (256, 128, 128, 32, 64, 64, 2, 16, 16, 16, 64, 1, 0, 0)
WARPS = (1, 2, 4, 8)
SIDE = 16
FLOAT_BYTES = 4
HALF_BYTES = 2
SUBGROUP = 64
PUSH_CONSTANTS = 16 * 4
BINDINGS = 3

ESTIMATE = re.compile(r"coopmat_stage = device->coopmat_support \? (.+?) : 0;")
DECLARED = re.compile(r"shared ACC_TYPE coopmat_stage\[(.+?)\];")


def evaluate(expression: str, warps: int) -> int | None:
    """The value of a chain of products and quotients, None when a word is not known."""
    names = {"warptile[7]": SIDE, "warptile[8]": SIDE, "TM": SIDE, "TN": SIDE}
    names |= {"warps": warps, "NUM_WARPS": warps, "sizeof(float)": FLOAT_BYTES}
    words = expression.split()
    if any(word not in names for word in words[::2]):
        return None
    value = names[words[0]]
    for operator, word in zip(words[1::2], words[2::2], strict=True):
        value = value * names[word] if operator == "*" else value // names[word]
    return value


def find(pattern: re.Pattern[str], path: Path) -> str | None:
    """What the pattern's group holds in a file."""
    match = pattern.search(path.read_text()) if path.is_file() else None
    return match[1] if match else None


def row(estimate: str, declared: str, warps: int) -> dict[str, object]:
    """One line of the report."""
    values = evaluate(declared, warps)
    counted = evaluate(estimate, warps)
    used = None if values is None else values * FLOAT_BYTES
    return {"warps": warps, "counted": counted, "used": used, "passed": counted == used is not None}


def compiled_row(estimate: str, answer: Compiled) -> dict[str, object]:
    """What the driver allocates beside the two tiles, against the estimate."""
    tiles = (TILE[1] + TILE[2]) * TILE[3] * HALF_BYTES
    used, warps = int(answer.statistics["LDS size"]) - tiles, TILE[0] // TILE[10]
    counted = evaluate(estimate, warps)
    return {"shader": VARIANT, "counted": counted, "used": used, "passed": counted == used}


def measure(toolchain: Toolchain | None, tree: Path) -> int:
    """Read, compile where there is a toolchain, report, and return the exit status."""
    estimate, declared = find(ESTIMATE, tree / HOST), find(DECLARED, tree / SHADER)
    if estimate is None or declared is None:
        return report(CHECK, [], [])
    rows, answers = [row(estimate, declared, warps) for warps in WARPS], list[Compiled]()
    if toolchain is not None:
        shaders = toolchain.shaders(tree, SOURCE, (VARIANT,), DEFINES)
        spec = dict(enumerate(TILE))
        answers = [
            toolchain.compile(Pipeline(path, spec, SUBGROUP, PUSH_CONSTANTS, BINDINGS))
            for path in shaders
        ]
        rows += [compiled_row(estimate, answer) for answer in answers]
    return report(CHECK, rows, answers)


if __name__ == "__main__":
    sys.exit(run_check(Path(__file__), __doc__, measure))
