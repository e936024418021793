"""Reading clang's remarks, pairing kernels, the gate, and what is printed about it.

The remarks are clang 17's about mmq-instance-q4_0.cu of b11549; other numbers are made up.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from series.model import IsaAllowance
from tests.validate.hip_stand_ins import COMPILER
from upstream.errors import ExitCode, InvalidMeasurement
from validate.hip.compile import Compiled
from validate.hip.gate import judge_kernel
from validate.hip.kernels import Kernel, KernelPair, pair_kernels, shorten
from validate.hip.remarks import parse_remarks
from validate.hip.survey import (
    Survey,
    document_survey,
    format_survey,
    format_survey_markdown,
    survey_exit_code,
)
from validate.isa.judge import Word
from validate.isa.statistics import Numbers

DATA = Path(__file__).parents[1] / "data/validate/hip"
REMARKS = (DATA / "mmq-q4_0-b11549-clang17.txt").read_text()
SPILLING = "_ZL9mul_mat_qIL9ggml_type2ELi128ELb1EL9ggml_prec30E"
KERNEL = Kernel("norm.cu", "_Zk", "k<32>")
PAIR = KernelPair(KERNEL, KERNEL)


def numbers(spilled: int = 0, scratch: int = 0, waves: int = 16) -> Numbers:
    return Numbers(vgprs=40, spilled_vgprs=spilled, scratch=scratch, waves=waves, access={})


def test_remarks_of_clang_17() -> None:
    found = parse_remarks(REMARKS)
    assert len(found) == 3
    assert not any("no_device_code" in symbol for symbol in found)  # a function, not a kernel
    spilling = next(n for symbol, n in found.items() if symbol.startswith(SPILLING))
    assert spilling == Numbers(
        sgprs=34, vgprs=256, spilled_vgprs=11, scratch=48, lds=0, waves=5, access={}
    )
    assert sorted(n.lds for n in found.values()) == [0, 0, 32]


def test_newer_clang_says_total_sgprs() -> None:
    assert parse_remarks(REMARKS.replace(" SGPRs: ", " TotalSGPRs: ")) == parse_remarks(REMARKS)


def test_remarks_without_a_number() -> None:
    with pytest.raises(InvalidMeasurement, match="VGPRs"):
        parse_remarks(REMARKS.replace(" VGPRs: ", " Registers: "))


def test_no_remarks() -> None:
    assert parse_remarks("norm.cu:3:1: warning: unused\n") == {}


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void norm_f32<1024>(float const*, float*, int)", "norm_f32<1024>"),
        ("void f<(ggml_type)2, (8>3), true>(char const*)", "f<(ggml_type)2, (8>3), true>"),
        ("plain(int)", "plain"),
        ("_ZL12not_demangled", "_ZL12not_demangled"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert shorten(name) == short


def test_kernels_pair_by_symbol_then_by_name() -> None:
    same, old = Kernel("a.cu", "_Z1s", "s"), Kernel("a.cu", "_Z1pi", "p")
    new, gone = Kernel("a.cu", "_Z1pl", "p"), Kernel("a.cu", "_Z1g", "g")
    fresh = [Kernel("a.cu", "_Z1oi", "o"), Kernel("a.cu", "_Z1ol", "o")]  # overloads
    pairs = pair_kernels([same, old, gone], [same, new, *fresh])
    assert [(each.before, each.after) for each in pairs] == [
        (same, same),
        (old, new),
        (None, fresh[0]),
        (None, fresh[1]),
        (gone, None),
    ]


@pytest.mark.parametrize(
    ("before", "after", "allowance", "word"),
    [
        (numbers(), numbers(1), None, Word.SPILLS),
        (numbers(9), numbers(9), None, Word.EQUAL),
        (numbers(9), numbers(2), None, Word.BETTER),
        (numbers(), numbers(scratch=4), None, Word.WORSE),
        (numbers(scratch=4), numbers(), None, Word.BETTER),
        (numbers(), numbers(waves=15), None, Word.WORSE),
        (numbers(waves=8), numbers(), None, Word.BETTER),
        (numbers(), numbers(waves=12), IsaAllowance("why", waves=4), Word.ALLOWED),
        (numbers(), numbers(waves=11), IsaAllowance("why", waves=4), Word.WORSE),
        (numbers(), numbers(2, 8), IsaAllowance("why", spilled=2), Word.WORSE),
        (numbers(), numbers(2, 8), IsaAllowance("why", spilled=2, scratch=8), Word.ALLOWED),
        (None, numbers(waves=1), None, Word.EQUAL),
        (None, numbers(7), None, Word.SPILLS),
        (None, numbers(scratch=16), None, Word.WORSE),
        (numbers(), None, None, Word.EQUAL),
        (numbers(), Numbers(error="crash"), None, Word.INVALID),
        (Numbers(error="crash"), None, None, Word.INVALID),
    ],
)
def test_the_gate(
    before: Numbers | None, after: Numbers | None, allowance: IsaAllowance | None, word: Word
) -> None:
    assert judge_kernel("c", PAIR, before, after, allowance).word is word


def survey(**files: Compiled) -> Survey:
    return Survey("b7", COMPILER, {f"{name}.cu": each for name, each in files.items()})


def test_a_survey_adds_up() -> None:
    kernels = {KERNEL: numbers(), Kernel("norm.cu", "_Zs", "s"): numbers(11, 48, 5)}
    found = survey(norm=Compiled(kernels), host=Compiled(), bad=Compiled(error="no such type"))
    text = format_survey(found)
    assert "b7: 3 files, 1 of them INVALID, 2 kernels, compiled by stand-in" in text
    assert "11 registers in 1 kernel" in text
    assert "norm.cu s: 11 VGPRs and 0 SGPRs spilled, 48 B scratch, 40 VGPRs, 5 waves" in text
    assert "INVALID: no such type" in text
    assert "no kernel: host code only" in text
    assert "| norm.cu | 2 | 11 registers in 1 kernel | up to 48 B in 1 kernel | 40 | 5 |" in (
        format_survey_markdown(found)
    )
    assert document_survey(found)["tree"] == "b7"


def test_a_survey_of_no_kernel_is_invalid() -> None:
    assert survey_exit_code(survey(norm=Compiled({KERNEL: numbers(5)}))) is ExitCode.OK
    assert survey_exit_code(survey(host=Compiled())) is ExitCode.INVALID
    assert survey_exit_code(survey(bad=Compiled(error="x"))) is ExitCode.INVALID
