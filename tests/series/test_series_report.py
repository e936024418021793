"""The report: every patch that waits is followed by the command that takes it further."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from series.__main__ import build_parser
from series.cause import Cause
from series.loss import Loss
from series.merge import Conflict, Region
from series.model import Stack, Step
from series.park import Parked
from series.rebase import Fate, Outcome, Plan, Status
from series.report import WORDS, Findings, format_plan, plan_document, repeat_command
from upstream.git import Stage
from upstream.version import Version

AGAIN = "nox -s rebase -- --onto b200"
STEP = Step("t", "p.patch", "1" * 40, "2" * 40)
CONFLICT = Conflict(
    "3" * 40, {}, {}, "k" * 16, (Stage("100644", "5" * 40, 2, "a.c"),),
    (Region("a.c", "up", "old", "new"),), (),
)  # fmt: skip


def findings(outcome: Outcome, *, parked: bool = False, cause: Cause | None = None) -> Findings:
    """A report about one patch."""
    steps = (outcome.step,) if outcome.step else ()
    old = Stack(Version(100), "6" * 40, "7" * 40, (STEP,))
    plan = Plan(old, Stack(Version(200), "8" * 40, "9" * 40, steps), (outcome,))
    place = Parked(
        outcome.patch, "k" * 16, Path("place"), "3" * 40, "4" * 40, "b100", "b200", ("a.c",)
    )
    causes = {outcome.patch: (cause,)} if cause else {}
    return Findings(plan, {outcome.patch: place} if parked else {}, causes, AGAIN)


def waiting(status: Status, **more: object) -> Outcome:
    outcome = Outcome("t", "p.patch", status, "waiting")
    return replace(outcome, **more)  # type: ignore[arg-type]


CASES = {
    "conflict": (waiting("conflict", conflict=CONFLICT), True, "--continue --reason"),
    "conflict that is only shown": (waiting("conflict", conflict=CONFLICT), False, "(parks it"),
    "needs": (waiting("needs", reason="needs a.patch"), False, "--continue --reason"),
    "empty": (waiting("empty"), False, "--landed p.patch --reference '#PR' --evidence"),
    "loss": (
        waiting("clean", step=STEP, loss=Loss(("x",), ("y",))), False, "--acknowledge p.patch",
    ),
    "loss of a replayed one": (
        waiting("replayed", step=STEP, loss=Loss((), ("y",))), False, "--acknowledge p.patch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_waiting_patch_names_its_next_command(name: str) -> None:
    outcome, parked, command = CASES[name]
    text = format_plan(findings(outcome, parked=parked))
    (line,) = [line for line in text.splitlines() if line.startswith("  next: ")]
    assert AGAIN in line
    assert command in line
    assert "1 in = 0 kept + 0 changed + 0 landed + 0 dropped + 1 waiting for you" in text


def test_conflict_shows_its_cause_and_upstreams_lines_but_not_all_of_them() -> None:
    many = tuple(f"up {n}" for n in range(40))
    cause = Cause("a.c", Version(150), Version(120), many)
    text = format_plan(findings(waiting("conflict", conflict=CONFLICT), cause=cause))
    assert "  a.c: changed upstream after b120, at the latest in b150" in text
    assert "    upstream | up 11\n    ... 28 more lines" in text
    assert "up 12" not in text
    unknown = replace(cause, version=None)
    assert "no known version explains it" in unknown.describe()


def test_loss_shows_every_lost_line() -> None:
    text = format_plan(findings(waiting("clean", step=STEP, loss=Loss(("x",), ("y",)))))
    assert "  added line vanished:    x\n  upstream line removed:  y\n" in text


@pytest.mark.parametrize(
    ("status", "fate"),
    [("clean", "kept"), ("offset", "kept"), ("moved", "changed"), ("landed", "landed"),
     ("dropped", "dropped")],
)  # fmt: skip
def test_patch_that_ended_is_one_line_with_its_reason(status: Status, fate: Fate) -> None:
    step = STEP if fate in ("kept", "changed") else None
    outcome = Outcome("t", "p.patch", status, fate, step, reason="because")
    text = format_plan(findings(outcome))
    assert f"  p.patch  {WORDS[status]:22}  {fate:8} because" in text.splitlines()
    assert "next:" not in text


def test_document_holds_what_the_text_holds() -> None:
    cause = Cause("a.c", None, None, ())
    outcome = waiting("conflict", conflict=CONFLICT, reason="why")
    document = plan_document(findings(outcome, parked=True, cause=cause))
    assert isinstance(document["patches"], list)
    (patch,) = document["patches"]
    assert (document["from"], document["onto"]) == ("b100", "b200")
    assert document["counts"] == {"waiting": 1}
    assert patch["conflict"] == "k" * 16
    assert patch["worktree"] == str(Path("place") / "tree")
    assert patch["causes"] == [{"path": "a.c", "version": None}]


def parse(*words: str) -> Namespace:
    return build_parser().parse_args(["rebase", *words])


def test_repeated_command_names_what_is_not_usual() -> None:
    assert repeat_command(parse()) == "nox -s rebase --"
    assert repeat_command(parse("--onto", "b2", "--dry-run", "--json")) == (
        "nox -s rebase -- --onto b2"
    )
    words = ("--series", "my series", "--from", "b1", "--remote", "up", "--upstream", "remote")
    repeated = repeat_command(parse(*words)).removeprefix("nox -s rebase -- ")
    assert repeated == "--series 'my series' --upstream remote --remote up --from b1"
