"""The table on stdout: one line a step, never wider than a terminal, the bad news kept longest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_report import PP, SAMPLE, TG, TG_DEEP, identical, judged

from validate.cells import Judged, Speed
from validate.report import WIDTH, document_verdicts, list_not_run, tabulate_verdicts
from validate.report_model import Comparison
from validate.step_line import (
    BAD,
    GOOD,
    NUMBERS,
    Phrase,
    cut,
    cut_middle,
    describe_effect,
    fit_phrases,
)
from validate.verdict import CheckResult, StepVerdict, Verdict

OWN = CheckResult("own check", Verdict.PASS, "18 cases, red on the parent")
ARCHS = CheckResult("archs", Verdict.PASS, "130 archs")
RESULTS = CheckResult("results", Verdict.PASS, "bit-exact: same bytes")
GOOD_STEP = StepVerdict("x.patch", "base", (OWN, ARCHS, RESULTS))
SPEED = Comparison(
    "x.patch", "base", (judged(PP, Speed.SAME, 0.1, 0.8), judged(TG, Speed.SAME, 0.3, 0.6))
)


def line(step: StepVerdict, *speeds: Comparison) -> str:
    return tabulate_verdicts([step], speeds).splitlines()[1]


def test_what_was_not_run_is_told_in_full_once_for_all_patches() -> None:
    why = "needs a toolchain root: nox -s toolchain"
    lacking = CheckResult("own check", Verdict.NOT_RUN, why)
    steps = [GOOD_STEP, *(StepVerdict(name, "base", (lacking,)) for name in ("y.patch", "z.patch"))]
    assert list_not_run(steps) == [f"own check not run: {why}\n  for y.patch, z.patch"]
    assert list_not_run([GOOD_STEP]) == []


def test_a_good_step_reads_as_promised() -> None:
    assert line(GOOD_STEP) == (
        "x.patch  PASS     own check red->green, archs 130 same, results same bytes"
    )
    assert line(GOOD_STEP, SPEED).endswith(
        "own check red->green, archs 130 same, results ok, "
        "speed SAME (pp512 +0.1 % +-0.8, tg128 +0.3 % +-0.6)"
    )


def test_identical_checks_are_one_phrase() -> None:
    names = ("archs", "results", "bench")
    checks = tuple(CheckResult(name, Verdict.IDENTICAL, cached=True) for name in names)
    speed = Comparison("x.patch", "base", (identical(PP), identical(TG)))
    assert line(StepVerdict("x.patch", "base", checks), speed).endswith(
        "archs, results, bench identical, speed IDENTICAL, cached"
    )


def test_bad_checks_are_kept_when_there_is_no_room_for_the_good_ones() -> None:
    broken = CheckResult("ledger", Verdict.FAIL, "ggml_type 42 is taken by Q2_0, " + "x" * 300)
    unknown = CheckResult("kl", Verdict.INVALID, "the base differs from itself, " + "y" * 300)
    said = line(StepVerdict("x.patch", "base", (OWN, ARCHS, broken, RESULTS, unknown)))
    assert "ledger FAIL: ggml_type 42" in said
    assert "kl INVALID" in said
    assert len(said) <= WIDTH


def test_a_slower_cell_is_named_first() -> None:
    cells = (
        judged(PP, Speed.SAME, 0.1, 0.8),
        judged(TG, Speed.SLOWER, -6.2, 1.4),
        judged(TG_DEEP, Speed.SLOWER, -14.8, 2.0),
    )
    said = line(replace(GOOD_STEP, checks=(ARCHS,)), Comparison("x.patch", "base", cells))
    assert "speed SLOWER (2 of 3: tg128 @ d4096 -13.8 % +-1.7)" in said or (
        "speed SLOWER (tg128 -6.0 % +-1.3, tg128 @ d4096 -13.8 % +-1.7), SAME (pp512" in said
    )


def test_a_check_for_speed_is_not_said_twice() -> None:
    check = CheckResult("speed", Verdict.SAME, "2 cells")
    step = replace(GOOD_STEP, checks=(ARCHS, check))
    assert line(step, SPEED).count("speed") == 1
    assert "speed SAME (2 cells)" in line(step)


def test_a_number_that_does_not_exist_is_not_printed() -> None:
    assert describe_effect(Judged(PP, Speed.INCONCLUSIVE)) == "pp512 +0.0 % +-?"
    assert describe_effect(Judged(PP, Speed.INVALID)) == "pp512"


TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200)
CHECKS = st.lists(st.builds(CheckResult, TEXT, st.sampled_from(list(Verdict)), TEXT), max_size=8)


@given(TEXT, CHECKS)
def test_no_line_is_wider_than_a_terminal(name: str, checks: list[CheckResult]) -> None:
    step = StepVerdict(name, "base", (ARCHS, *checks))
    lines = tabulate_verdicts([step, GOOD_STEP], [SPEED]).splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= WIDTH


def test_a_line_break_in_a_detail_stays_in_its_line() -> None:
    check = CheckResult("archs", Verdict.FAIL, "one\ntwo\x1b[31m")
    assert "archs FAIL: one two" in line(StepVerdict("x.patch", "base", (check,)))


@given(TEXT, st.integers(10, 60))
def test_cutting_keeps_both_ends_of_a_name(text: str, width: int) -> None:
    assert len(cut(text, width)) <= width
    short = cut_middle(text, width)
    assert len(short) == min(width, len(text))
    assert text.startswith(short[:3])
    assert text.endswith(short[-3:])


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (40, "good and long, bad and long"),
        (20, "good, bad and long"),
        (12, "bad and long"),
        (5, "bad"),
    ],
)
def test_good_phrases_shrink_before_bad_ones(width: int, expected: str) -> None:
    phrases = [
        Phrase(GOOD, ("good and long", "good", "")),
        Phrase(BAD, ("bad and long", "bad")),
    ]
    assert fit_phrases(phrases, width) == expected


def test_numbers_are_shortened_before_a_good_check_is_left_out() -> None:
    phrases = [
        Phrase(GOOD, ("check ok", "")),
        Phrase(NUMBERS, ("speed SAME (+0.1 %)", "speed SAME")),
    ]
    assert fit_phrases(phrases, 25) == "check ok, speed SAME"
    assert fit_phrases(phrases, 19) == "speed SAME (+0.1 %)"


def test_the_document_has_the_cells() -> None:
    (found,) = document_verdicts([GOOD_STEP], [SPEED])
    assert isinstance(found["speed"], dict)
    assert [cell["verdict"] for cell in found["speed"]["cells"]] == ["SAME", "SAME"]
    (none,) = document_verdicts([GOOD_STEP])
    assert none["speed"] is None


def test_the_sample_fits() -> None:
    steps = [StepVerdict(step.patch, step.parent, step.checks) for step in SAMPLE.steps]
    table = tabulate_verdicts(steps, [step.speed for step in SAMPLE.steps if step.speed])
    assert len(table.splitlines()) == 1 + len(steps)
    assert max(map(len, table.splitlines())) <= WIDTH
