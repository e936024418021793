"""Does the shared-memory pad that the host chooses reach the coopmat mul_mm and its estimate?

    python vulkan_mul_mm_pad.py --source TREE --work DIR [--root TOOLCHAIN_ROOT]

Reads from ggml-vulkan.cpp which specialization constants the host pushes for mul_mm and which
device field is the pad, and compares their order with the ids in mul_mm.comp. With a toolchain
root it also compiles the shaders of both constant layouts with RADV, once for
each pad, with exactly these constants. The LDS of the compiled shader must grow as the pad and
the shared-memory estimate of the host say. A constant at a wrong id, a literal, or an estimate of
its own makes it fail.
Exit status: 0 the pad arrives everywhere, 1 it does not, 2 a tool failed, 3 the root is incomplete,
4 nothing was found.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from isa_toolchain import Compiled, Pipeline, Toolchain, report, run_check

CHECK = "vulkan_mul_mm_pad"
HOST = Path("ggml/src/ggml-vulkan/ggml-vulkan.cpp")
SOURCE = "mul_mm.comp"
SHADER = Path("ggml/src/ggml-vulkan/vulkan-shaders") / SOURCE
DEFINES = ("GGML_VULKAN_COOPMAT_GLSLC_SUPPORT",)
# which function of the host makes the constants of which shader
LAYOUTS = {
    "matmul_f16_cm1": "ggml_vk_mul_mm_spec",
    "matmul_iq3_s_f16_cm1": "ggml_vk_mul_mm_spec",
    "matmul_quant_f16_cm1": "ggml_vk_mul_mm_spec_quant",
}
# the large tile of AMD: constants 0 to 10, then what the host pushes
TILE = (256, 128, 128, 32, 64, 64, 2, 16, 16, 16, 64)
DEFAULT_PAD = 4
PADS = (0, 2, 4, 6, 8)
PUSH_VALUES = {"aligned ? 1u : 0u": 1, "type": 2}  # 2 is GGML_TYPE_Q4_0
ELEMENT_BYTES = 2
SUBGROUP = 64
PUSH_CONSTANTS = 16 * 4
BINDINGS = 3

Case = tuple[Path, int]  # a compiled shader and a pad

PUSH = re.compile(r"^\s*spec\.push_back\((.*?)\);")
PAD_ID = re.compile(r"^layout\(constant_id = (\d+)\) const uint SHMEM_STRIDE_PAD\b")
FIELD = re.compile(r"^device->(\w+)$")


@dataclass(frozen=True)
class Host:
    """What the host code says about the pad."""

    field: str | None
    factor: int | None
    pushes: dict[str, list[str]]

    def spec(self, function: str, pad: int) -> dict[int, int]:
        """The specialization constants of an AMD coopmat device whose pad is this."""
        words = [self._value(word, pad) for word in self.pushes.get(function, [])]
        return dict(enumerate((*TILE, *words)))

    def _value(self, word: str, pad: int) -> int:
        if word in PUSH_VALUES:
            return PUSH_VALUES[word]
        match = FIELD.match(word)
        if match:
            return pad if match[1] == self.field else 0
        literal = re.match(r"^(\d+)u?$", word)
        return int(literal[1]) if literal else 0

    def estimated_growth(self, pad: int) -> int | None:
        """The bytes that the host adds to its estimate for this pad, counted from the default."""
        if self.factor is None:
            return None
        return (TILE[1] + TILE[2]) * self.factor * (pad - DEFAULT_PAD) * ELEMENT_BYTES


def taken_on_amd(condition: str) -> bool:
    """Whether a condition of the host code holds on an AMD device with cooperative matrices."""
    return "INTEL" not in condition


def pushed(body: str) -> list[str]:
    """The values that one constants function pushes, in order, on an AMD device."""
    words: list[str] = []
    taken = True
    for line in re.sub(r"&&\n\s+", "&& ", body).split("\n"):
        if "if (" in line:
            taken = taken_on_amd(line)
        elif line.strip() == "}":
            taken = True
        push = PUSH.match(line)
        if push and taken:
            words.append(push[1])
    return words


def functions(text: str) -> dict[str, list[str]]:
    """Every function of the host code that makes mul_mm constants, and what it pushes."""
    pattern = r"auto const &(ggml_vk_mul_mm_spec(?:_quant)?) = (.*?)\n    \};"
    return {match[1]: pushed(match[2]) for match in re.finditer(pattern, text, re.DOTALL)}


def pad_field(text: str) -> str | None:
    """The device field that GGML_VK_MUL_MM_PAD sets."""
    start = text.find('getenv("GGML_VK_MUL_MM_PAD")')
    match = re.search(r"device->(\w+) = \(uint32_t\) ?\w+;", text[start : start + 800])
    return match[1] if start >= 0 and match else None


def estimate_factor(text: str, field: str | None) -> int | None:
    """How many elements a row grows by in the host's estimate when the pad grows by one."""
    start = text.find("static bool ggml_vk_matmul_shmem_support(")
    body = text[start : text.find("\n}\n", start)]
    line = rf"bank_conflict_offset = device->coopmat_support \? (\d+) \* device->{field} :"
    match = re.search(line, body)
    return int(match[1]) if match else None


def read_host(tree: Path) -> Host:
    """Read the host code of a tree."""
    text = (tree / HOST).read_text() if (tree / HOST).is_file() else ""
    field = pad_field(text)
    return Host(field, estimate_factor(text, field), functions(text))


def row(host: Host, shader: str, pad: int, growth: int) -> dict[str, object]:
    """One line of the report."""
    wanted = (TILE[1] + TILE[2]) * 2 * ELEMENT_BYTES * (pad - DEFAULT_PAD)
    estimated = host.estimated_growth(pad)
    return {
        "shader": shader,
        "function": LAYOUTS[shader],
        "pushed": host.pushes.get(LAYOUTS[shader], []),
        "pad": pad,
        "passed": growth == wanted == estimated,
        "lds_growth": growth,
        "estimated_growth": estimated,
        "wanted_growth": wanted,
    }


def pipeline(host: Host, shader: Path, pad: int) -> Pipeline:
    """What the host asks the driver to compile for this pad."""
    spec = host.spec(LAYOUTS[shader.stem], pad)
    return Pipeline(shader, spec, SUBGROUP, PUSH_CONSTANTS, BINDINGS)


def rows_of(host: Host, cases: list[Case], answers: list[Compiled]) -> list[dict[str, object]]:
    """The lines of the report: the LDS of each case, counted from the default pad."""
    keys = [(shader.stem, pad) for shader, pad in cases]
    sizes = [int(answer.statistics["LDS size"]) for answer in answers]
    lds = dict(zip(keys, sizes, strict=True))
    return [row(host, name, pad, lds[name, pad] - lds[name, DEFAULT_PAD]) for name, pad in lds]


def pad_ids(tree: Path) -> dict[str, int]:
    """The id of the pad's constant in the shader, by the host function that has to match it."""
    text = (tree / SHADER).read_text() if (tree / SHADER).is_file() else ""
    ids: dict[str, int] = {}
    conditions: list[str] = []
    for line in text.split("\n"):
        if line.startswith("#if"):
            conditions.append(line)
        elif line.startswith("#else"):
            conditions[-1] = "else"
        elif line.startswith("#endif"):
            conditions.pop()
        elif found := PAD_ID.match(line):
            quant = any("MULMAT_QUANT" in condition for condition in conditions)
            ids["ggml_vk_mul_mm_spec_quant" if quant else "ggml_vk_mul_mm_spec"] = int(found[1])
    return ids


def layout_rows(host: Host, ids: dict[str, int]) -> list[dict[str, object]]:
    """What the sources say: the host pushes its field at the shader's id, the estimate has it."""
    rows: list[dict[str, object]] = []
    for function, wanted in ids.items():
        words, field = host.pushes.get(function, []), f"device->{host.field}"
        found = len(TILE) + words.index(field) if field in words else None
        passed = found == wanted and host.factor == 2
        rows.append(
            {
                "function": function,
                "passed": passed,
                "shader_id": wanted,
                "host_position": found,
                "estimate_factor": host.factor,
            }
        )
    return rows


def measure(toolchain: Toolchain | None, tree: Path) -> int:
    """Read, compile where there is a toolchain, report, and return the exit status."""
    host = read_host(tree)
    rows, answers = layout_rows(host, pad_ids(tree)), list[Compiled]()
    if toolchain is not None:
        shaders = toolchain.shaders(tree, SOURCE, LAYOUTS, DEFINES)
        cases = [(shader, pad) for shader in shaders for pad in PADS]
        answers = toolchain.compile_all(pipeline(host, shader, pad) for shader, pad in cases)
        rows = [*rows, *rows_of(host, cases, answers)]
    return report(CHECK, rows, answers)


if __name__ == "__main__":
    sys.exit(run_check(Path(__file__), __doc__, measure))
