"""llama-perplexity: files and figures, and verdicts on runs of fakes (labelled)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from script_programs import make_room, make_step

from series.model import Numerics
from upstream.errors import EnvironmentFault, InvalidMeasurement
from upstream.lab import Lab
from validate import divergence, float_model
from validate.artifacts import StepBinaries
from validate.corpus import open_corpus
from validate.divergence import (
    FLOAT,
    Divergence,
    Measured,
    check_divergence,
    make_limit,
    parse_divergence,
    require_logits,
)
from validate.verdict import CheckResult, Verdict

# As b11549 prints it; the second columns are what nobody reads.
PRINTED = """\
====== KL divergence statistics ======
Mean    KLD:  -0.000001 ±   0.000000
Maximum KLD:   0.000044
99.9%   KLD:   0.000043
99.0%   KLD:   0.000033
Minimum KLD:  -0.000057

Same top p: 99.902 ± 0.098 %
"""


def test_the_figures_are_read() -> None:
    assert parse_divergence(PRINTED) == Divergence(-1e-6, 4.3e-5, 4.4e-5, 99.902)


@pytest.mark.parametrize("line", ["Mean", "Maximum", "99.9%", "Same top"])
def test_a_missing_figure_is_invalid(line: str) -> None:
    text = "\n".join(each for each in PRINTED.splitlines() if not each.startswith(line))
    with pytest.raises(InvalidMeasurement, match="measured nothing"):
        parse_divergence(text)


def test_not_a_number_is_beyond_every_limit() -> None:
    floor = Divergence(0.0, 5e-5, 5e-5, 100.0)
    found = parse_divergence(PRINTED.replace("-0.000001", "-nan").replace("99.902", "-nan"))
    assert len(Measured(found, floor, FLOAT, False).find_excess()) == 2


def test_the_limit_is_the_larger_of_bound_and_three_floors() -> None:
    floor = Divergence(mean=2e-6, p999=5e-5, maximum=5e-5, same_top=99.9)
    limit = make_limit(floor, FLOAT)
    assert limit.mean == pytest.approx(6e-6)
    assert (limit.p999, limit.maximum) == (pytest.approx(1.5e-4), 5e-4)
    assert limit.same_top == pytest.approx(99.5)


@pytest.mark.parametrize("spoil", [lambda b: b[:-1], lambda b: b[:10], lambda b: b"x" + b[1:]])
def test_a_torn_file_of_logits_is_invalid(tmp_path: Path, spoil: object) -> None:
    path = tmp_path / "logits"
    whole = make_logits()
    path.write_bytes(whole)
    require_logits(path)
    assert callable(spoil)
    path.write_bytes(spoil(whole))
    with pytest.raises(InvalidMeasurement):
        require_logits(path)


def make_logits(chunks: int = 4) -> bytes:
    rows = 2 * chunks * 255 * (2 + 4)
    return struct.pack("<8sIii", b"_logits_", 512, 2, chunks) + bytes(4 * chunks * 512 + rows)


def test_the_corpus_is_there_and_a_missing_one_is_a_fault(tmp_path: Path) -> None:
    assert 60_000 < open_corpus().path.stat().st_size < 100_000
    with pytest.raises(EnvironmentFault, match="missing"):
        open_corpus(tmp_path / "none.txt")


# A fake: `mark` is a byte of its logits; the divergence is `coarse` or, of the copy in floats,
# `fine`, and zero for the build that wrote the reference.
FAKE = """
import struct
mark, coarse, fine, chunks, code = {mark!r}, {coarse!r}, {fine!r}, {chunks!r}, {code!r}
path = sys.argv[sys.argv.index("--kl-divergence-base") + 1]
model = sys.argv[sys.argv.index("-m") + 1]
open(__file__ + ".calls", "a").write("x")
if code:
    sys.exit(code)
if "--kl-divergence" not in sys.argv:
    body = bytes(4 * chunks * 512) + bytes([mark]) * (2 * chunks * 255 * 6)
    open(path, "wb").write(struct.pack("<8sIii", b"_logits_", 512, 2, chunks) + body)
    print("[1]9.0,[2]10.0,")
    print("Final estimate: PPL = 10.0 +/- 1.0", file=sys.stderr)
    sys.exit(0)
same = open(path, "rb").read()[-1] == mark
mean = 0.0 if same else fine if ".F32-" in model else coarse
print("chunk PPL KL Divergence")
print(f"Mean    KLD: {{mean:.6f}} +- 0\\nMaximum KLD: {{mean + 5e-5:.6f}}")
print(f"99.9%   KLD: {{mean + 5e-5:.6f}}\\nSame top p: 100.000 +- 0 %")
"""
QUANTIZE = "open(sys.argv[3], 'wb').write(b'GGUF floats')\n"


def make_fake(
    folder: Path,
    *,
    mark: int = 0,
    coarse: float = 0.0,
    fine: float = 0.0,
    chunks: int = 4,
    code: int = 0,
) -> StepBinaries:
    text = FAKE.format(mark=mark, coarse=coarse, fine=fine, chunks=chunks, code=code)
    programs = {divergence.TARGET: f"# {folder.name}\n{text}", float_model.TARGET: QUANTIZE}
    return make_step(folder, programs)


def judge(lab: Lab, step: StepBinaries, parent: StepBinaries, numerics: Numerics) -> CheckResult:
    return check_divergence(make_room(lab), open_corpus(), step, parent, numerics, parent)


@pytest.mark.parametrize(
    ("numerics", "mark", "coarse", "fine", "verdict", "words"),
    [
        ("bit-exact", 0, 0.0, 0.0, Verdict.PASS, "same bytes, perplexity 10"),
        ("bit-exact", 1, 0.004, 0.0, Verdict.FAIL, "other bytes, mean KLD 0.004"),
        ("nmse", 1, 0.004, 0.0, Verdict.PASS, "mean KLD 0.004, in floats 0"),
        ("nmse", 1, 0.004, 9e-6, Verdict.FAIL, "mean 9e-06 > 3e-06"),
        ("nmse", 1, 0.02, 0.0, Verdict.FAIL, "mean 0.02 > 0.01"),
        ("changes", 1, 0.5, 0.5, Verdict.INFORMATION, "changes: mean KLD 0.5"),
    ],
)
def test_what_a_patch_declares_decides(
    lab: Lab,
    tmp_path: Path,
    numerics: Numerics,
    mark: int,
    coarse: float,
    fine: float,
    verdict: Verdict,
    words: str,
) -> None:
    step = make_fake(tmp_path / "step", mark=mark, coarse=coarse, fine=fine)
    found = judge(lab, step, make_fake(tmp_path / "parent"), numerics)
    assert found.verdict is verdict, found
    assert words in found.detail


def test_a_parent_with_too_little_text_is_invalid(lab: Lab, tmp_path: Path) -> None:
    step, parent = make_fake(tmp_path / "step"), make_fake(tmp_path / "parent", chunks=3)
    with pytest.raises(InvalidMeasurement, match="3 chunks of 512, expected 4"):
        judge(lab, step, parent, "bit-exact")


@pytest.mark.parametrize("numerics", ["bit-exact", "nmse"])
def test_a_step_that_crashes_where_its_parent_runs_fails(
    lab: Lab, tmp_path: Path, numerics: Numerics
) -> None:
    step = make_fake(tmp_path / "step", mark=1, code=3)
    found = judge(lab, step, make_fake(tmp_path / "parent"), numerics)
    assert found.verdict is Verdict.FAIL
    assert "ended with 3" in found.detail


def test_a_second_check_runs_nothing_and_a_lost_file_is_made_again(
    lab: Lab, tmp_path: Path
) -> None:
    step, parent = make_fake(tmp_path / "step", mark=1), make_fake(tmp_path / "parent")
    room, corpus = make_room(lab), open_corpus()
    calls = step.folder / f"{divergence.TARGET}.calls"
    first = check_divergence(room, corpus, step, parent, "nmse", parent)
    again = check_divergence(room, corpus, step, parent, "nmse", parent)
    assert (first.cached, again.cached, len(calls.read_text())) == (False, True, 2)
    for path in lab.root.glob("results/*/*.data"):
        path.unlink()
    assert check_divergence(room, corpus, step, parent, "bit-exact", parent).verdict is Verdict.FAIL
    assert check_divergence(room, corpus, step, step, "nmse", parent).verdict is Verdict.IDENTICAL


def test_the_copy_in_floats_is_named_by_its_content_and_made_again_when_lost(
    lab: Lab, tmp_path: Path
) -> None:
    room, base = make_room(lab), make_fake(tmp_path / "base")
    floats = float_model.open_float_room(room, base)
    path = floats.model.folder / floats.model.name
    assert path.name == f"tiny.F32-{floats.model.sha256[:12]}.gguf"
    assert float_model.cache_type(floats.model) == "f32"
    path.unlink()
    assert float_model.open_float_room(room, base) == floats
    assert path.read_bytes() == b"GGUF floats"
