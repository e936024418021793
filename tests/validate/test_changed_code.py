"""Which operations and types the code of two built libraries differs for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_ggml import FILL, MORE_TABLES, NEW_TYPE, compile_library, needs_binutils

from validate.changed_code import Changes, compare_code, find_op, find_types
from validate.initialised import leaves_the_same
from validate.object_code import TOOLS, Code, read_code

OPS = ("ADD", "CPY", "CLAMP", "MUL_MAT", "MUL_MAT_ID", "FLASH_ATTN_EXT", "RMS_NORM_MUL")


def read(path: Path) -> Code:
    code = read_code([path])
    assert code is not None
    return code


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Code:
    return read(compile_library(tmp_path_factory.mktemp("parent") / "libggml.so"))


def compare(parent: Code, folder: Path, *edits: tuple[str, str]) -> Changes:
    return compare_code(parent, read(compile_library(folder / "libggml.so", *edits)), OPS)


@needs_binutils
def test_what_only_moves_is_not_changed(parent: Code, tmp_path: Path) -> None:
    """All addresses move, and the line numbers of assertions."""
    first = "void dequantize_row_q4_0"
    more = "long ggml_more(long k) { ASSERT(k > 2); return k * 77; }\n\n\n"
    assert len(parent.functions) > 8
    assert compare(parent, tmp_path, (first, more + first)) == Changes()


@needs_binutils
def test_a_new_type_touches_no_other(parent: Code, tmp_path: Path) -> None:
    assert compare(parent, tmp_path, *NEW_TYPE) == Changes(types=("q6_0_new",))


HALF, THIRD = "[i / 2] * 0.5f", "[i / 2] * 0.375f"


@needs_binutils
@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (('{ "q4_0", 32,', '{ "q4_0", 64,'), Changes(types=("q4_0", "q6_0_new"))),
        (("{ 0, 2 },\n    /", "{ 0, 1 },\n    /"), Changes(types=("iq4_nl", "q6_0_new"))),
        (("{ ggml_vec_dot_q4_0_q8_0, 2 }", "{ 0, 2 }"), Changes(types=("q4_0", "q6_0_new"))),
        ((HALF, THIRD), Changes(types=("q4_0", "q6_0_new"))),
        # iq4_xs calls iq4_nl's function
        (("-10, 1, 13", "-10, 1, 14"), Changes(types=("iq4_nl", "iq4_xs", "q6_0_new"))),
        (("y[i] * 0.25f", "y[i] * 0.2f"), Changes(types=("q4_0", "q6_0_new"))),
    ],
)
def test_a_fault_in_an_old_type_beside_a_new_one_is_seen(
    parent: Code, tmp_path: Path, edit: tuple[str, str], expected: Changes
) -> None:
    # the last entries of both tables are matched before the new type's are written into them
    assert compare(parent, tmp_path, edit, *NEW_TYPE) == expected


@needs_binutils
@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (("x[i] + 1.5f", "x[i] + 1.25f"), Changes(ops=("ADD", "CPY"))),
        (("y[i] += load", "y[i] -= load"), Changes(ops=("ADD",))),
        (("memset(y, op, 64)", "memset(y, op, 60)"), Changes(ops=("CLAMP",))),
        (("case 4: y[4]", "case 9: y[4]"), Changes(ops=("CLAMP",))),
        (("i < 8; i++", "i < 7; i++"), Changes(anything=("ggml_graph_compute",))),
        (("type < TYPES", "type < TYPES - 2"), Changes(anything=("ggml_new_tensor",))),
        (("k > 8 ?", "k > 9 ?"), Changes(anything=("ggml_new_tensor",))),
        (("x[k] + 2.5f", "x[k] + 3.5f"), Changes(ops=("ADD1",))),
        (('"bad file"', '"odd file"'), Changes()),
    ],
)
def test_what_is_reached_says_what_is_tested(
    parent: Code, tmp_path: Path, edit: tuple[str, str], expected: Changes
) -> None:
    assert compare(parent, tmp_path, edit) == expected


@needs_binutils
def test_what_converts_activations_is_in_every_product(parent: Code, tmp_path: Path) -> None:
    found = compare(parent, tmp_path, ("x[i] * 127.0f", "x[i] * 126.0f"))
    assert {"MUL_MAT", "MUL_MAT_ID", "FLASH_ATTN_EXT"} <= {*found.ops}
    assert found.types == ("q8_0",)


@needs_binutils
def test_what_only_writes_a_type_is_told_from_what_reads_it(parent: Code, tmp_path: Path) -> None:
    found = compare(parent, tmp_path, ("* 15.0f", "* 14.0f"))
    assert found == Changes(stored=("iq4_nl",))
    both = compare(parent, tmp_path, ("* 15.0f", "* 14.0f"), ("-10, 1, 13", "-10, 1, 14"))
    assert both == Changes(types=("iq4_nl", "iq4_xs"))


@needs_binutils
@pytest.mark.parametrize(
    ("edits", "alike"),
    [
        ((MORE_TABLES, FILL), True),
        ((MORE_TABLES, FILL, ("= expf(i)", "= expf(i + 1)")), False),
        ((MORE_TABLES, FILL, ("[i] = expf(i)", "[i / 2 * 2] = expf(i)")), False),
        ((MORE_TABLES, (FILL[0], f"{FILL[1]} ggml_table_gelu[i] = 1;")), False),
        ((MORE_TABLES, (FILL[0], "ggml_table_new[i] = sinf(i);")), False),  # calls another one
    ],
)
def test_one_more_table_at_the_start_is_seen_to_leave_the_others(
    parent: Code, tmp_path: Path, edits: tuple[tuple[str, str], ...], alike: bool
) -> None:
    step = read(compile_library(tmp_path / "libggml.so", *edits))
    assert compare_code(parent, step, OPS).anything == ("ggml_cpu_init",)
    assert leaves_the_same("ggml_cpu_init", parent, step) is alike


@needs_binutils
def test_another_table_than_known_is_everything(parent: Code, tmp_path: Path) -> None:
    found = compare(parent, tmp_path, ("long block;", "long block; long more;"))
    assert "ggml_graph_compute" in found.anything


def test_a_file_of_another_format_cannot_be_read(tmp_path: Path) -> None:
    if not all(map(shutil.which, TOOLS)):
        pytest.skip("needs binutils")
    library = tmp_path / "libggml.so"
    shutil.copyfile("/bin/true", library)
    data = bytearray(library.read_bytes())
    data[18] = 0xB7  # e_machine: AArch64
    library.write_bytes(data)
    assert read_code([library]) is None


TYPES = ("f32", "f16", "q4_0", "q4_0_fast", "q4_K", "q8_0", "q8_K", "iq4_nl", "")


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("ggml_vec_dot_q4_0_q8_0", ("q4_0",)),
        ("ggml_vec_dot_q4_0_fast_q8_0_generic", ("q4_0_fast",)),
        ("quantize_row_q4_K_ref.constprop.0", ("q4_K",)),
        ("ggml_quantize_mat_q8_K_4x8", ("q8_K",)),
        ("_ZN4ggml13tensor_traitsI10block_q4_0Ll8ELl4EE7forwardE", ("q4_0",)),
        ("_ZN4ggml13tensor_traitsI12block_iq4_nlLl8EED0Ev", ("iq4_nl",)),
        ("ggml_vec_dot_f32", ()),
        ("ggml_new_tensor", ()),
        ("block_q4_0x", ()),
    ],
)
def test_names_say_types(name: str, types: tuple[str, ...]) -> None:
    assert find_types(name, TYPES) == types


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("ggml_compute_forward_add", "ADD"),
        ("ggml_compute_forward_mul_mat_id.part.0", "MUL_MAT_ID"),
        ("_ZL34ggml_compute_forward_mul_mat_floatPK18ggml_compute_paramsP11", "MUL_MAT"),
        ("_ZL33ggml_compute_forward_rms_norm_f32PK18ggml_compute_params", None),
        ("_ZL38ggml_compute_forward_rms_norm_mul_fastPK18", "RMS_NORM_MUL"),
        ("ggml_compute_forward", None),
        ("ggml_add", None),
    ],
)
def test_names_say_operations(name: str, op: str | None) -> None:
    assert find_op(name, OPS) == op
