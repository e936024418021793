"""Which cases of test-backend-ops run three times, which once: on names, and a fake program."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from script_programs import make_room, make_step
from tiny_ggml import FILL, MORE_TABLES, NEW_TYPE, compile_library, needs_binutils

from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from validate.artifacts import Binary, StepBinaries
from validate.backend_ops import TARGET, check_backend_ops
from validate.ops_selection import EVERYTHING, STORES, read_types, select_cases
from validate.touched import Touched
from validate.verdict import CheckResult, Verdict

ADD = "ADD(type=f32,ne=[1,1])"
CPY = "CPY(type_src=q4_K,type_dst=f32,ne=[256,2])"
PRODUCT = "MUL_MAT(type_a=q4_0,type_b=f32,m=16,per=[0,1,2,3])"
OTHER = "MUL_MAT(type_a=q4_K,type_b=f32,m=16,per=[0,1,2,3])"
LONGER = "MUL_MAT(type_a=q4_0_new,type_b=f32,m=16,per=[0,1,2,3])"
ATTENTION = "FLASH_ATTN_EXT(hsk=64,nr23=[4,1],type_K=f16)"
CASES = (ADD, CPY, PRODUCT, OTHER, LONGER, ATTENTION)
FILES = ("ggml/src/ggml.c",)


def test_types_are_values_of_a_case() -> None:
    assert {"q4_K", "f32"} <= read_types(CPY)
    assert "q4_0" not in read_types(LONGER)


def search(words: tuple[str, ...]) -> set[str]:
    """The cases that a regular expression selects: it is searched in the brackets."""
    option, pattern = words
    assert option == "-p"
    return {n for n in CASES if re.search(pattern, n.partition("(")[2].removesuffix(")"))}


def test_a_type_selects_its_cases_of_all_operations_but_of_no_longer_name() -> None:
    found = select_cases(Touched(FILES, types=("q4_K", "q4_0", "q9_9")), CASES, ())
    (words,) = found.thrice
    assert words == ("-p", "=(q4_0|q4_K)(,|$)")
    assert search(words) == {CPY, PRODUCT, OTHER} == {name for name in CASES if found.has(name)}
    assert (found.everything, found.planned) == ((), 3)


def test_operations_are_named_fused_ones_too_that_support_does_not_list() -> None:
    found = select_cases(Touched(FILES, ops=("ADD", "ADD_RMS_NORM"), types=("q4_K",)), CASES, ())
    assert found.thrice == (("-o", "ADD,ADD_RMS_NORM"), ("-p", "=(q4_K)(,|$)"))
    assert found.planned == 3
    assert found.has("ADD_RMS_NORM(n=1)")


def test_of_a_type_that_is_only_written_the_operations_that_write() -> None:
    found = select_cases(Touched(FILES, stored=("q4_K", "q9_9")), CASES, ())
    (words,) = found.thrice
    assert words == ("-o", ",".join(STORES), "-p", "=(q4_K|q9_9)(,|$)")
    assert [name for name in CASES if found.has(name)] == [CPY]
    assert found.planned == 1
    assert select_cases(Touched(FILES, stored=("q9_9",)), CASES, ()).thrice == ()


def test_new_cases_run_by_name_where_nothing_else_selects_them() -> None:
    found = select_cases(Touched(FILES, types=("q4_K",)), CASES, {OTHER, ADD})
    assert found.thrice[1:] == (("-o", ADD),)
    assert select_cases(Touched(FILES), CASES, ()).list_runs(0) == ()


def test_everything_is_the_first_run_in_parts_that_share_nothing() -> None:
    found = select_cases(Touched(FILES, types=("q4_K",), unknown=("ggml_new",)), CASES, ())
    first = found.list_runs(0)
    assert first == EVERYTHING
    assert found.list_runs(1) == found.list_runs(2) == found.thrice
    parts = [search(words) for words in first]
    assert [len(part) for part in parts] == [1, 3, 2]
    assert set.union(*parts) == {*CASES}
    assert found.planned == len(CASES)


# A fake that knows -o and -p as b11549 does, whose libraries are real; `bad` cases always fail.
FAKE = """
import re
from pathlib import Path
cases, bad = {cases!r}, {bad!r}
if sys.argv[1] == "support":
    print('"backend_name","op_name","op_params","test_mode","supported"')
    for name in cases:
        op, _, rest = name.partition("(")
        print(f'"CPU","{{op}}","{{rest[:-1]}}","support","1"')
    sys.exit(0)
with Path(__file__ + ".calls").open("a") as calls:
    calls.write(" ".join(sys.argv[4:]) + "\\n")
print("Backend 1/1: CPU\\n  Device description: a fake\\n")
options = dict(zip(sys.argv[4::2], sys.argv[5::2]))
wanted = re.findall(r"[A-Z_]+\\([^)]*\\)|[A-Z_]+", options.get("-o", ""))
run = [n for n in cases if not wanted or n in wanted or n.partition("(")[0] in wanted]
run = [n for n in run if re.search(options.get("-p", ""), n.partition("(")[2][:-1])]
for name in run:
    print(f"  {{name}}: " + ("FAIL" if name in bad else "OK"))
n = sum(name not in bad for name in run)
print(f"  {{n}}/{{len(run)}} tests passed")
sys.exit(n != len(run))
"""
NEW = "MUL_MAT(type_a=q6_0_new,type_b=f32,m=16)"
OLD = tuple(
    f"MUL_MAT(type_a={kind},type_b=f32,m={m})" for kind in ("q4_0", "iq4_nl", "f32") for m in (1, 2)
)
FAULT = ('{ "q4_0", 32,', '{ "q4_0", 64,')
BROKEN_FOR_ALL = ("i < 8; i++", "i < 7; i++")


def make_build(
    folder: Path, cases: tuple[str, ...], bad: tuple[str, ...], *edits: tuple[str, str]
) -> StepBinaries:
    made = make_step(folder, {TARGET: f"# {folder.name}\n{FAKE.format(cases=cases, bad=bad)}"})
    library = compile_library(folder / "libggml.so", *edits)
    files = dict(made.files) | {library.name: Binary(folder.name, library.stat().st_size)}
    return replace(made, files=files, uses={TARGET: tuple(files)})


def judge(
    lab: Lab, folder: Path, bad: tuple[str, ...], *edits: tuple[str, str]
) -> tuple[CheckResult, list[str]]:
    """The verdict on a step that adds a type, and the arguments of each run of its program."""
    parent = make_build(folder / "parent", OLD, ())
    step = make_build(folder / "step", (*OLD, NEW), bad, *edits, *NEW_TYPE)
    found = check_backend_ops(make_room(lab), step, parent, Touched(FILES, unknown=FILES))
    return found, (step.folder / f"{TARGET}.calls").read_text().splitlines()


@needs_binutils
def test_a_new_type_alone_runs_its_cases_three_times(lab: Lab, tmp_path: Path) -> None:
    found, calls = judge(lab, tmp_path, ())
    assert found.verdict is Verdict.PASS, found
    assert calls == ["-p =(q6_0_new)(,|$)"] * 3
    assert found.facts["runs"][0]["passed"] == 1
    assert "3 runs of types q6_0_new" in found.detail


@needs_binutils
def test_a_fault_in_another_types_traits_is_found(lab: Lab, tmp_path: Path) -> None:
    found, calls = judge(lab, tmp_path, OLD[:1], FAULT)
    assert (found.verdict, OLD[0] in found.detail) == (Verdict.FAIL, True), found
    assert calls == ["-p =(q4_0|q6_0_new)(,|$)"] * 3


@needs_binutils
def test_a_fault_for_all_types_is_found_in_the_one_run_and_confirmed(
    lab: Lab, tmp_path: Path
) -> None:
    found, calls = judge(lab, tmp_path, (OLD[5],), BROKEN_FOR_ALL)
    assert (found.verdict, OLD[5] in found.detail) == (Verdict.FAIL, True), found
    again = ["-p =(q6_0_new)(,|$)", f"-o {OLD[5]}"]
    assert calls[0] == " ".join(EVERYTHING[1])
    assert sorted(calls[1:]) == sorted(again * 2)
    assert "all others once, for ggml_graph_compute" in found.detail


@needs_binutils
@pytest.mark.parametrize("edits", [(('"bad file"', '"odd file"'),), (MORE_TABLES, FILL)])
def test_code_that_no_operation_reaches_is_skipped(
    lab: Lab, tmp_path: Path, edits: tuple[tuple[str, str], ...]
) -> None:
    parent = make_build(tmp_path / "parent", OLD, ())
    step = make_build(tmp_path / "step", OLD, (), *edits)
    found = check_backend_ops(make_room(lab), step, parent, Touched(FILES, unknown=FILES))
    assert found.verdict is Verdict.INFORMATION
    assert "no operation reaches" in found.detail


@needs_binutils
def test_a_program_that_leaves_cases_out_is_invalid(lab: Lab, tmp_path: Path) -> None:
    parent = make_build(tmp_path / "parent", OLD, ())
    step = make_build(tmp_path / "step", OLD, (), FAULT)
    program = step.folder / TARGET
    program.write_text(program.read_text().replace("for name in run:", "for name in run[:-1]:"))
    program.write_text(program.read_text().replace("len(run)", "len(run) - 1"))
    program.write_text(program.read_text().replace("in run)", "in run) - 1"))
    with pytest.raises(InvalidMeasurement, match="ran 1 of 2 cases"):
        check_backend_ops(make_room(lab), step, parent, Touched(FILES, unknown=FILES))
