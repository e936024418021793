"""From what a run found to the values of a report: topics, counts, what was not measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sample_report import HEADER, PP, TG, identical, judged

from series.model import Claim, Dropped, Landed, Series, Topic
from upstream.version import Version
from validate.artifacts import Difference
from validate.build import Plan, StepBuild
from validate.cells import Judged, Speed
from validate.report_build import TIP, Findings, make_report
from validate.report_model import Comparison, Skipped, worst_speed
from validate.verdict import CheckResult, StepVerdict, Verdict

SERIES = Series(
    directory=Path("series"),
    base=Version(7),
    topics=(
        Topic("one", "First", (), ("a.patch", "b.patch")),
        Topic("two", "Second", (), ("c.patch",)),
        Topic("gone", "Landed", (), ()),
        Topic("empty", "Nothing", (), ()),
    ),
    landed=(Landed("gone", "x.patch", "#1", Version(5), "seen"),),
    dropped=(Dropped("one", "y.patch", "too slow"),),
    claims={"b.patch": Claim({"cpu": "nmse", "vulkan": "bit-exact"})},
)
STEPS = (
    StepVerdict("a.patch", "base", (CheckResult("archs", Verdict.IDENTICAL, cached=True),)),
    StepVerdict(
        "b.patch",
        "a.patch",
        (
            CheckResult("own check", Verdict.NOT_RUN, "no root"),
            CheckResult("archs", Verdict.PASS, cached=True),
            CheckResult("results", Verdict.FAIL),
            CheckResult("bench", Verdict.INVALID),
        ),
    ),
)
BUILDS = (
    StepBuild(Plan("base", "t0", "k0"), "cached"),
    StepBuild(Plan("a.patch", "t1", "k1"), "built", 3.0, log=Path("/log")),
    StepBuild(Plan("b.patch", "t2", "k2"), "cached", difference=Difference(4, ("x.so",))),
)
SPEEDS = (
    Comparison("b.patch", "a.patch", (judged(PP, Speed.SAME, 0.1, 0.5), identical(TG))),
    Comparison(
        TIP, "base", (Judged(PP, Speed.INVALID, reason="no"),), (Skipped("tg128", "no time"),)
    ),
)
FOUND = Findings(STEPS, BUILDS, SPEEDS, ("Any time on gfx1151.",))


def test_steps_stand_below_their_topics_with_build_and_speed() -> None:
    report = make_report(HEADER, SERIES, FOUND)
    assert [topic.name for topic in report.topics] == ["one", "two", "gone"]
    assert [step.patch for step in report.steps] == ["a.patch", "b.patch", "c.patch"]
    first, second, third = report.steps
    assert (first.verdict, second.verdict, third.verdict) == (
        Verdict.IDENTICAL,
        Verdict.FAIL,
        None,
    )
    assert first.build is not None
    assert (first.build.tree, first.build.log) == ("t1", Path("/log"))
    assert second.build is not None
    assert (second.build.identical, second.build.changed) == (4, ("x.so",))
    assert (first.speed, second.speed, report.tip) == (None, *SPEEDS)
    assert report.verdict is Verdict.FAIL
    assert second.claims == {"cpu": "nmse", "vulkan": "bit-exact"}
    assert report.topics[0].notes == ("y.patch: given up, too slow",)
    assert report.topics[2].notes == ("x.patch: upstream has it since b5 (#1)",)


def test_the_tip_counts_in_the_verdict_on_the_whole() -> None:
    tip = StepVerdict(TIP, "base", (CheckResult("speed", Verdict.SLOWER),))
    report = make_report(HEADER, SERIES, replace(FOUND, steps=(STEPS[0], tip)))
    assert report.verdict is Verdict.SLOWER
    assert TIP not in [step.patch for step in report.steps]
    assert make_report(HEADER, SERIES, replace(FOUND, steps=())).verdict is None


def test_every_planned_case_is_counted_once() -> None:
    builds, checks, cells = make_report(HEADER, SERIES, FOUND).counts
    assert (builds.planned, builds.run, builds.cached) == (3, 1, 2)
    assert checks.planned == sum(len(step.checks) for step in STEPS)
    assert (checks.run, checks.cached, checks.identical) == (1, 1, 1)
    assert (checks.skipped, checks.invalid) == (1, 1)
    assert cells.planned == sum(len(speed.cells) + len(speed.skipped) for speed in SPEEDS)
    assert (cells.run, cells.identical, cells.skipped, cells.invalid) == (1, 1, 1, 1)


def test_what_was_skipped_has_a_reason() -> None:
    assert make_report(HEADER, SERIES, FOUND).skipped == (
        Skipped("b.patch: own check", "no root"),
        Skipped("tip against base: tg128", "no time"),
    )


def test_what_was_not_measured_is_said() -> None:
    lines = make_report(HEADER, SERIES, FOUND).not_measured
    assert "b.patch claims bit-exact on vulkan; this run executed on cpu only." in lines
    assert "c.patch was not judged: the run ended before it." in lines
    assert "Any time on gfx1151." in lines
    assert not any(line.startswith("Speed:") for line in lines)
    both = replace(HEADER, backends=("cpu", "vulkan"))
    assert not any("claims" in line for line in make_report(both, SERIES, FOUND).not_measured)


def test_no_cell_at_all_is_said_and_not_counted() -> None:
    report = make_report(HEADER, SERIES, replace(FOUND, speeds=()))
    assert [count.what for count in report.counts] == ["builds", "checks"]
    assert any(line.startswith("Speed: no cell was measured") for line in report.not_measured)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], None),
        ([Speed.IDENTICAL, Speed.SAME], Speed.SAME),
        ([Speed.FASTER, Speed.SAME], Speed.FASTER),
        ([Speed.FASTER, Speed.INCONCLUSIVE], Speed.INCONCLUSIVE),
        ([Speed.INVALID, Speed.INCONCLUSIVE], Speed.INVALID),
        ([Speed.SLOWER, Speed.INVALID, Speed.FASTER], Speed.SLOWER),
    ],
)
def test_a_comparison_is_as_bad_as_its_worst_cell(
    verdicts: list[Speed], expected: Speed | None
) -> None:
    assert worst_speed(verdicts) is expected
