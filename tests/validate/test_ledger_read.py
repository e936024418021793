"""What is read from a small tree in the form of llama.cpp, and from hostile texts."""

from __future__ import annotations

import json

import ledger_tree
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_tree import GENERATOR, GGML_H, HOST, PYTHON, QUANTIZE, SHADERS, STRUCTS
from tiny_project import Change, make_stack

from upstream.errors import InvalidMeasurement
from upstream.git import Git
from upstream.lab import Lab
from validate.ledger import Ledger, find_faults, read_ledger
from validate.ledger.enums import parse_c_enum
from validate.ledger.generator import Generator
from validate.ledger.host import read_sequences
from validate.ledger.macros import expand
from validate.ledger.model import from_document, to_document
from validate.ledger.ops import parse_cases
from validate.ledger.pipelines import find_calls
from validate.ledger.push import read_structs
from validate.ledger.text import (
    assignments,
    holds,
    split_arguments,
    strip_comments,
    walk_conditions,
)

NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True)


def read(lab: Lab, *changes: Change) -> Ledger:
    """The ledger of the small tree after some edits."""
    stack = make_stack(lab, changes, ledger_tree.FILES)
    return read_ledger(Git(lab.repository), stack.tip_tree)


def test_the_small_tree_has_no_fault_and_nothing_unread(lab: Lab) -> None:
    ledger = read(lab)
    assert find_faults(ledger) == ()
    assert ledger.unread == ()
    assert ledger.enum("ggml_type").holes == (3,)
    assert ledger.enum("ggml_type").retired == (("GGML_TYPE_Q4_2", 3),)
    assert [n.value for n in ledger.numbers if n.name.startswith("RPC")] == [8, 0, 0]
    assert from_document(json.loads(json.dumps(to_document(ledger)))) == ledger


def test_both_layouts_of_a_shader_are_told_apart(lab: Lab) -> None:
    layouts = [dict(x.names) for x in read(lab).layouts if x.shader == "mul_mm.comp"]
    assert {0: "BLOCK_SIZE", 1: "ALIGNED", 2: "PAD", 3: "RESHAPE"} in layouts
    assert {0: "BLOCK_SIZE", 1: "ALIGNED", 2: "MmTypeA", 3: "PAD", 4: "RESHAPE"} in layouts
    assert len(layouts) == 4


def test_a_pipeline_knows_its_shader_its_build_and_its_bytes(lab: Lab) -> None:
    pipelines = {each.spirv: each for each in read(lab).pipelines}
    sizes = {name: [block.size for block in each.blocks] for name, each in pipelines.items()}
    assert sizes == {
        "matmul_f16": [8],
        "matmul_quant_f16": [8],
        "matmul_id_f16": [12],  # MUL_MAT_ID is set in the block that names it
        "quantize_q8_1": [4],
        "rope_norm_f32": [24],
    }
    assert pipelines["matmul_f16"].size == 12
    assert pipelines["quantize_q8_1"].announced == "1*sizeof(uint32_t)"
    assert pipelines["quantize_q8_1"].constants == 1


def test_labels_in_a_row_share_their_code(lab: Lab) -> None:
    rows = {row.op: row for row in read(lab).supports if row.backend == "vulkan"}
    assert rows["GGML_OP_DUP"].inner == ("GGML_TYPE_F16", "GGML_TYPE_Q4_0")
    assert rows["GGML_OP_DUP"].digest == rows["GGML_OP_MUL_MAT"].digest
    assert rows["GGML_OP_NONE"].inner == ()


@pytest.mark.parametrize("path", [GGML_H, PYTHON, ledger_tree.CPU])
def test_a_missing_source_is_named(lab: Lab, path: str) -> None:
    with pytest.raises(InvalidMeasurement, match=path):
        read(lab, Change("gone", {path: None}))


@pytest.mark.parametrize(
    ("path", "part"),
    [
        (PYTHON, "enum GGMLQuantizationType"),
        (GGML_H, "enum ggml_type"),
        (STRUCTS, "structs"),
        (HOST, "sequences, blocks, pipelines"),
        (GENERATOR, "pipelines"),
    ],
)
def test_an_empty_ledger_is_no_measurement(lab: Lab, path: str, part: str) -> None:
    with pytest.raises(InvalidMeasurement, match=part):
        read(lab, Change("emptied", {path: "// moved elsewhere\n"}))


def test_an_enum_that_cannot_be_read_is_no_measurement(lab: Lab) -> None:
    edit = ledger_tree.edit("odd", (GGML_H, "GGML_TYPE_Q8_0    = 4", "GGML_TYPE_Q8_0 = sizeof(x)"))
    with pytest.raises(InvalidMeasurement, match="sizeof"):
        read(lab, edit)


def test_what_cannot_be_derived_is_named(lab: Lab) -> None:
    ledger = read(
        lab,
        ledger_tree.edit(
            "odd",
            (QUANTIZE, "uint ne;", "mat4 ne;"),
            (HOST, "1 * sizeof(uint32_t)", "push_size"),
            (STRUCTS, "uint32_t padded_N;", "some_class padded_N;"),
        ),
    )
    assert "struct vk_mat_mat_push_constants: type some_class of padded_N" in ledger.unread
    assert "pipeline of quantize_q8_1: bytes: none" in ledger.unread
    assert "shader quantize_q8_1.comp: no pipeline" in ledger.unread


def test_an_unknown_type_of_a_shader_is_named(lab: Lab) -> None:
    ledger = read(lab, ledger_tree.edit("odd", (QUANTIZE, "uint ne;", "mat4 ne;")))
    assert "push constants of quantize_q8_1.comp: type mat4 of ne" in ledger.unread


def test_a_pipeline_that_is_made_in_an_unknown_way_is_named(lab: Lab) -> None:
    call = 'ggml_vk_create_pipeline(device, device->pipeline_rope, "rope_norm_f32"'
    ledger = read(lab, ledger_tree.edit("odd", (HOST, call, call.replace("create", "add"))))
    assert "pipeline of rope_norm_f32: no call that was understood" in ledger.unread


def test_a_lost_include_is_named(lab: Lab) -> None:
    ledger = read(lab, Change("gone", {SHADERS + "rope_params.glsl": None}))
    assert "included file rope_params.glsl" in ledger.unread


# -- texts ----------------------------------------------------------------------------------------


@given(st.lists(st.tuples(NAMES, st.integers(0, 2000)), unique_by=lambda pair: pair[0]))
def test_explicit_enum_values_are_read_back(pairs: list[tuple[str, int]]) -> None:
    body = ",\n".join(f"    {name} = {value} /* = 7, */" for name, value in pairs)
    assert list(parse_c_enum(body)) == pairs


@given(st.lists(NAMES, unique=True, min_size=1), st.integers(-3, 50))
def test_enum_values_without_a_number_count_on(names: list[str], start: int) -> None:
    body = f"{names[0]} = {start}, // X = 3,\n" + ", ".join([*names[1:], ""])
    assert list(parse_c_enum(body)) == [(name, start + at) for at, name in enumerate(names)]


def test_an_enum_value_may_name_an_earlier_one() -> None:
    assert list(parse_c_enum("A = 0x10, B = A, C")) == [("A", 16), ("B", 16), ("C", 17)]


TREES = st.recursive(
    st.sampled_from(["X", "Y", "Z"]),
    lambda inner: st.tuples(st.sampled_from(["&&", "||"]), inner, inner) | st.tuples(inner),
    max_leaves=6,
)


def spell(tree: object) -> str:
    """The preprocessor's spelling of a tree of conditions."""
    if isinstance(tree, str):
        return f"defined({tree})"
    assert isinstance(tree, tuple)
    if len(tree) == 1:
        return f"!({spell(tree[0])})"
    return f"({spell(tree[1])} {tree[0]} {spell(tree[2])})"


def judge(tree: object, defined: set[str]) -> bool:
    """What the tree is where these macros are defined."""
    if isinstance(tree, str):
        return tree in defined
    assert isinstance(tree, tuple)
    if len(tree) == 1:
        return not judge(tree[0], defined)
    sides = judge(tree[1], defined), judge(tree[2], defined)
    return all(sides) if tree[0] == "&&" else any(sides)


@given(TREES, st.sets(st.sampled_from(["X", "Y", "Z"])))
def test_conditions_hold_as_the_preprocessor_says(tree: object, defined: set[str]) -> None:
    macros = dict.fromkeys(defined, "1")
    assert holds((spell(tree),), macros) is judge(tree, defined)
    text = f"#if {spell(tree)}\nyes\n#else\nno\n#endif\nalways"
    kept = [line for condition, line in walk_conditions(text) if holds(condition, macros)]
    assert kept == ["yes" if judge(tree, defined) else "no", "always"]


def test_exactly_one_branch_of_a_chain_is_taken() -> None:
    text = "#ifdef A\n1\n#elif defined(B) && N >= 2\n2\n#elif defined(C)\n3\n#else\n4\n#endif"
    for defined in assignments(["A", "B", "C"], (), ["A", "B", "C"]):
        macros = {**defined, "N": "2u"}
        kept = [line for condition, line in walk_conditions(text) if holds(condition, macros)]
        wanted = (
            "1" if "A" in defined else "2" if "B" in defined else "3" if "C" in defined else "4"
        )
        assert kept == [wanted]


@pytest.mark.parametrize("part", ["N >", "f(1)", "__has_include(<x>)", ""])
def test_a_condition_that_cannot_be_read_is_neither_true_nor_false(part: str) -> None:
    assert holds((part,), {}) is None


def test_an_include_guard_is_no_condition() -> None:
    text = "#if !defined(G)\n#define G\nuint x;\n#endif"
    assert [c for c, line in walk_conditions(text) if line == "uint x;"] == [()]


@given(st.lists(st.from_regex(r"[a-z(\[{]?[a-z]{1,4}", fullmatch=True), min_size=1))
def test_arguments_are_split_at_outer_commas_only(words: list[str]) -> None:
    closed = [f"{w}, x{'])}'['[({'.index(w[0])]}" if w[0] in "[({" else w for w in words]
    assert split_arguments(", ".join(closed)) == closed


def test_strings_and_comments_do_not_confuse_each_other() -> None:
    assert strip_comments('a("// no, /* no") /* yes */;') == 'a("// no, /* no")  ;'
    assert split_arguments('"a, (", b') == ['"a, ("', "b"]


def test_macros_are_expanded_as_the_preprocessor_does() -> None:
    text = (
        "#define EACH(X) X(A, a) \\\n    X(B, b)\n"
        '#define MAKE(T, t) make(T, #t "_x", m_ ## t##_data);\n'
        "EACH(MAKE)\n#undef MAKE\n#define MAKE(T, t) other(T)\nMAKE(C, )\n"
    )
    words = expand(text).split()
    assert words == ["make(A,", '"a"', '"_x",', "m_a_data);", "make(B,", '"b"', '"_x",',
                     "m_b_data);", "other(C)"]  # fmt: skip


def test_a_macro_that_names_itself_ends() -> None:
    assert "LOOP(1)" in expand("#define LOOP(x) LOOP(x)\nLOOP(1)\n")


def test_a_variable_for_the_spirv_is_followed_to_its_choices() -> None:
    text = (
        "if (x) { spv_data = one_data; } else { spv_data = y ? two_data : three_data; }\n"
        'ggml_vk_create_pipeline(device, p, name, n, spv_data, "main", 8, sizeof(T), {1}, {a, b});'
    )
    calls = list(find_calls(text))
    assert [(c.spirv, c.announced, c.constants) for c in calls] == [
        (name, "sizeof(T)", 2) for name in ("one", "two", "three")
    ]


def test_a_variable_of_any_name_is_followed() -> None:
    text = (
        "#define MUL(n) { const unsigned char * data_ = dt ? n ## _f16_data : n ## _f32_data; \\\n"
        '    ggml_vk_create_pipeline(device, p, (#n "x").c_str(), len_, data_, \\\n'
        '        "main", 3, sizeof(T), {1, 1, 1}, { (uint32_t) nr }, 1); }\n'
        "MUL(gelu)\nMUL(silu)\n"
    )
    assert [c.spirv for c in find_calls(text)] == ["gelu_f16", "gelu_f32", "silu_f16", "silu_f32"]


GENERATED = """
const std::vector<std::string> types = { "q8_0", "q2_k", };
for (const auto& tname : types) {
    std::string shader = is_k(tname) ? "vec_" + tname + ".comp" : "vec.comp";
    string_to_spv("vec_" + tname + "_f32", shader, {{"DATA", "1"}});
    shader = (tname == "f32") ? "rows.comp" : "rows_quant.comp";
    string_to_spv("rows_" + tname, shader, {});
}
string_to_spv("mm", cm2 ? "mm_cm2.comp" : "mm.comp", {}, fp16, cm1, cm2, acc);
string_to_spv("rows_i32", "rows.comp", {});
"""


@pytest.mark.parametrize(
    ("spirv", "shaders"),
    [
        ("vec_q2_k_f32", ["vec.comp", "vec_q2_k.comp"]),
        ("vec_q8_0_f32", ["vec.comp"]),  # there is no vec_q8_0.comp
        ("rows_q2_k", ["rows.comp", "rows_quant.comp"]),  # not what `shader` was before
        ("rows_i32", ["rows.comp"]),
        ("mm_f16acc_cm2", ["mm_cm2.comp"]),
        ("mm_fp32", ["mm.comp"]),
        ("vec_i32_f32", []),
    ],
)
def test_the_generator_says_which_source_a_spirv_is_from(spirv: str, shaders: list[str]) -> None:
    files = ["vec.comp", "vec_q2_k.comp", "rows.comp", "rows_quant.comp", "mm.comp", "mm_cm2.comp"]
    found = {build.shader for build in Generator(GENERATED, files).builds(spirv)}
    assert sorted(found) == shaders


def test_a_macro_of_another_function_is_not_defined() -> None:
    text = """
void one() { base_dict["ID"] = "1"; string_to_spv("one", "a.comp", base_dict); }
void two(bool x) {
    std::map<string, string> base_dict = {{"FP", "1"}};
    string_to_spv("two", "a.comp", merge_maps(base_dict, {{"B", "1"}}));
}
"""
    generator = Generator(text, ["a.comp"])
    assert generator.maybe == ["FP", "ID"]
    assert [build.without for build in generator.builds("one")] == [("FP",)]
    (build,) = generator.builds("two")
    assert (build.defines, build.without) == (("B",), ("ID",))


def test_structs_are_laid_out_as_a_compiler_does() -> None:
    text = """
#define MAX (4 + 0)
#define COUNT 3
struct vk_a_push_constants { uint32_t n; uint64_t address; float f[COUNT][2]; uint16_t h; };
struct vk_b_push_constants : vk_a_push_constants {};
struct vk_c_push_constants {
    vk_a_push_constants a; float scale { 1.0f }; int x = 3, y; void f() { g(); }
};
struct vk_d_push_constants { T t; };
struct vk_e_push_constants { uint32_t t[MAX]; };
"""
    structs, unread = read_structs({"x.h": text})
    sizes = {each.name[3]: (each.size, each.scalars) for each in structs}
    assert sizes["a"] == (48, "il" + "f" * 6 + "h")
    assert sizes["b"][0] == 48
    assert sizes["c"] == (64, sizes["a"][1] + "fii")  # 48 + 12, rounded up to 8
    assert unread == [
        "struct vk_d_push_constants: type T of t",
        "struct vk_e_push_constants: array bound MAX",
    ]


def test_pushes_are_read_in_all_their_forms() -> None:
    text = """
static std::vector<uint32_t> get_fa_spec(const state& state) {
    return {
        /* 0 Rows   */ state.rows,
        /*10 Clamp  */ static_cast<uint32_t>(!state.aligned),
    };
}
    std::vector<uint32_t> conv_spec = { a, b.K, f(1, 2) };
#define CREATE_CONV(name) \\
    std::vector<uint32_t> spec_copy = conv_spec; \\
    spec_copy.push_back(state.KW); \\
    spec_copy.push_back(conv_WM); \\
"""
    pushes, listed = sorted(read_sequences({"x": text}), key=lambda each: each.function)
    assert (listed.function, listed.base) == ("get_fa_spec", 0)
    assert [(p.id, p.name) for p in listed.pushes] == [(0, "Rows"), (10, "Clamp")]
    assert (pushes.function, pushes.base) == ("CREATE_CONV", 3)
    assert [(p.name, p.stated) for p in pushes.pushes] == [("KW", False), ("conv_WM", False)]


@given(st.lists(st.tuples(NAMES, st.sampled_from(["", "return 1;", "{ if (x) { y(); } break; }"]))))
def test_cases_get_the_code_up_to_the_next_label(cases: list[tuple[str, str]]) -> None:
    body = "\n".join(f"case {name}: {code}" for name, code in cases) + "\ndefault: return 0;"
    found = list(parse_cases(body))
    assert [name for name, _ in found] == [*(name for name, _ in cases), "(default)"]
    for at, (_, code) in enumerate(cases):
        following = next((c for _, c in cases[at:] if c), "return 0;")
        assert found[at][1].strip() == (code or following)


def test_the_case_of_an_inner_switch_is_no_case_of_the_outer_one(lab: Lab) -> None:
    ops = {row.op for row in read(lab).supports}
    assert "GGML_TYPE_F16" not in ops
