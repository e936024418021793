"""Which cases are chosen for a slow device, from what a patch touches."""

from __future__ import annotations

import pytest

from validate.vulkan.cases import (
    MATRICES,
    VECTOR,
    Interest,
    choose_cases,
    estimate_work,
    is_relevant,
    read_columns,
    read_fields,
    read_interest,
    read_type,
)

HOST = "ggml/src/ggml-vulkan/ggml-vulkan.cpp"
SHADERS = "ggml/src/ggml-vulkan/vulkan-shaders/"
TYPES = ("f16", "q4_0", "iq3_s", "q2_K")
CASES = {
    f"MUL_MAT(type_a={kind},type_b=f32,m=16,n={n},k=256,bs=[1,1],nr=[1,1])": kind != "q2_K"
    for kind in TYPES
    for n in (1, 4, 8, 64)
}
BIG = "MUL_MAT(type_a=f16,type_b=f32,m=4096,n=512,k=14336,bs=[1,1],nr=[1,1])"
SOFT = "SOFT_MAX(type=f32,ne=[16,2,1,1],mask=0)"


def diff(path: str, *lines: str, head: str = "") -> str:
    body = "\n".join(lines)
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@ {head}\n{body}\n"


@pytest.mark.parametrize(
    ("path", "lines", "head", "ops"),
    [
        (f"{SHADERS}mul_mat_vec_iq3_s.comp", ("+x",), "", {"MUL_MAT", "MUL_MAT_ID"}),
        (HOST, ("+x",), "static bool ggml_vk_matmul_shmem_support(", {"MUL_MAT", "MUL_MAT_ID"}),
        (HOST, ("-    device->fa_window = 1;", "+ y"), "", {"FLASH_ATTN_EXT"}),
        (f"{SHADERS}soft_max.comp", ("+x",), "", {"SOFT_MAX"}),
    ],
)
def test_operations_come_from_files_functions_and_lines(
    path: str, lines: tuple[str, ...], head: str, ops: set[str]
) -> None:
    found = read_interest(diff(path, *lines, head=head))
    assert ops <= {*found.ops}
    assert not found.anything
    assert found.files == (path,)


def test_a_change_that_names_nothing_is_about_everything() -> None:
    found = read_interest(diff(HOST, "+int x;"))
    assert (found.ops, found.anything, found.nothing) == ((), True, False)


def test_a_patch_of_integer_dot_shaders_alone_is_told_from_others() -> None:
    quantised = diff(f"{SHADERS}mul_mat_vecq.comp", "+x") + diff(HOST, "+mmvq")
    assert read_interest(quantised).only_integer_dot
    both = quantised + diff(f"{SHADERS}mul_mat_vec_iq3_s.comp", "+x")
    assert not read_interest(both).only_integer_dot
    assert not read_interest(diff(HOST, "+mmvq")).only_integer_dot


def test_integer_dot_shaders_are_looked_at_with_quantised_weights() -> None:
    """q8_1 is the type of their activations, and no case has weights of it."""
    found = read_interest(diff(f"{SHADERS}mul_mat_vecq_funcs.glsl", "+x", head="mul_q8_1("))
    assert (found.types, found.integer_dot) == (frozenset(), True)
    floats = {"f32", "f16"}
    assert (floats & found.kinds, "q4_0" in found.kinds) == (set(), True)
    assert floats <= read_interest(diff(HOST, "+mmvq")).kinds


def test_types_with_long_names_are_read_whole() -> None:
    names = "+#if defined(DATA_A_Q4_0_ROCMFP4_FAST)", "+mul_mat_vec_q4_0_rocmfp4_q8_1_f32"
    found = read_interest(diff(f"{SHADERS}mul_mat_vecq.comp", *names))
    assert found.types == {"q4_0_rocmfp4_fast", "q4_0_rocmfp4"}


def test_types_are_those_that_the_patch_names() -> None:
    found = read_interest(diff(f"{SHADERS}mul_mat_vec_iq3_s.comp", "-float q2_K;"))
    assert found.types == {"iq3_s", "q2_k"}
    tests = diff("tests/test-backend-ops.cpp", "+{GGML_TYPE_Q8_0}")
    more = read_interest(diff(f"{SHADERS}mul_mat_vec_iq3_s.comp", "+float f16;") + tests)
    assert more.types == {"iq3_s"}
    assert read_interest(diff(f"{SHADERS}mul_mm.comp", "+f16vec2 f16;")).types == {"f16"}


def test_columns_are_those_of_the_shaders_that_the_patch_names() -> None:
    vector = read_interest(diff(f"{SHADERS}mul_mat_vec_iq3_s.comp", "+x"))
    matrix = read_interest(diff(HOST, "+x", head="static bool ggml_vk_matmul_shmem_support("))
    both = read_interest(diff(f"{SHADERS}dequant_funcs.glsl", "+x"))
    assert (vector.columns, matrix.columns, both.columns) == (VECTOR, MATRICES, ())
    interest = Interest(("MUL_MAT",), frozenset({"iq3_s"}), MATRICES, files=(HOST,))
    (first, *others) = choose_cases(CASES, interest, limit=4).cases
    assert (read_type(first), read_columns(first)) == ("iq3_s", "more")
    assert all((read_type(case), read_columns(case)) != ("iq3_s", "more") for case in others)


def test_a_group_gives_its_smallest_case_then_its_largest() -> None:
    names = [f"MUL_MAT(type_a=f16,m={m},n=16,k=16)" for m in (16, 32, 48, 64, 80)]
    chosen = choose_cases(dict.fromkeys(names, True), Interest(("MUL_MAT",), files=(HOST,)))
    assert [int(read_fields(case)["m"]) for case in chosen.cases] == [16, 80, 48, 32, 64]


def test_a_step_that_names_no_type_gets_one_of_each_kind() -> None:
    interest = Interest(("MUL_MAT",), files=(HOST,))
    known = {case: True for case in CASES if "q2_K" in case or "q4_0" in case}
    assert {read_type(case) for case in choose_cases(known, interest, limit=3).cases} == {"q4_0"}


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        (HOST, True),
        ("ggml/src/ggml.c", True),
        ("ggml/src/ggml-backend.cpp", True),
        ("tests/test-backend-ops.cpp", True),
        ("ggml/src/ggml-cuda/mmq.cu", False),
        ("ggml/src/ggml-cpu/ops.cpp", False),
        ("common/speculative.cpp", False),
        ("docs/x.md", False),
    ],
)
def test_what_a_vulkan_device_does_not_compute_with_is_left_out(path: str, counts: bool) -> None:
    assert is_relevant(path) is counts
    assert read_interest(diff(path, "+x")).nothing is not counts


def test_every_group_gets_a_turn_and_named_types_the_first() -> None:
    interest = Interest(("MUL_MAT",), frozenset({"iq3_s"}), files=(HOST,))
    choice = choose_cases(CASES | {SOFT: True, BIG: True}, interest, limit=5)
    assert all("iq3_s" in case for case in choice.cases[:4])
    assert {read_columns(case) for case in choice.cases[:4]} == {*VECTOR, *MATRICES}
    assert "iq3_s" not in choice.cases[4]
    assert choice.planned == 17
    assert choice.skipped == {
        "not supported by device and CPU": 4,
        "too large": 1,
        "over the limit of 5": 7,
    }
    assert choice.describe().startswith("planned 17, run 5, skipped 12 (4 not supported")


def test_a_type_with_a_capital_letter_is_named_too() -> None:
    interest = Interest(("MUL_MAT",), frozenset({"q2_k"}), files=(HOST,))
    known = dict.fromkeys(CASES, True)
    assert "q2_K" in choose_cases(known, interest, limit=1).cases[0]


def test_cases_that_the_step_adds_come_first() -> None:
    added = "MUL_MAT(type_a=q4_0,type_b=f32,m=32,n=7,k=512,bs=[1,1],nr=[1,1])"
    interest = Interest(files=("tests/test-backend-ops.cpp",))
    choice = choose_cases(CASES | {added: True}, interest, added={added})
    assert (choice.cases, choice.planned) == ((added,), 1)


def test_the_work_of_a_case_is_read_from_its_sizes() -> None:
    assert estimate_work("MUL_MAT(m=16,n=2,k=256,bs=[2,3],nr=[1,1])") == 16 * 2 * 256 * 6
    assert estimate_work(SOFT) == 32
    assert estimate_work("FLASH_ATTN_EXT(hsk=64,hsv=64,nh=4,nr23=[2,1],kv=128,nb=3)") == 196608
    assert estimate_work("X()") == 0
