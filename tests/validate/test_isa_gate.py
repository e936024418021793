"""Pairing pipelines, the gate, and what is printed about it. The numbers are made up."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from series.model import IsaAllowance
from tests.validate.hip_stand_ins import COMPILER as HIP
from tests.validate.isa_stand_ins import make_compiler, mat_vec, numbers
from upstream.errors import ExitCode
from validate.hip.gate import judge_kernel
from validate.hip.kernels import Kernel, KernelPair
from validate.hip.run import HipRun, HipStep
from validate.isa.banks import PAD, conflict, stride_of
from validate.isa.check import summarize
from validate.isa.judge import Change, StepChanges, Word, add_changes, exit_code, judge
from validate.isa.page import render_page
from validate.isa.place import Place
from validate.isa.run import IsaRun, Scan, Scope, add_hip, choose
from validate.isa.sources import Sources
from validate.isa.spirv import Shader, read_defaults
from validate.isa.statistics import Numbers, code_key
from validate.isa.tables import document_run, format_isa_markdown, format_run, list_changes
from validate.isa.variants import Pair, Variant, pair_variants, sweep_rows
from validate.verdict import Verdict

TILE = (256, 128, 128, 32, 64, 64, 2, 16, 16, 16, 64, 1)


def tile(shader: str, spec: tuple[int, ...] = TILE) -> Variant:
    return replace(mat_vec(), pipeline=shader, shader=shader, spec=spec)


def test_what_a_shader_is() -> None:
    found = mat_vec("iq2_xxs")
    assert (found.family, found.type, found.input, found.columns) == (
        "mat-vec",
        "iq2_xxs",
        "f32",
        8,
    )
    assert found.small
    assert found.label == "mul_mat_vec_iq2_xxs_f32_f32 wg 64 rows 4 cols 8"
    mapped = replace(found, shader="mul_mat_vec_id_q4_k_q8_1_f32_subgroup", spec=(256, 4))
    assert (mapped.family, mapped.type, mapped.columns) == ("mat-vec id", "q4_k", 0)
    assert mapped.large
    assert mat_vec(wg=256).large
    assert not any(each.large for each in (found, tile("matmul_f16"), replace(mapped, spec=())))
    assert tile("matmul_id_subgroup_q4_k_f16_cm1").family == "matmul id"
    assert tile("flash_attn_f32_f16_cm1").family == "attention"
    assert tile("rms_norm_mul_rope_f32_f16").family == "norm"
    assert tile("gated_delta_net_block_f32").family == "delta net"


def test_equal_pipelines_are_no_pair_and_the_rest_goes_by_role() -> None:
    before = [mat_vec(columns=4), mat_vec(columns=8), mat_vec("q4_k")]
    after = [mat_vec(columns=4), mat_vec(rows=2, columns=8), mat_vec("q2_k")]
    pairs = pair_variants(before, after)
    assert [(pair.before, pair.after) for pair in pairs] == [
        (before[1], after[1]),
        (None, after[2]),
        (before[2], None),
    ]


def test_scopes() -> None:
    variants = [mat_vec(), mat_vec(wg=256), tile("matmul_f16_cm1")]
    variants[1] = replace(variants[1], shader=variants[1].shader.replace("_no_shmem", ""))
    assert choose(Scope.CHANGED, variants) == []
    assert choose(Scope.USUAL, variants) == variants[:1]
    halves = variants[0].with_rows(2)
    assert choose(Scope.MAT_VEC, variants) == [*sweep_rows(variants), halves, *variants[:2]]
    assert [each.spec[1] for each in sweep_rows(variants)] == [2, 4]


@pytest.mark.parametrize(
    ("before", "after", "allowance", "word"),
    [
        (numbers(), numbers(1), None, Word.SPILLS),
        (numbers(10), numbers(10), None, Word.EQUAL),
        (numbers(10), numbers(2), None, Word.BETTER),
        (numbers(), numbers(cost=1029), None, Word.EQUAL),
        (numbers(), numbers(cost=1031), None, Word.WORSE),
        (numbers(), numbers(cost=900), None, Word.BETTER),
        (numbers(), numbers(cost=1031), IsaAllowance("why", worse=5.0), Word.ALLOWED),
        (numbers(), numbers(cost=1060), IsaAllowance("why", worse=5.0), Word.WORSE),
        (numbers(), numbers(4), IsaAllowance("why", spilled=4), Word.ALLOWED),
        (numbers(), numbers(5), IsaAllowance("why", spilled=4), Word.SPILLS),
        (None, numbers(), None, Word.EQUAL),
        (None, numbers(7), None, Word.SPILLS),
        (numbers(), None, None, Word.EQUAL),
        (numbers(), Numbers(error="signal 11"), None, Word.INVALID),
        (Numbers(error="signal 11"), numbers(), None, Word.INVALID),
    ],
)
def test_the_gate(
    before: Numbers | None, after: Numbers | None, allowance: IsaAllowance | None, word: Word
) -> None:
    assert judge("c", Pair(mat_vec(), mat_vec()), before, after, allowance).word is word


def step_with(*words: tuple[Numbers | None, Numbers | None]) -> StepChanges:
    pairs = [Pair(mat_vec(columns=1 + each), mat_vec(columns=1 + each)) for each in range(8)]
    changes = tuple(
        judge("stand-in", pair, before, after)
        for pair, (before, after) in zip(pairs, words, strict=False)
    )
    return StepChanges("widens.patch", "base", 10, 0, 0, changes)


def test_exit_codes_and_the_check() -> None:
    spill, crash = (numbers(), numbers(3)), (numbers(), Numbers(error="signal 11"))
    assert exit_code([step_with()]) is ExitCode.OK
    assert exit_code([step_with(spill, crash)]) is ExitCode.GATE_FAILED
    assert exit_code([step_with(crash)]) is ExitCode.INVALID
    found = summarize(step_with(crash, spill), ["stand-in"])
    assert found.verdict is Verdict.FAIL
    assert "cols 2 on stand-in: 3 more registers spilled" in found.detail
    assert summarize(step_with(crash), []).verdict is Verdict.INVALID
    assert summarize(step_with((numbers(), numbers(cost=999))), []).verdict is Verdict.PASS
    assert summarize(step_with(), []).verdict is Verdict.IDENTICAL
    left = summarize(replace(step_with(), left=34), [])
    assert (left.verdict, left.facts["left out"]) == (Verdict.INFORMATION, 34)
    assert "no AMD device runs" in left.detail


def test_a_constant_that_is_the_default_is_no_difference() -> None:
    shader = Shader("0" * 64, {0: 32, 12: 4, 13: 0})
    plain, padded = tile("matmul_f16_cm1"), tile("matmul_f16_cm1", (*TILE, 4, 0))
    other = tile("matmul_f16_cm1", (*TILE, 2, 0))
    assert code_key(plain, shader) == code_key(padded, shader)
    assert code_key(plain, shader) != code_key(other, shader)


def test_defaults_of_a_module() -> None:
    words = [0x07230203, 0x10000, 0, 20, 0]
    words += [4 << 16 | 71, 7, 1, 12, 4 << 16 | 71, 8, 1, 13, 3 << 16 | 71, 9, 2]
    words += [4 << 16 | 50, 2, 7, 4, 3 << 16 | 49, 3, 8]
    assert read_defaults(struct.pack(f"<{len(words)}I", *words)) == {12: 4, 13: 0}


@pytest.mark.parametrize(
    ("pad", "stride", "factors"),
    [
        (0, 16, (16, 8, 4)),
        (2, 18, (2, 1, None)),
        (4, 20, (4, 2, 1)),
        (6, 22, (2, 1, None)),
        (8, 24, (8, 4, 2)),
    ],
)
def test_bank_conflicts(pad: int, stride: int, factors: tuple[int | None, ...]) -> None:
    assert stride_of(tile("matmul_f16_cm1", (*TILE, pad, 0))) == stride
    assert tuple(conflict(stride, width) for width in ("b32", "b64", "b128")) == factors


@pytest.mark.parametrize("depth", [16, 32, 64])
@pytest.mark.parametrize("width", ["b32", "b64", "b128"])
def test_the_default_pad_is_the_best_that_rule_08986_allows(depth: int, width: str) -> None:
    """Rows of f16 that are 16-byte aligned, whatever the load: another width is no other pad."""
    factors = {pad: conflict(depth // 2 + pad, width) or 99 for pad in range(0, 20, 4)}
    assert factors[PAD] == min(factors.values())


def test_strides_of_other_tiles() -> None:
    assert stride_of(tile("matmul_f16_cm1")) == 20
    assert stride_of(tile("matmul_quant_f16_cm1", (*TILE, 2, 6, 0))) == 22
    assert stride_of(tile("matmul_q4_k_q8_1_cm1")) == 36
    assert stride_of(tile("matmul_id_q4_k_q8_1_cm1")) == 20
    assert stride_of(tile("matmul_f16")) is None
    assert stride_of(mat_vec()) is None


def test_a_digest_follows_includes(tmp_path: Path) -> None:
    (tmp_path / "a.comp").write_text('#if X\n #include "b.glsl"\n#endif\n#include "gone.glsl"\n')
    (tmp_path / "b.glsl").write_text('#include "a.comp"\n// one\n')
    (tmp_path / "c.glsl").write_text("// not included\n")
    first = Sources(tmp_path).digest((tmp_path / "a.comp").resolve())
    (tmp_path / "c.glsl").write_text("// changed\n")
    assert Sources(tmp_path).digest((tmp_path / "a.comp").resolve()) == first
    (tmp_path / "b.glsl").write_text('#include "a.comp"\n// two\n')
    assert Sources(tmp_path).digest((tmp_path / "a.comp").resolve()) != first


@pytest.fixture
def run(tmp_path: Path) -> IsaRun:
    compiler = make_compiler(Place(tmp_path), tmp_path / "none")
    step = step_with((numbers(), numbers(3)), (numbers(), Numbers(error="signal <11>")))
    variants = [mat_vec(columns=count) for count in range(1, 9)]
    scan = Scan(
        "base", "stand-in", {each: numbers(each.columns) for each in variants[:7]}, {}, 2398
    )
    tiles = {tile("matmul_f16_cm1"): numbers()}
    tip = replace(scan, tree="tip", numbers=tiles)
    return IsaRun("b1", Scope.USUAL, (compiler,), "glslc", (step,), (scan, tip), ("x_cm2",), ("E",))


def test_the_table(run: IsaRun) -> None:
    text = format_run(run)
    assert "SPILLS" in text
    assert "0 -> 3" in text
    assert "7 of 2398" in text
    assert "not derived: 1 generated" in text
    assert "left out:" not in text
    left = replace(run, steps=(replace(run.steps[0], changes=(), left=34),))
    assert "left out: changed mat-vecs of several subgroups" in format_run(left)
    assert "34 that no AMD device runs differ" in render_page(left)


def test_kernels_join_the_table_and_the_gate(run: IsaRun) -> None:
    kernel = Kernel("norm.cu", "_Zk", "k<32>")
    change = judge_kernel("clang", KernelPair(kernel, kernel), numbers(), numbers(9))
    changes = StepChanges("widens.patch", "base", 15, 0, 0, (change,))
    both = add_hip(run, HipRun(HIP, (HipStep(("norm.cu",), changes),)))
    assert both.steps[0].same == run.steps[0].same + 15
    text = format_run(both)
    assert "HIP: compiled by stand-in 1.0: norm.cu" in text
    assert "norm.cu k<32>" in text
    assert "norm.cu k" in render_page(both)
    markdown = format_isa_markdown(list_changes(both, ["widens.patch"]))
    assert "clang (compiled, nothing executed):" in markdown
    assert "| norm.cu k<32> | SPILLS |" in markdown
    assert exit_code([add_changes(step_with(), changes)]) is ExitCode.GATE_FAILED
    nothing = HipRun(None, (HipStep((), StepChanges("widens.patch", "base", 0, 0, 0, ())),))
    assert "no ggml-cuda file changed: 0 cases" in format_run(add_hip(run, nothing))
    assert add_hip(run, nothing).steps == run.steps


def test_the_document(run: IsaRun) -> None:
    document = json.loads(json.dumps(document_run(run), default=str))
    assert document["totals"][0]["spilled"] == 28
    assert document["steps"][0]["changes"][0]["verdict"] == "SPILLS"
    assert document["not used by this device"] == ["x_cm2"]


def test_the_markdown_of_a_topic(run: IsaRun) -> None:
    text = format_isa_markdown(list_changes(run, ["widens.patch"]))
    assert text.startswith("stand-in (compiled, nothing executed):")
    assert "| mul_mat_vec_iq3_s_f32_f32 wg 64 rows 4 cols 1 | SPILLS | 128 | 0 -> 3 |" in text
    assert format_isa_markdown(list_changes(run, ["other.patch"])) == ""


def test_the_page(run: IsaRun) -> None:
    text = render_page(run)
    assert "28 registers spilled in 7 pipelines" in text
    assert "signal &lt;11&gt;" in text
    assert "stride 20: b32 4, b64 2, b128 1" in text
    assert "<script" not in text


def test_a_change_without_counterpart_has_no_percentage() -> None:
    assert Change("c", Pair(None, mat_vec()), None, numbers(), Word.EQUAL).worse is None
