"""test-backend-ops: what its output says, and verdicts on runs of fakes (labelled)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from script_programs import make_room, make_step

from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from validate import backend_ops
from validate.artifacts import Binary, StepBinaries
from validate.backend_ops import (
    check_backend_ops,
    has_same_libraries,
    parse_ops,
    parse_supported,
)
from validate.touched import Touched, derive_ops, read_places
from validate.verdict import CheckResult, Verdict

OK, FAIL = "\033[1;32mOK\033[0m", "\033[1;31mFAIL\033[0m"
# Two lines each as b11549 prints them.
HEAD = "Testing 1 devices\n\nBackend 1/1: CPU\n  Device description: AMD EPYC\n\n"
RMS = "RMS_NORM(type=f32,ne=[64,5,4,3],v=0,eps=0.000000,inplace=0)"
MUL = "MUL_MAT(type_a=q4_0,type_b=f32,m=16,n=1,k=256,bs=[1,1],nr=[1,1],per=[0,1,2,3])"
SKIPPED = "Testing 1 devices\n\nBackend 1/1: CPU\n  Skipping\n1/1 backends passed\n"
TOUCHED = Touched(("ggml/src/x.comp",), ("MUL_MAT", "RMS_NORM"))


def print_run(*lines: str, passed: int, ran: int) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"{HEAD}{body}  {passed}/{ran} tests passed\n  Backend CPU: {OK}\n"


# As the callback prints them, before the line of the case begins (b10566 and b11549).
TOLD = (
    "[MUL_MAT] ERR = 0.001234000 > 0.000500000 ",
    "[MUL_MAT] NaN at index 3 (Vulkan0=nan CPU=1.000000) ",
    "sentinel mismatch: sent_0 [MUL_MAT] inf mismatch: Vulkan0=inf CPU=2.000000 ",
)


@pytest.mark.parametrize("told", TOLD)
def test_a_failed_case_is_named_after_what_it_is_told(told: str) -> None:
    """It was not found, and the run called invalid: "11/12 tests passed, its cases are 11/11"."""
    bad = f"{told}  {MUL}: {FAIL}\n"
    skipped = "  SOFT_MAX(type=f32): not supported [CPU] \n"
    end = f"  1/2 tests passed\n\nFailing tests:\n  {MUL}\n  Backend CPU: {FAIL}\n"
    run = parse_ops(f"{HEAD}  {RMS}: {OK}\n{bad}{skipped}{end}", 1, "CPU")
    assert (run.passed, run.failed, run.compared, run.crashed) == (1, (MUL,), 1, "")


def test_a_crash_names_the_last_case_that_ended() -> None:
    assert parse_ops(f"{HEAD}  {RMS}: {OK}\n", -6, "CPU").crashed == RMS
    assert parse_ops(HEAD, -6, "CPU").crashed == "the start"


def test_a_case_that_fails_without_a_name_is_invalid() -> None:
    output = f"{HEAD}failed to allocate tensors [CPU]   {RMS}: {OK}\n  1/2 tests passed\n"
    with pytest.raises(InvalidMeasurement, match="says 1/2 tests passed, its cases are 1/1"):
        parse_ops(output, 1, "CPU")


@pytest.mark.parametrize(
    ("output", "code", "words"),
    [
        (SKIPPED, 0, "did not run on the device CPU"),
        ("Testing 0 devices\n\n0/0 backends passed\n", 0, "it has none"),
        (print_run(passed=0, ran=0), 0, "tested nothing"),
        (print_run(f"{RMS}: {OK}", passed=2, ran=2), 0, "says 2/2"),
        (print_run(f"{RMS}: {OK}", passed=1, ran=1), 1, "ended with 1 and 0 failed"),
        (HEAD, 0, "no summary"),
    ],
)
def test_a_run_that_tested_nothing_is_invalid(output: str, code: int, words: str) -> None:
    with pytest.raises(InvalidMeasurement, match=words):
        parse_ops(output, code, "CPU")


def test_the_supported_set_of_another_device_does_not_count() -> None:
    rows = (
        '"backend_name","op_name","op_params","test_mode","supported"\n"CPU","ABS","v=0","s","1"\n'
    )
    assert parse_supported("Testing\n" + rows, "CPU") == {"ABS(v=0)": True}
    with pytest.raises(InvalidMeasurement, match="does not exist"):
        parse_supported(rows, "Vulkna0")


# A fake that supports MUL_MAT and RMS_NORM and fails as its step says; `calls` counts its runs.
FAKE = """
from pathlib import Path
supported, failing, dead = {supported!r}, {failing!r}, {dead!r}
device = sys.argv[sys.argv.index("-b") + 1]
if sys.argv[1] == "support":
    print('"backend_name","op_name","op_params","test_mode","supported"')
    if device == "CPU":
        for op in ("MUL_MAT", "RMS_NORM"):
            print(f'"CPU","{{op}}","a=1","support","{{int(op in supported)}}"')
    sys.exit(0)
calls = Path(__file__ + ".calls")
number = len(calls.read_text()) if calls.exists() else 0
calls.write_text("x" * (number + 1))
print("Backend 1/1: CPU\\n  Device description: a fake\\n")
wanted = sys.argv[sys.argv.index("-o") + 1].replace("(a=1)", "").split(",")
cases = [op for op in supported if op in wanted]
bad = failing[number % 3]
for op in cases:
    print(f"  {{op}}(a=1): " + ("FAIL" if op in bad else "OK"), flush=True)
    if op == dead:
        import os
        os.abort()
n = sum(op not in bad for op in cases)
print(f"  {{n}}/{{len(cases)}} tests passed")
sys.exit(n != len(cases))
"""
BOTH = ("MUL_MAT", "RMS_NORM")
GOOD: tuple[tuple[str, ...], ...] = ((), (), ())


def make_fake(
    folder: Path,
    supported: tuple[str, ...] = BOTH,
    failing: tuple[tuple[str, ...], ...] = GOOD,
    dead: str = "",
) -> StepBinaries:
    text = FAKE.format(supported=supported, failing=failing, dead=dead)
    return make_step(folder, {backend_ops.TARGET: f"# {folder.name}\n{text}"})


def judge(
    lab: Lab, step: StepBinaries, parent: StepBinaries, touched: Touched = TOUCHED
) -> CheckResult:
    return check_backend_ops(make_room(lab), step, parent, touched)


@pytest.mark.parametrize(
    ("failing", "verdict"),
    [
        ((("MUL_MAT",), (), ("MUL_MAT",)), Verdict.FAIL),
        ((("MUL_MAT",), (), ()), Verdict.PASS),
        ((("MUL_MAT",), ("RMS_NORM",), ()), Verdict.PASS),
    ],
)
def test_one_failure_of_three_is_an_unlucky_draw(
    lab: Lab, tmp_path: Path, failing: tuple[tuple[str, ...], ...], verdict: Verdict
) -> None:
    step, parent = make_fake(tmp_path / "step", failing=failing), make_fake(tmp_path / "parent")
    found = judge(lab, step, parent)
    assert found.verdict is verdict, found
    assert ("MUL_MAT(a=1)" in found.detail) is (verdict is Verdict.FAIL)


def test_what_fails_in_the_parent_too_is_not_the_steps_doing(lab: Lab, tmp_path: Path) -> None:
    always = (("MUL_MAT",),) * 3
    step = make_fake(tmp_path / "step", failing=always)
    parent = make_fake(tmp_path / "parent", failing=always)
    assert judge(lab, step, parent).verdict is Verdict.PASS


def test_a_dropped_support_fails_though_every_test_passes(lab: Lab, tmp_path: Path) -> None:
    step = make_fake(tmp_path / "step", supported=("MUL_MAT",))
    found = judge(lab, step, make_fake(tmp_path / "parent"))
    assert (found.verdict, found.facts["unsupported"]) == (Verdict.FAIL, ["RMS_NORM(a=1)"])


def test_a_crash_fails(lab: Lab, tmp_path: Path) -> None:
    step = make_fake(tmp_path / "step", dead="RMS_NORM")
    found = judge(lab, step, make_fake(tmp_path / "parent"))
    assert found.verdict is Verdict.FAIL
    assert "crashes at or after RMS_NORM" in found.detail


def test_the_cpu_compared_with_itself_is_not_a_pass(lab: Lab, tmp_path: Path) -> None:
    step, parent = make_fake(tmp_path / "step"), make_fake(tmp_path / "parent")
    found = judge(lab, step, parent, Touched(("ggml/x",), ("RMS_NORM",)))
    assert found.verdict is Verdict.NOT_RUN
    assert "no second backend" in found.detail


def test_a_misspelt_device_is_invalid(lab: Lab, tmp_path: Path) -> None:
    step, parent = make_fake(tmp_path / "step"), make_fake(tmp_path / "parent")
    with pytest.raises(InvalidMeasurement, match="Vulkna0"):
        check_backend_ops(make_room(lab), step, parent, TOUCHED, "Vulkna0")


def test_a_second_check_runs_nothing(lab: Lab, tmp_path: Path) -> None:
    step, parent = make_fake(tmp_path / "step"), make_fake(tmp_path / "parent")
    room = make_room(lab)
    first = check_backend_ops(room, step, parent, TOUCHED)
    second = check_backend_ops(room, step, parent, TOUCHED)
    assert (first.cached, second.cached) == (False, True)
    assert len((step.folder / f"{backend_ops.TARGET}.calls").read_text()) == 3
    assert check_backend_ops(room, step, step, TOUCHED).verdict is Verdict.IDENTICAL


def test_only_new_cases_run_where_the_libraries_are_the_parents(lab: Lab, tmp_path: Path) -> None:
    parts = []
    for name, supported in (("parent", ("RMS_NORM",)), ("step", BOTH)):
        text = FAKE.format(supported=supported, failing=GOOD, dead="")
        # A fake too: it knows only what it supports.
        text = text.replace('for op in ("MUL_MAT", "RMS_NORM")', "for op in supported")
        files = {backend_ops.TARGET: f"# {name}\n{text}", "libggml.so": "alike"}
        made = make_step(tmp_path / name, files)
        parts.append(replace(made, uses={backend_ops.TARGET: tuple(made.files)}))
    parent, step = parts
    assert has_same_libraries(step, parent)
    found = judge(lab, step, parent)
    assert found.verdict is Verdict.PASS, found
    assert found.facts["runs"][0]["passed"] == 1
    assert "its new ones only" in found.detail
    other = replace(parent, files=dict(parent.files) | {"libggml.so": Binary("0" * 64, 1)})
    assert not has_same_libraries(step, other)
    assert not has_same_libraries(make_fake(tmp_path / "a"), make_fake(tmp_path / "b"))


def test_a_patch_without_ggml_files_is_skipped_with_the_reason(lab: Lab, tmp_path: Path) -> None:
    step, parent = make_fake(tmp_path / "step"), make_fake(tmp_path / "parent")
    found = judge(lab, step, parent, derive_ops({"common/speculative.cpp": set()}))
    assert (found.verdict, found.detail) == (
        Verdict.INFORMATION,
        "skipped: it touches no ggml file",
    )


VULKAN = "ggml/src/ggml-vulkan/vulkan-shaders/"


@pytest.mark.parametrize(
    ("path", "heads", "ops"),
    [
        (f"{VULKAN}mul_mat_vec_q4_k.comp", (), {"MUL_MAT", "MUL_MAT_ID"}),
        (f"{VULKAN}flash_attn_cm2.comp", (), {"FLASH_ATTN_EXT"}),
        (f"{VULKAN}rms_norm.comp", (), {"RMS_NORM", "RMS_NORM_MUL_ROPE"}),
        (
            "ggml/src/ggml-cpu/ops.cpp",
            ("static void ggml_compute_forward_rms_norm_f32(",),
            {"RMS_NORM", "RMS_NORM_MUL_ADD"},
        ),
        (
            "ggml/src/ggml-cpu/ops.cpp",
            ("static void ggml_compute_forward_soft_max_ext_back_f32(",),
            {"SOFT_MAX_BACK"},
        ),
    ],
)
def test_files_and_functions_lead_to_ops(path: str, heads: tuple[str, ...], ops: set[str]) -> None:
    touched = derive_ops({path: set(heads)})
    assert ops <= {*touched.ops}
    assert not touched.unknown


@pytest.mark.parametrize(
    ("path", "heads"),
    [
        ("ggml/src/ggml-vulkan/ggml-vulkan.cpp", ("static void f(",)),
        ("ggml/src/ggml-cpu/ops.cpp", ("static void helper(",)),
    ],
)
def test_what_the_table_does_not_know_is_all_ops(path: str, heads: tuple[str, ...]) -> None:
    touched = derive_ops({path: set(heads), f"{VULKAN}mul_mm.comp": set()})
    assert (touched.unknown, touched.ops, touched.nothing) == ((path,), (), False)


def test_places_are_read_from_a_diff() -> None:
    diff = (
        "diff --git a/ggml/src/a.cpp b/ggml/src/b.cpp\n@@ -1 +1 @@ int f(int x) {\n-a\n+b\n"
        "@@ -9,0 +10 @@\n+c\n"
    )
    changed = {"int f(int x) {", ""}
    assert read_places(diff) == {"ggml/src/a.cpp": changed, "ggml/src/b.cpp": changed}
