"""Verdicts of the checks on a Vulkan device, on stand-ins for test-backend-ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from script_programs import make_room, make_step

from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from validate.artifacts import StepBinaries
from validate.backend_ops import TARGET
from validate.room import Launch, Room
from validate.verdict import Verdict
from validate.vulkan.cases import Interest
from validate.vulkan.device import LAYER
from validate.vulkan.layers import check_layers, parse_messages, require_layer
from validate.vulkan.ops import check_ops, share_out

# A stand-in for a test-backend-ops with a Vulkan device: `failing` cases fail in every run, `flaky`
# ones in the first, at `dead` it aborts without a word; `told` goes to the validation layer's file.
FAKE = """
import os
from pathlib import Path
cases, failing, flaky, dead, told = {cases!r}, {failing!r}, {flaky!r}, {dead!r}, {told!r}
if sys.argv[1] == "support":
    print('"backend_name","op_name","op_params","test_mode","supported"')
    for case in cases:
        op, _, fields = case.rstrip(")").partition("(")
        for device in ("Vulkan0", "CPU"):
            print(f'"{{device}}","{{op}}","{{fields}}","support","1"')
    sys.exit(0)
if "VK_INSTANCE_LAYERS" in os.environ and told is not None:
    print('Insert instance layer "{layer}" (lib.so)', file=sys.stderr)
    Path(os.environ["VK_LAYER_LOG_FILENAME"]).write_text(told)
calls = Path(__file__ + ".calls")
number = len(calls.read_text()) if calls.exists() else 0
calls.write_text("x" * (number + 1))
print("Backend 1/2: Vulkan0\\n  Device description: llvmpipe\\n")
wanted = sys.argv[sys.argv.index("-o") + 1]
ran = [case for case in cases if case in wanted]
bad = [case for case in ran if case in failing or (number == 0 and case in flaky)]
for case in ran:
    if case == dead:
        os.abort()
    told = "[MUL_MAT] ERR = 0.2 > 0.1   " if case in bad else "  "
    print(f"{{told}}{{case}}: " + ("FAIL" if case in bad else "OK"), flush=True)
if dead == "the end":
    os.abort()
print(f"  {{len(ran) - len(bad)}}/{{len(ran)}} tests passed")
sys.exit(bool(bad))
"""
ONE, TWO = "MUL_MAT(type_a=f16,m=16,n=1,k=256)", "MUL_MAT(type_a=q4_0,m=16,n=8,k=256)"
INTEREST = Interest(("MUL_MAT",), files=("ggml/src/ggml-vulkan/ggml-vulkan.cpp",))
ERROR = "Validation Error: [ VUID-VkBufferCreateInfo-size-00912 ] | MessageID = 0x7c54445e\nsize\n"


def make_fake(
    folder: Path,
    cases: Sequence[str] = (ONE, TWO),
    failing: Sequence[str] = (),
    flaky: Sequence[str] = (),
    dead: str = "",
    told: str | None = "",
) -> StepBinaries:
    body = FAKE.format(cases=cases, failing=failing, flaky=flaky, dead=dead, told=told, layer=LAYER)
    return make_step(folder, {TARGET: f"# {folder.name}\n{body}"})


@pytest.fixture
def room(lab: Lab) -> Room:
    launch = Launch(device="Vulkan0", identity="a stand-in")
    return replace(make_room(lab), launch=launch, threads=1)


@pytest.fixture
def parent(tmp_path: Path) -> StepBinaries:
    return make_fake(tmp_path / "parent")


def test_cases_are_counted_and_said(room: Room, tmp_path: Path, parent: StepBinaries) -> None:
    found = check_ops(room, make_fake(tmp_path / "step"), parent, INTEREST, limit=1)
    assert found.verdict is Verdict.PASS, found
    assert found.detail.endswith("planned 2, run 1, skipped 1 (1 over the limit of 1)")
    assert check_ops(room, parent, parent, INTEREST).verdict is Verdict.IDENTICAL
    again = check_ops(room, make_fake(tmp_path / "more" / "step"), parent, INTEREST, limit=1)
    assert again.cached


def test_a_fault_of_the_step_fails(room: Room, tmp_path: Path, parent: StepBinaries) -> None:
    found = check_ops(room, make_fake(tmp_path / "step", failing=(TWO,)), parent, INTEREST)
    assert (found.verdict, found.facts["failed"]) == (Verdict.FAIL, [TWO])


def test_one_bad_draw_does_not(room: Room, tmp_path: Path, parent: StepBinaries) -> None:
    found = check_ops(room, make_fake(tmp_path / "step", flaky=(TWO,)), parent, INTEREST)
    assert found.verdict is Verdict.PASS, found
    assert "1 failed once" in found.detail


def test_what_fails_in_the_parent_too_is_told_and_no_fault(room: Room, tmp_path: Path) -> None:
    step = make_fake(tmp_path / "step", failing=(TWO,))
    found = check_ops(room, step, make_fake(tmp_path / "parent", failing=(TWO,)), INTEREST)
    assert found.verdict is Verdict.PASS
    assert "Vulkan0: 1 pass; " in found.detail
    assert "1 fail in the parent too" in found.detail


def test_where_every_case_fails_in_the_parent_too_nothing_was_judged(
    room: Room, tmp_path: Path
) -> None:
    both = [make_fake(tmp_path / name, failing=(ONE, TWO)) for name in ("step", "parent")]
    found = check_ops(room, both[0], both[1], INTEREST)
    assert found.verdict is Verdict.INVALID
    assert "all 2 cases fail" in found.detail


@pytest.mark.parametrize("dead", [ONE, TWO])
def test_a_crash_ends_no_other_case(
    room: Room, tmp_path: Path, parent: StepBinaries, dead: str
) -> None:
    step = make_fake(tmp_path / "step", dead=dead)
    found = check_ops(room, step, parent, INTEREST)
    assert (found.verdict, found.facts["failed"]) == (Verdict.FAIL, [dead])
    assert found.facts["run"] == 2
    both = check_ops(room, step, make_fake(tmp_path / "other", dead=dead), INTEREST)
    assert both.verdict is Verdict.PASS
    assert f"1 fail in the parent too: {dead}" in both.detail


def test_a_crash_that_no_case_repeats_is_invalid(
    room: Room, tmp_path: Path, parent: StepBinaries
) -> None:
    found = check_ops(room, make_fake(tmp_path / "step", dead="the end"), parent, INTEREST)
    assert found.verdict is Verdict.INVALID
    assert "crashed once, at the end, after all cases" in found.detail


def test_cases_that_share_pipelines_stay_together_and_in_the_programs_order() -> None:
    order = [f"MUL_MAT(type_a={kind},n={n})" for n in (8, 4, 2) for kind in ("f16", "q4_0")]
    parts = share_out(sorted(order), 2, order)
    assert [[order.index(case) for case in part] for part in parts] == [[0, 2, 4], [1, 3, 5]]


def test_no_case_and_a_lost_one_are_no_pass(room: Room, tmp_path: Path) -> None:
    step, parent = make_fake(tmp_path / "step", (ONE,)), make_fake(tmp_path / "parent")
    with pytest.raises(InvalidMeasurement, match="no case to run on Vulkan0: planned 0, run 0"):
        check_ops(room, step, make_fake(tmp_path / "p", (ONE,)), Interest(("ROPE",), files=("x",)))
    found = check_ops(room, step, parent, INTEREST)
    assert found.verdict is Verdict.INVALID, found
    assert "tested no more" in found.detail


def layered(room: Room) -> Launch:
    return replace(room.launch, variables={"VK_INSTANCE_LAYERS": LAYER})


@pytest.mark.parametrize(
    ("after", "before", "verdict"),
    [
        ("", "", Verdict.PASS),
        (ERROR, "", Verdict.FAIL),
        (ERROR, ERROR, Verdict.PASS),
        ("", ERROR, Verdict.PASS),
    ],
)
def test_a_message_that_the_parent_does_not_get_fails(
    room: Room, tmp_path: Path, after: str, before: str, verdict: Verdict
) -> None:
    step, parent = make_fake(tmp_path / "s", told=after), make_fake(tmp_path / "p", told=before)
    found = check_layers(room, layered(room), step, parent, INTEREST)
    assert found.verdict is verdict, found


def test_a_layer_that_was_not_loaded_is_invalid(room: Room, tmp_path: Path) -> None:
    step, parent = make_fake(tmp_path / "s", told=None), make_fake(tmp_path / "p", told=None)
    with pytest.raises(InvalidMeasurement, match="did not insert"):
        check_layers(room, layered(room), step, parent, INTEREST)


def test_messages_of_old_and_new_layers_are_read() -> None:
    new = "VUID-vkCmdDispatch-None-08600(ERROR / SPEC): msgNum: 1 - Validation Error: ...\n"
    warning = "Validation Warning: [ BestPractices-x ] | MessageID = 0x1\n"
    assert parse_messages(ERROR + "text\n" + ERROR + new + warning) == {
        "VUID-VkBufferCreateInfo-size-00912": 2,
        "VUID-vkCmdDispatch-None-08600": 1,
        "BestPractices-x": 1,
    }
    require_layer(f'[Vulkan Loader] INFO | LAYER:   Insert instance layer "{LAYER}" (lib.so)')
