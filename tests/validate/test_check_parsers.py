"""Reading what llama.cpp's programs print: captured output of b11549, and made-up output.

tests/data/validate holds what the programs printed (standard output and error of one run each).
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.errors import InvalidMeasurement
from validate.archs import ArchsRun, is_whole, judge_archs, parse_archs
from validate.results import judge_results, parse_nmse
from validate.verdict import Verdict

DATA = Path(__file__).parent.parent / "data" / "validate"
HEADER = (
    "|Model arch.|Device|Config|NMSE vs. CPU|Roundtrip|Mixed batch|\n|---|---|---|---|---|---|\n"
)
NAMES = st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True), unique=True, max_size=20)


def make_table(states: dict[str, str], summary: str = "") -> str:
    rows = [
        f"|{name}|cpu|Dense| {state} (0.00e+00)| SKIP| SKIP|\n" for name, state in states.items()
    ]
    return HEADER + "".join(rows) + summary


def test_the_captured_table_of_all_archs() -> None:
    text = (DATA / "test-llama-archs.txt").read_text()
    run = parse_archs(text, 0)
    assert f"Summary: all {run.executed} test(s) passed" in text
    assert run.executed > 100
    assert not run.failed
    assert not run.crashed
    assert any(case.startswith("qwen35 ") and case.endswith("Dense") for case in run.passed)
    assert is_whole(text, has_summary=True)


def test_a_captured_table_of_a_crash_names_the_case_that_ran() -> None:
    text = (DATA / "test-llama-archs.txt").read_text()
    whole = parse_archs(text, 0)
    end = text.index("|", text.index("Dense|", len(text) // 2)) + 1
    run = parse_archs(text[:end], -6)
    assert run.crashed in whole.passed + whole.skipped
    assert 0 < run.executed < whole.executed
    assert not is_whole(text[:end], has_summary=False)


def test_a_captured_table_without_its_end_is_not_whole() -> None:
    """Exit code 0, as b11549 printed it on a busy machine."""
    text = (DATA / "test-llama-archs-torn.txt").read_text()
    assert not is_whole(text, has_summary=True)
    assert not is_whole(text, has_summary=False)  # an open row
    closed = text[: text.rindex("\n") + 1]
    assert not is_whole(closed, has_summary=True)
    assert is_whole(closed, has_summary=False)  # a version that prints no summary


def test_every_missing_row_of_a_captured_table_is_noticed() -> None:
    """A change of the table's form must not shrink what is compared: the summary counts, too."""
    lines = (DATA / "test-llama-archs.txt").read_text().splitlines(keepends=True)
    victim = next(n for n, line in enumerate(lines) if line.startswith("|") and "OK" in line)
    with pytest.raises(InvalidMeasurement, match="its table shows"):
        parse_archs("".join(lines[:victim] + lines[victim + 1 :]), 0)


@given(NAMES, st.data())
def test_every_case_is_in_exactly_one_group(names: list[str], data: st.DataObject) -> None:
    states = {name: data.draw(st.sampled_from(["OK", "FAIL", "SKIP"])) for name in names}
    try:
        run = parse_archs(make_table(states), int("FAIL" in states.values()))
    except InvalidMeasurement:
        assert not {"OK", "FAIL"} & {*states.values()}
        return
    groups = {"OK": run.passed, "FAIL": run.failed, "SKIP": run.skipped}
    for state, cases in groups.items():
        assert [case.split()[0] for case in cases] == [n for n in names if states[n] == state]


@given(st.text() | st.text("|-OKFAIL \n"), st.integers(-64, 255))
def test_no_output_is_read_as_a_pass(text: str, code: int) -> None:
    try:
        run = parse_archs(text, code)
    except InvalidMeasurement:
        return
    assert run.executed or run.crashed


@pytest.mark.parametrize("text", ["", HEADER, make_table({"llama": "SKIP"}), "Summary: no tests\n"])
def test_a_run_of_no_arch_is_invalid(text: str) -> None:
    with pytest.raises(InvalidMeasurement, match="ran no architecture"):
        parse_archs(text, 0)


def test_a_failure_in_any_cell_counts() -> None:
    row = "|llama|cpu|Dense|OK (0.00e+00)|OK|\x1b[1;31mFAIL\x1b[0m (1.00e+00)|\n"
    assert parse_archs(HEADER + row, 1).failed == ("llama cpu Dense",)
    row = "|llama|cpu|Dense|FAIL (toggle)|OK|OK (1.00e-07)|\n"
    assert parse_archs(HEADER + row, 1).failed == ("llama cpu Dense",)


@pytest.mark.parametrize(("state", "code"), [("OK", 1), ("FAIL", 0)])
def test_a_table_that_the_exit_code_contradicts_is_invalid(state: str, code: int) -> None:
    with pytest.raises(InvalidMeasurement, match=f"ended with {code}"):
        parse_archs(make_table({"llama": state}), code)


def test_only_failures_of_the_step_alone_count() -> None:
    before = ArchsRun(passed=("a", "b"), failed=("c",), skipped=("d",))
    same = ArchsRun(passed=("a", "b"), failed=("c",), skipped=("d",))
    found = judge_archs(same, before)
    assert (found.verdict, found.detail) == (Verdict.PASS, "3 archs, 1 fail in the parent too")
    worse = ArchsRun(passed=("b",), failed=("a", "c"), skipped=("d",))
    assert judge_archs(worse, before).verdict is Verdict.FAIL
    fewer = ArchsRun(passed=("a",), failed=("c",), skipped=("b", "d"))
    assert judge_archs(fewer, before).verdict is Verdict.INVALID
    more = ArchsRun(passed=("a", "b", "c", "e"), failed=(), skipped=())
    assert judge_archs(more, before).verdict is Verdict.PASS


def test_a_crash_is_the_steps_unless_its_parent_crashes_too() -> None:
    before = ArchsRun(passed=("a", "b", "c"), failed=(), skipped=())
    after = ArchsRun(("a",), (), (), crashed="b")
    found = judge_archs(after, before)
    assert (found.verdict, found.detail) == (Verdict.FAIL, "crashes at or after b")
    found = judge_archs(after, ArchsRun(("a", "b"), (), (), crashed="c"))
    assert found.verdict is Verdict.PASS
    assert "crashes in the parent too" in found.detail
    found = judge_archs(ArchsRun((), ("a",), (), crashed="b"), after)
    assert (found.verdict, found.detail) == (Verdict.FAIL, "fails a")


def test_the_captured_comparison_of_logits() -> None:
    assert parse_nmse((DATA / "llama-results-check.txt").read_text()) == 0.0


@pytest.mark.parametrize("text", ["", "NMSE=nan", "NMSE=-nan", "NMSE=inf", "OK", "NMSE=", "NMSE=x"])
def test_no_number_is_no_measurement(text: str) -> None:
    """llama-results prints OK for NaN."""
    with pytest.raises(InvalidMeasurement, match="measured nothing"):
        parse_nmse(f"main: {text}\n")


@given(st.floats(0, 1e30))
def test_the_number_is_read_back(value: float) -> None:
    assert math.isclose(
        parse_nmse(f"main: NMSE={value:.3e}\n"), value, rel_tol=1e-3, abs_tol=1e-307
    )


@pytest.mark.parametrize(
    ("nmse", "equal", "bit_exact", "nmse_verdict"),
    [
        (0.0, True, Verdict.PASS, Verdict.PASS),
        (0.0, False, Verdict.FAIL, Verdict.PASS),  # a difference too small for a square
        (1e-6, False, Verdict.FAIL, Verdict.PASS),
        (1.01e-6, False, Verdict.FAIL, Verdict.FAIL),
    ],
)
def test_how_far_results_may_move(
    nmse: float, equal: bool, bit_exact: Verdict, nmse_verdict: Verdict
) -> None:
    facts = {"nmse": nmse, "equal": equal}
    assert judge_results(facts, "bit-exact").verdict is bit_exact
    assert judge_results(facts, "nmse").verdict is nmse_verdict
    assert judge_results(facts, "changes").verdict is Verdict.INFORMATION
