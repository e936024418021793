"""Planted faults in a small tree: each is found, and said in words that name both sides."""

from __future__ import annotations

import ledger_tree
import pytest
from ledger_tree import (
    GENERATOR,
    GGML_C,
    GGML_H,
    HOST,
    LLAMA_H,
    MUL_MM,
    PYTHON,
    QUANTIZE,
    RPC_H,
    SHADERS,
    STRUCTS,
    edit,
)
from tiny_project import Change, make_stack

from upstream.git import Git
from upstream.lab import Lab
from validate.ledger import Change as LedgerChange
from validate.ledger import Ledger, compare_ledgers, find_faults, read_ledger

PAD = "layout(constant_id = 3) const uint PAD = 4;"
RESHAPE = "layout(constant_id = 4) const bool RESHAPE = false;"


def read(lab: Lab, change: Change) -> tuple[Ledger, Ledger]:
    """The ledgers of the small tree and of one edit of it."""
    stack = make_stack(lab, [change], ledger_tree.FILES)
    git = Git(lab.repository)
    return read_ledger(git, stack.tree), read_ledger(git, stack.tip_tree)


def faults(lab: Lab, change: Change) -> list[str]:
    """What is wrong after an edit."""
    return [fault.text for fault in find_faults(read(lab, change)[1])]


def compare(lab: Lab, change: Change) -> list[LedgerChange]:
    """What an edit changed."""
    return list(compare_ledgers(*read(lab, change)))


def red(lab: Lab, change: Change) -> list[str]:
    """The red ones of what an edit changed."""
    return [each.text for each in compare(lab, change) if each.severity == "red"]


FAULTS: list[tuple[Change, str]] = [
    (
        edit("id collision", (GGML_H, "GGML_TYPE_Q8_0    = 4", "GGML_TYPE_Q8_0    = 2")),
        "GGML_TYPE_Q8_0 and GGML_TYPE_Q4_0 both have id 2",
    ),
    (
        edit(
            "an id of old files",
            (GGML_H, "GGML_TYPE_Q8_0    = 4", "GGML_TYPE_Q8_0    = 3"),
            (PYTHON, "Q8_0    = 4", "Q8_0    = 3"),
        ),
        "GGML_TYPE_Q8_0 takes id 3, which old files use for GGML_TYPE_Q4_2",
    ),
    (
        edit("count too low", (GGML_H, "GGML_TYPE_COUNT   = 5", "GGML_TYPE_COUNT   = 4")),
        "GGML_TYPE_COUNT = 4, but id 4 is in use",
    ),
    (
        edit("python differs", (PYTHON, "Q8_0    = 4", "Q8_0    = 5")),
        f"Q8_0 is 4 in {GGML_H} and 5 in {PYTHON}",
    ),
    (
        edit("python lacks", (PYTHON, "    MOSTLY_F16  = 1  # except 1d tensors\n", "")),
        f"MOSTLY_F16 is 1 in {LLAMA_H} and absent in {PYTHON}",
    ),
    (
        edit("C lacks", (PYTHON, "    Q8_0    = 4", "    Q8_0    = 4\n    MINE    = 100")),
        f"MINE is absent in {GGML_H} and 100 in {PYTHON}",
    ),
    (
        Change("shader ids", {SHADERS + "ggml_type_ids.glsl": "#define GGML_TYPE_Q4_0 3u\n"}),
        f"GGML_TYPE_Q4_0 is 3 in {SHADERS}ggml_type_ids.glsl and 2 in ggml.h",
    ),
    (
        edit("a forgotten assert", (RPC_H, "GGML_OP_COUNT == 3", "GGML_OP_COUNT == 2")),
        f"static_assert GGML_OP_COUNT #1 in {RPC_H} is 2, GGML_OP_COUNT is 3",
    ),
    (
        edit("a forgotten name", (GGML_C, '"DUP", ', "")),
        f"entries of GGML_OP_NAME in {GGML_C} is 2, GGML_OP_COUNT is 3",
    ),
    (
        edit("shifted in the shader", (MUL_MM, PAD, PAD.replace("3", "5"))),
        "ggml_vk_mul_mm_spec_quant fits no shader; nearest: "
        "PAD is pushed as 3, mul_mm.comp has it as 5",
    ),
    (
        edit("both have id 4", (MUL_MM, PAD, PAD.replace("3", "4"))),
        "mul_mm.comp: PAD and RESHAPE both have id 4",
    ),
    (
        edit(
            "quant layout taken over by the others",
            (
                MUL_MM,
                "layout(constant_id = 2) const uint PAD",
                "layout(constant_id = 4) const uint PAD",
            ),
        ),
        "ggml_vk_mul_mm_spec fits no shader; nearest: PAD is pushed as 2, mul_mm.comp has it as 4",
    ),
    (
        edit("renamed in the shader", (MUL_MM, "uint MmTypeA", "uint MmTypeB")),
        "ggml_vk_mul_mm_spec_quant pushes MmTypeA, which no shader has",
    ),
    (
        edit(
            "the host drops one push",
            (HOST, "        spec.push_back(type);               // constantID=2: MmTypeA\n", ""),
        ),
        "ggml_vk_mul_mm_spec_quant pushes PAD as 3 after ALIGNED as 1",
    ),
    (
        edit(
            "the host swaps pushes with their comments",
            (
                HOST,
                "            spec.push_back(0u);  // constantID=3: PAD = 0\n"
                "            spec.push_back(1u);  // constantID=4: RESHAPE = true\n",
                "            spec.push_back(1u);  // constantID=4: RESHAPE = true\n"
                "            spec.push_back(0u);  // constantID=3: PAD = 0\n",
            ),
        ),
        "ggml_vk_mul_mm_spec_quant pushes PAD as 3 after RESHAPE as 4",
    ),
    (
        edit(
            "the host swaps values, not comments",
            (
                HOST,
                "            spec.push_back(0u);  // constantID=3: PAD = 0\n"
                "            spec.push_back(1u);  // constantID=4: RESHAPE = true\n",
                "            spec.push_back(1u);  // constantID=3: PAD = 0\n"
                "            spec.push_back(0u);  // constantID=4: RESHAPE = true\n",
            ),
        ),
        "ggml_vk_mul_mm_spec_quant pushes 1u for PAD, the comment says 0",
    ),
    (  # llama.cpp issue 18634
        edit("grown in the shader only", (QUANTIZE, "{ uint ne; }", "{ uint ne; uint blocks; }")),
        "quantize_q8_1.comp reads 8 bytes of push constants, the host announces 4 "
        "(1*sizeof(uint32_t))",
    ),
    (
        edit("grown in one build only", (MUL_MM, "uint nei1;", "uint nei1; uint nbi1;")),
        "mul_mm.comp reads 16 bytes of push constants, the host announces 12 "
        "(sizeof(vk_mat_mat_push_constants))",
    ),
    (
        Change(
            "grown in an include",
            {
                SHADERS
                + "rope_params.glsl": "struct rope_params { uint n; float base; int s[5]; };\n"
            },
        ),
        "rope_norm.comp reads 28 bytes of push constants, the host announces 24 "
        "(sizeof(vk_rope_push_constants))",
    ),
    (
        edit("shrunk in the host only", (STRUCTS, "sections[4]", "sections[3]")),
        "rope_norm.comp reads 24 bytes of push constants, the host announces 20 "
        "(sizeof(vk_rope_push_constants))",
    ),
    (
        edit(
            "two members swapped in the host",
            (
                STRUCTS,
                "    uint32_t n;\n    float base { 1.0f };",
                "    float base;\n    uint32_t n;",
            ),
        ),
        "rope_norm.comp and vk_rope_push_constants disagree about the type of scalar 0",
    ),
]


@pytest.mark.parametrize(("change", "text"), FAULTS, ids=[change.name for change, _ in FAULTS])
def test_a_planted_fault_is_found(lab: Lab, change: Change, text: str) -> None:
    assert text in faults(lab, change)


RED: list[tuple[Change, str]] = [
    (
        edit("a dropped case", (HOST, "        case GGML_OP_DUP:\n", "")),
        "supports_op of vulkan has no case GGML_OP_DUP any more",
    ),
    (
        edit("a dropped type", (HOST, "                case GGML_TYPE_Q4_0:\n", "")),
        "supports_op of vulkan: GGML_OP_MUL_MAT has lost its case GGML_TYPE_Q4_0",
    ),
    (
        edit(
            "an id moved on both sides",
            (GGML_H, "GGML_TYPE_Q8_0    = 4", "GGML_TYPE_Q8_0    = 6"),
            (GGML_H, "GGML_TYPE_COUNT   = 5", "GGML_TYPE_COUNT   = 7"),
            (PYTHON, "Q8_0    = 4", "Q8_0    = 6"),
        ),
        "GGML_TYPE_Q8_0 of ggml_type was 4, is 6",
    ),
    (
        edit("a type gone", (PYTHON, "    Q8_0    = 4\n", "")),
        "Q8_0 (4) is gone from GGMLQuantizationType",
    ),
    (
        edit(
            "a new op without a new protocol",
            (GGML_H, "GGML_OP_MUL_MAT, GGML", "GGML_OP_MUL_MAT, GGML_OP_MINE, GGML"),
            (GGML_C, "GGML_OP_COUNT == 3", "GGML_OP_COUNT == 4"),
            (GGML_C, '"MUL_MAT", ', '"MUL_MAT", "MINE", '),
            (RPC_H, "GGML_OP_COUNT == 3", "GGML_OP_COUNT == 4"),
        ),
        "GGML_OP_COUNT was 3, is 4, and no RPC_PROTO version changed",
    ),
    (
        edit("another default", (MUL_MM, PAD, PAD.replace("4", "6"))),
        "constant mul_mm.comp PAD "
        "2 uint = 4 [defined(COOPMAT) && !defined(MULMAT_QUANT)] | "
        "3 uint = 4 [defined(COOPMAT) && defined(MULMAT_QUANT)], now "
        "2 uint = 4 [defined(COOPMAT) && !defined(MULMAT_QUANT)] | "
        "3 uint = 6 [defined(COOPMAT) && defined(MULMAT_QUANT)]",
    ),
    (
        edit("a constant gone", (MUL_MM, RESHAPE, "")),
        "constant mul_mm.comp RESHAPE "
        "3 bool = false [defined(COOPMAT) && !defined(MULMAT_QUANT)] | "
        "4 bool = false [defined(COOPMAT) && defined(MULMAT_QUANT)], now "
        "3 bool = false [defined(COOPMAT) && !defined(MULMAT_QUANT)]",
    ),
    (
        edit("more constants than ids", (HOST, "{ device->subgroup_size }", "{ a, b }")),
        "the host passes 2 constants for quantize_q8_1, its shader has ids up to 0",
    ),
    (
        edit("no longer readable", (QUANTIZE, "uint ne;", "mat4 ne;")),
        "cannot be read any more: push constants of quantize_q8_1.comp: type mat4 of ne",
    ),
    (
        edit("no version", (RPC_H, "#define RPC_PROTO_PATCH_VERSION    0\n", "")),
        f"RPC_PROTO_PATCH_VERSION is gone from {RPC_H}",
    ),
]


@pytest.mark.parametrize(("change", "text"), RED, ids=[change.name for change, _ in RED])
def test_a_change_that_a_merge_may_hide_is_red(lab: Lab, change: Change, text: str) -> None:
    assert text in red(lab, change)


def test_values_that_change_places_are_red_and_other_values_are_not(lab: Lab) -> None:
    old = (
        "            spec.push_back(0u);  // constantID=2: PAD = 0\n"
        "            spec.push_back(1u);  // constantID=3: RESHAPE = true\n"
    )
    fields = (
        "            spec.push_back({});  // constantID=2: PAD\n"
        "            spec.push_back({});  // constantID=3: RESHAPE\n"
    )
    straight = edit("straight", (HOST, old, fields.format("device->pad", "device->reshape")))
    swapped = Change(
        "swapped",
        edit("", (HOST, old, fields.format("device->reshape", "device->pad"))).files,
    )
    stack = make_stack(lab, [straight, swapped], ledger_tree.FILES)
    git = Git(lab.repository)
    base, first, second = (
        read_ledger(git, tree) for tree in (stack.tree, *(step.tree for step in stack.steps))
    )
    assert [change.severity for change in compare_ledgers(base, first)] == ["info"]
    (change,) = compare_ledgers(first, second)
    assert (change.severity, change.name) == ("red", "ggml_vk_mul_mm_spec")
    assert find_faults(second) == ()  # the comments agree with the shader: only the diff tells


INFO: list[tuple[Change, str]] = [
    (
        edit(
            "a new type, everywhere",
            (GGML_H, "GGML_TYPE_COUNT   = 5", "GGML_TYPE_MINE = 5, GGML_TYPE_COUNT = 6"),
            (PYTHON, "    Q8_0    = 4\n", "    Q8_0    = 4\n    MINE = 5\n"),
        ),
        "GGML_TYPE_MINE = 5 is new in ggml_type",
    ),
    (
        edit(
            "grown on both sides",
            (QUANTIZE, "{ uint ne; }", "{ uint ne; uint blocks; }"),
            (HOST, "1 * sizeof(uint32_t)", "2 * sizeof(uint32_t)"),
        ),
        "",
    ),
    (
        edit("another condition", (HOST, "case GGML_OP_NONE:\n            return true;",
                                   "case GGML_OP_NONE:\n            return x;")),
        "supports_op of vulkan: the conditions of GGML_OP_NONE changed",
    ),
    (
        edit("only white space and comments", (HOST, "case GGML_OP_NONE:\n            return true;",
                                               "case GGML_OP_NONE: return  true; // all")),
        "",
    ),
    (
        edit("a new pipeline", (GENERATOR, "    string_to_spv(\"quantize_q8_1\"",
                                "    string_to_spv(\"q2\", \"rope_norm.comp\", {});\n"
                                "    string_to_spv(\"quantize_q8_1\""),
             (HOST, "#define TILE(n) n", "#define TILE(n) n\nvoid more() { create(q2_data, "
                                         "sizeof(vk_rope_push_constants)); }")),
        "pipelines new: q2",
    ),
    (
        edit("the host is longer", (STRUCTS, "uint32_t padded_N;", "uint32_t padded_N, x;")),
        "struct vk_mat_mat_push_constants had 12 bytes, has 16",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "text"), INFO, ids=[change.name for change, _ in INFO])
def test_what_is_done_properly_is_not_red(lab: Lab, change: Change, text: str) -> None:
    before, after = read(lab, change)
    found = compare_ledgers(before, after)
    assert find_faults(after) == ()
    assert all(each.severity == "info" for each in found)
    assert (text in [each.text for each in found]) if text else not found


def test_red_comes_first(lab: Lab) -> None:
    change = edit(
        "both",
        (GGML_H, "GGML_TYPE_COUNT   = 5", "GGML_TYPE_MINE = 5, GGML_TYPE_COUNT = 6"),
        (HOST, "        case GGML_OP_DUP:\n", ""),
    )
    severities = [each.severity for each in compare(lab, change)]
    assert severities == sorted(severities, reverse=True)
    assert set(severities) == {"red", "info"}
