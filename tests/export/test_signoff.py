"""signoff.toml, and what it takes for a branch to be READY."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from series.manifest import load_series
from series.model import Series, Stack, Step, Topic
from series.signoff import SignOff, load_signoffs
from series.topic_stack import TopicStack
from tests.export.conftest import write_topics
from upstream.errors import UsageError
from upstream.version import Version
from validate.export.model import Trial
from validate.export.readiness import judge_readiness
from validate.policy import Finding, Outcome
from validate.policy.judge import REMINDERS
from validate.report_model import Header
from validate.verdict import CheckResult, StepVerdict, Verdict

TIP, OTHER = "a" * 40, "b" * 40
TOPIC = Topic("one", "One", (), ("one.patch",))
STEP = Step("one", "one.patch", TIP, "c" * 40)
ALONE = TopicStack(TOPIC, Stack(Version(100), OTHER, OTHER, (STEP,)))
GREEN = Finding("subject-form", Outcome.GREEN, "one", "in form", "CONTRIBUTING.md:70 at b100")
SIGNED = SignOff("one", "Ada", date(2026, 11, 30), TIP)
GOOD = f'[[signoff]]\ntopic = "one"\nname = "Ada"\ndate = 2026-11-30\ncommit = "{TIP}"\n'


@pytest.fixture
def series(tmp_path: Path) -> Series:
    return load_series(write_topics(tmp_path / "series", {}, {"one": ((), ["one.patch"])}))


def trial(verdict: Verdict) -> Trial:
    header = Header("b100", "git remote", TIP, "today", {}, {})
    step = StepVerdict("one.patch", "base", (CheckResult("results", verdict),))
    return Trial(header, (), (step,))


def write(series: Series, text: str) -> None:
    (series.directory / "signoff.toml").write_text(text)


def test_signoffs_are_read(series: Series) -> None:
    assert load_signoffs(series) == ()
    write(series, GOOD + GOOD.replace("2026-11-30", '"2026-12-01"').replace("Ada", "Bo"))
    assert load_signoffs(series) == (SIGNED, SignOff("one", "Bo", date(2026, 12, 1), TIP))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"one"', '"two"', "unknown topic 'two'"),
        ("2026-11-30", '"yesterday"', "'yesterday' of 'one' is no date"),
        ("2026-11-30", "2026-11-30T10:00:00", "is no date"),
        ("2026-11-30", "20261130", "is no date"),
        (TIP, "abc123", "is no commit id: 40 hexadecimal digits"),
        (TIP, "A" * 40, "is no commit id"),
        (f'"{TIP}"', "7", "is no commit id"),
        ('"Ada"', '"  "', "names nobody"),
        ('name = "Ada"\n', "", "lacks the key 'name'"),
        ("name =", "nmae =", "unknown key 'nmae'"),
        ("[[signoff]]", "[signoff]", r"write \[\[signoff\]\]"),
        ("[[signoff]]", "[[signoffs]]", "unknown key 'signoffs'"),
        ("date = ", "date ", "signoff.toml"),
    ],
)
def test_a_bad_signoff_is_refused(series: Series, old: str, new: str, said: str) -> None:
    assert old in GOOD
    write(series, GOOD.replace(old, new))
    with pytest.raises(UsageError, match=said) as caught:
        load_signoffs(series)
    assert caught.value.remedy == f"mend {series.directory / 'signoff.toml'}"


def test_green_validated_and_signed_is_ready() -> None:
    state = judge_readiness(ALONE, trial(Verdict.PASS), [GREEN], [SIGNED])
    assert (str(state), state.reasons, state.failed) == ("READY", (), False)


def test_a_reminder_does_not_hold_a_branch_up() -> None:
    asked = Finding(min(REMINDERS), Outcome.NOT_CHECKED, "one", "a person", "")
    assert judge_readiness(ALONE, trial(Verdict.PASS), [GREEN, asked], [SIGNED]).ready


@pytest.mark.parametrize(
    ("verdict", "findings", "signoffs", "reason", "failed"),
    [
        (None, [GREEN], [SIGNED], "not validated alone (--no-build)", False),
        (Verdict.FAIL, [GREEN], [SIGNED], "one.patch is FAIL: results", True),
        (Verdict.INVALID, [GREEN], [SIGNED], "one.patch is INVALID: results", True),
        (Verdict.INFORMATION, [GREEN], [SIGNED], "one.patch was not judged: no check ran", True),
        (Verdict.PASS, [GREEN], [], "no sign-off of a person in signoff.toml", False),
        (
            Verdict.PASS,
            [GREEN],
            [SignOff("one", "Ada", date(2026, 11, 30), OTHER)],
            "the sign-off of Ada (2026-11-30) is VOID: it is for bbbbbbbbbbbb, the branch is "
            "aaaaaaaaaaaa",
            False,
        ),
        (
            Verdict.PASS,
            [GREEN, Finding("ascii", Outcome.RED, "one", "an umlaut", "")],
            [SIGNED],
            "the policy gate is red: ascii",
            True,
        ),
        (
            Verdict.PASS,
            [GREEN, Finding("ascii", Outcome.NOT_CHECKED, "one", "why", "")],
            [SIGNED],
            "the policy gate did not check: ascii",
            False,
        ),
    ],
)
def test_anything_missing_is_named(
    verdict: Verdict | None,
    findings: list[Finding],
    signoffs: list[SignOff],
    reason: str,
    failed: bool,
) -> None:
    state = judge_readiness(ALONE, trial(verdict) if verdict else None, findings, signoffs)
    assert (state.reasons, state.failed, str(state)) == ((reason,), failed, "NOT READY")
