"""Planted faults and what the checks say about them: real builds and runs of stand-in programs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import stand_ins
from stand_ins import change_core
from tiny_project import Change, make_builder, make_stack

from series.model import Claim, Series
from tests.validate.hip_stand_ins import TREE
from upstream.errors import ExitCode, InvalidMeasurement
from upstream.lab import Lab
from upstream.version import Version
from validate.build import StepBuild, build_stack
from validate.checks import Validation, validate_stack
from validate.ledger.check import LedgerBook, StepTrees
from validate.room import Model, Room
from validate.source_tree import open_check_tree
from validate.verdict import CheckResult, StepVerdict, Verdict, exit_code

LOGIT = "return 0.5f + i;"
STATE = 'return arch == 2 ? "SKIP" : "OK";'
SPEED = "return 1e6;"
# Every step replaces core.cpp as a whole and is judged against the one before it, so a step that
# restores the base's core stands between two faults.
RESTORED = {"core.cpp": stand_ins.CORE}
CHANGES = (
    Change("readme", {"README.md": "another text\n"}),
    change_core("same-answers", SPEED, "return 1.01e6;"),
    change_core("tiny-error", LOGIT, "return (0.5f + i) * 1.00001f;"),
    Change("restored-1", RESTORED),
    change_core("big-error", LOGIT, "return 0.6f + i;"),
    change_core("wanted-error", LOGIT, "return 0.9f + i;"),
    change_core("not-a-number", LOGIT, "return i ? 0.9f + i : NAN;"),
    Change("broken", {"core.cpp": "int broken() { return missing; }\n"}),
    Change("restored-2", RESTORED),
    change_core("fails-gemma", STATE, 'return arch == 1 ? "FAIL" : "OK";'),
    change_core("still-fails-gemma", STATE, 'return arch == 1 ? "FAIL" : arch ? "OK" : "OK ";'),
    Change("restored-3", RESTORED),
    change_core("crashes-in-mamba", STATE, 'return arch == 3 ? "CRASH" : "OK";'),
    Change("restored-4", RESTORED),
    change_core("runs-none", STATE, 'return "SKIP";'),
    Change("restored-5", RESTORED),
    change_core("loses-mamba", STATE, 'return arch >= 2 ? "SKIP" : "OK";'),
    Change("restored-6", RESTORED),
    change_core("results-abort", "return 64;", "return 65;"),
)
CLAIMS: Mapping[str, Claim] = {
    "tiny-error": Claim({"cpu": "nmse"}),
    "restored-1": Claim({"cpu": "nmse"}),
    "wanted-error": Claim({"cpu": "changes"}),
}


def open_validation(lab: Lab, claims: Mapping[str, Claim], directory: Path) -> Validation:
    builder = make_builder(lab)
    folder = lab.root / "models"
    folder.mkdir(exist_ok=True)
    room = Room(lab, Model(folder, "tiny.gguf", "0" * 64))
    series = Series(directory, Version(7), (), claims=claims)
    return Validation(room, series, open_check_tree(lab, builder.git))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, list[StepBuild]]:
    lab = Lab(tmp_path_factory.mktemp("checks") / "lab")
    stack = make_stack(lab, CHANGES, stand_ins.BASE)
    return lab, build_stack(make_builder(lab, stand_ins.TARGETS), stack)


@pytest.fixture(scope="module")
def verdicts(built: tuple[Lab, list[StepBuild]]) -> dict[str, StepVerdict]:
    lab, builds = built
    steps = validate_stack(open_validation(lab, CLAIMS, lab.root), builds)
    return {step.patch: step for step in steps}


def find(step: StepVerdict, name: str) -> CheckResult:
    (found,) = [check for check in step.checks if check.check == name]
    return found


@pytest.mark.parametrize(
    ("patch", "verdict"),
    [
        ("readme", Verdict.IDENTICAL),
        ("same-answers", Verdict.PASS),
        ("tiny-error", Verdict.PASS),
        ("big-error", Verdict.FAIL),
        ("wanted-error", Verdict.PASS),
        ("not-a-number", Verdict.INVALID),
        ("broken", Verdict.FAIL),
        ("fails-gemma", Verdict.FAIL),
        ("still-fails-gemma", Verdict.PASS),
        ("crashes-in-mamba", Verdict.FAIL),
        ("runs-none", Verdict.INVALID),
        ("loses-mamba", Verdict.INVALID),
        ("results-abort", Verdict.FAIL),
    ],
)
def test_the_verdict_of_a_planted_step(
    verdicts: dict[str, StepVerdict], patch: str, verdict: Verdict
) -> None:
    assert verdicts[patch].verdict is verdict, verdicts[patch]


@pytest.mark.parametrize(
    ("patch", "check", "verdict", "words"),
    [
        ("same-answers", "results", Verdict.PASS, "bit-exact: same bytes"),
        ("tiny-error", "results", Verdict.PASS, "nmse: NMSE 1.0"),
        ("big-error", "results", Verdict.FAIL, "bit-exact: NMSE"),
        ("wanted-error", "results", Verdict.INFORMATION, "changes: NMSE"),
        ("not-a-number", "results", Verdict.INVALID, "measured nothing"),
        ("fails-gemma", "archs", Verdict.FAIL, "fails gemma cpu0 Dense"),
        ("still-fails-gemma", "archs", Verdict.PASS, "4 archs, 1 fail in the parent too"),
        ("crashes-in-mamba", "archs", Verdict.FAIL, "crashes at or after mamba"),
        ("runs-none", "archs", Verdict.INVALID, "ran no architecture"),
        ("loses-mamba", "archs", Verdict.INVALID, "does not run mamba"),
        ("results-abort", "results", Verdict.FAIL, "ended with 134"),
        ("broken", "build", Verdict.FAIL, "core.cpp:1"),
    ],
)
def test_what_a_check_says(
    verdicts: dict[str, StepVerdict], patch: str, check: str, verdict: Verdict, words: str
) -> None:
    found = find(verdicts[patch], check)
    assert found.verdict is verdict
    assert words in found.detail


def test_a_step_after_one_that_does_not_build_is_compared_with_the_one_before(
    verdicts: dict[str, StepVerdict],
) -> None:
    assert verdicts["restored-2"].parent == "not-a-number"
    assert verdicts["fails-gemma"].parent == "restored-2"


def test_a_second_run_is_cached_and_says_the_same(
    built: tuple[Lab, list[StepBuild]], verdicts: dict[str, StepVerdict]
) -> None:
    lab, builds = built
    again = validate_stack(open_validation(lab, CLAIMS, lab.root), builds)
    assert [step.verdict for step in again] == [step.verdict for step in verdicts.values()]
    settled = [step for step in again if step.verdict is not Verdict.INVALID]
    assert {step.patch for step in settled if not step.cached} == {"broken"}


def test_a_claim_changes_the_verdict_without_a_new_run(
    built: tuple[Lab, list[StepBuild]], verdicts: dict[str, StepVerdict]
) -> None:
    lab, builds = built
    steps = validate_stack(open_validation(lab, {}, lab.root), builds[:4])
    tiny = find(steps[2], "results")
    assert tiny.verdict is Verdict.FAIL
    assert tiny.cached
    assert verdicts["tiny-error"].verdict is Verdict.PASS


def test_output_whose_end_was_lost_is_asked_for_again(
    built: tuple[Lab, list[StepBuild]],
) -> None:
    lab, builds = built
    validation = open_validation(lab, {}, lab.root)
    shutil.rmtree(lab.root / "results", ignore_errors=True)
    for name in ("torn", "torn-number"):
        (validation.room.model.folder / name).touch()
    step = validate_stack(validation, [builds[0], builds[2]])[0]
    assert not list(validation.room.model.folder.iterdir())  # both lost something once
    assert find(step, "archs").verdict is Verdict.PASS
    assert find(step, "results").verdict is Verdict.PASS


def test_output_that_is_always_cut_is_invalid(built: tuple[Lab, list[StepBuild]]) -> None:
    lab, builds = built
    validation = open_validation(lab, {}, lab.root)
    shutil.rmtree(lab.root / "results", ignore_errors=True)
    forever = validation.room.model.folder / "torn-forever"
    forever.touch()
    try:
        step = validate_stack(validation, [builds[0], builds[2]])[0]
    finally:
        forever.unlink()
    found = find(step, "archs")
    assert found.verdict is Verdict.INVALID
    assert "lost the end of its output" in found.detail


class NoLedgers(LedgerBook):
    """A stand-in: real ledgers take llama.cpp's sources."""

    def __init__(self) -> None: ...

    def check(self, trees: StepTrees) -> CheckResult:
        return CheckResult("ledgers", Verdict.IDENTICAL)


def test_the_compilers_are_asked_about_every_step_and_may_be_missing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("validate.hip.compiler._candidates", lambda: iter(()))
    kernel = {"ggml/src/ggml-cuda/norm.cu": "// changed\n"}
    changes = [Change("text", {"README.md": "another text\n"}), Change("kernel", kernel)]
    stack = make_stack(lab, changes, {**stand_ins.BASE, **TREE})
    builds = build_stack(make_builder(lab, stand_ins.TARGETS), stack)
    validation = replace(open_validation(lab, {}, lab.root), ledgers=NoLedgers())
    text, kernel_step = validate_stack(validation, builds)
    for step, verdict in ((text, Verdict.IDENTICAL), (kernel_step, Verdict.INFORMATION)):
        assert [find(step, name).verdict for name in ("isa", "hip")] == [verdict, verdict]
    for name in ("isa", "hip"):
        assert find(kernel_step, name).detail.startswith("not run: no ")
    assert kernel_step.verdict is Verdict.IDENTICAL


def test_a_stack_without_steps_is_no_pass(built: tuple[Lab, list[StepBuild]]) -> None:
    lab, builds = built
    with pytest.raises(InvalidMeasurement, match="no step"):
        validate_stack(open_validation(lab, {}, lab.root), builds[:1])


def test_a_base_that_does_not_build_is_no_pass(built: tuple[Lab, list[StepBuild]]) -> None:
    lab, builds = built
    broken = [build for build in builds if build.state == "failed"]
    with pytest.raises(InvalidMeasurement, match="base does not build"):
        validate_stack(open_validation(lab, {}, lab.root), [*broken, builds[0]])


def test_a_program_that_the_source_lacks_is_invalid(lab: Lab) -> None:
    targets = ("llama-bench", "test-llama-archs")  # as if llama-results were not there yet
    changes = [change_core("same", SPEED, "return 1.01e6;")]
    builds = build_stack(make_builder(lab, targets), make_stack(lab, changes, stand_ins.BASE))
    (step,) = validate_stack(open_validation(lab, {}, lab.root), builds)
    assert step.verdict is Verdict.INVALID
    assert "no such target" in find(step, "results").detail


@pytest.mark.parametrize(
    ("verdicts_of_checks", "code"),
    [
        ([[Verdict.IDENTICAL]], ExitCode.OK),
        ([[Verdict.PASS, Verdict.INFORMATION], [Verdict.IDENTICAL]], ExitCode.OK),
        ([[Verdict.PASS, Verdict.NOT_RUN]], ExitCode.ENVIRONMENT),
        ([[Verdict.NOT_RUN], [Verdict.INVALID, Verdict.PASS]], ExitCode.INVALID),
        ([[Verdict.PASS], [Verdict.INVALID], [Verdict.FAIL]], ExitCode.GATE_FAILED),
        ([[Verdict.INVALID], [Verdict.PASS, Verdict.SLOWER]], ExitCode.GATE_FAILED),
        ([[Verdict.PASS, Verdict.INCONCLUSIVE], [Verdict.FASTER]], ExitCode.OK),
    ],
)
def test_the_exit_code_is_the_worst(
    verdicts_of_checks: list[list[Verdict]], code: ExitCode
) -> None:
    steps = [
        StepVerdict("p", "base", tuple(CheckResult("c", verdict) for verdict in verdicts))
        for verdicts in verdicts_of_checks
    ]
    assert exit_code(steps) is code


def test_strict_takes_what_is_inconclusive_for_a_no() -> None:
    checks = (CheckResult("c", Verdict.PASS), CheckResult("speed", Verdict.INCONCLUSIVE))
    steps = [StepVerdict("p", "base", checks)]
    assert exit_code(steps) is ExitCode.OK
    assert exit_code(steps, strict=True) is ExitCode.GATE_FAILED


@pytest.mark.parametrize(
    "steps", [[], [StepVerdict("p", "base", (CheckResult("c", Verdict.INFORMATION),))]]
)
def test_what_was_only_shown_is_no_pass(steps: list[StepVerdict]) -> None:
    with pytest.raises(InvalidMeasurement):
        exit_code(steps)


def test_the_table_and_the_document_name_every_step(verdicts: dict[str, StepVerdict]) -> None:
    from validate.report import document_verdicts, tabulate_verdicts

    steps = list(verdicts.values())
    document = json.loads(json.dumps(document_verdicts(steps)))
    assert [entry["patch"] for entry in document] == [change.name for change in CHANGES]
    lines = tabulate_verdicts(steps).splitlines()
    assert [line.split()[0] for line in lines[1:]] == [change.name for change in CHANGES]
