"""What prefill is made of: cells, chains, waterfalls, the logger's output. No process is run."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from gguf import GGMLQuantizationType
from prefill_programs import edit_row, make_bench

from upstream.errors import EnvironmentFault, InvalidMeasurement, UsageError
from upstream.lab import Lab
from validate.artifacts import StepBinaries
from validate.cells import Cell, Judged, Speed
from validate.guards import Placement, Probe
from validate.prefill.chart import draw_fall
from validate.prefill.grid import (
    FULL,
    QUICK,
    Grid,
    choose_grid,
    list_cells,
    list_jobs,
    read_prefill,
)
from validate.prefill.lanes import KHR_CORES, Lane, drop_doubles, list_lanes, read_free
from validate.prefill.measure import Outcome, Walked
from validate.prefill.models import head_of, provide_models
from validate.prefill.ops import Matrix, expert_pattern, list_matrices
from validate.prefill.points import (
    Leg,
    Point,
    choose_steps,
    list_legs,
    list_places,
    open_prebuilt,
    read_binaries,
)
from validate.prefill.shares import count_graphs, name_kind, read_blocks, take_prompt
from validate.prefill.tables import choose_code
from validate.prefill.waterfall import stack_cell
from validate.shape_models.choices import Choice

DATA = Path(__file__).parent.parent / "data" / "validate"
ROWS = (DATA / "llama-bench-prefill.jsonl").read_text()
CAPTURED = Grid((128, 512), (128, 512), (64,), repetitions=2)
CPU = Placement()


def test_captured_rows_are_the_cells_of_their_grid() -> None:
    table = read_prefill(ROWS, CAPTURED, CPU, "cpu")
    assert [*table.cases] == [cell.name for cell in list_cells(CAPTURED)]
    assert table.cases["pp512 ub128 @ d64"].facts["path"] == "cpu"
    assert table.cases["pp512 ub128 @ d64"].value > 1


def test_rows_of_two_versions_have_the_same_facts() -> None:
    first = ROWS.splitlines()[0]
    older = edit_row(first, build_number=10566, lazy_mode="another")
    facts = [read_prefill(row, CAPTURED, CPU).cases["pp128 ub128 @ d64"] for row in (first, older)]
    assert facts[0] == facts[1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"samples_ns": [1]}, "1 times, asked was 2"),
        ({"flash_attn": 0}, "flash_attn is 0, asked was 1"),
        ({"devices": "Vulkan0"}, "devices is Vulkan0"),
        ({"build_commit": "abc-dirty"}, "edited source"),
        ({"n_gen": 4}, "a generation"),
        ({"gpu_info": None, "n_ubatch": "x"}, "another form"),
    ],
)
def test_a_row_that_measured_something_else(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidMeasurement, match=words):
        read_prefill(edit_row(ROWS.splitlines()[0], **changes), CAPTURED, CPU)


def test_profiles_and_other_sizes() -> None:
    assert len(list_cells(FULL)) == 4 * 3 * 3
    assert choose_grid("quick", None, None, None) == QUICK
    grid = choose_grid("full", "64,32", "16", "0,8")
    assert (grid.prompts, grid.ubatches, grid.depths) == ((32, 64), (16,), (0, 8))
    shallow, deep = list_jobs(grid, "m.gguf", CPU, "cpu")
    assert shallow.names == ("pp32 ub16", "pp64 ub16")
    assert deep.names == ("pp32 ub16 @ d8", "pp64 ub16 @ d8")
    for option in ("-dev none", "-ngl 0", "-fa 1", "-t 1", "-ub 16", "-b 2048", "-lm mmap"):
        assert option in " ".join(deep.arguments)


@pytest.mark.parametrize(
    "sizes",
    [("x", None, None), ("0", None, None), (None, "4096", None), (None, None, "-1")],
)
def test_sizes_that_are_none(sizes: tuple[str | None, ...]) -> None:
    with pytest.raises(UsageError, match="are no numbers from"):
        choose_grid("quick", *sizes)
    with pytest.raises(UsageError, match="no profile"):
        choose_grid("slow", None, None, None)


def point(name: str, *, upstream: bool = False) -> Point:
    binaries = StepBinaries(name, Path(name), {}, {}, ())
    return Point(name, upstream, () if upstream else (name,), binaries)


CHAIN = (
    point("b10566", upstream=True),
    point("b11549", upstream=True),
    point("one.patch"),
    point("tip.patch"),
)


def test_a_chain_has_a_leg_a_step_and_its_totals() -> None:
    legs = list_legs(CHAIN)
    assert [(leg.kind, leg.name, leg.across) for leg in legs] == [
        ("upstream", "b10566 -> b11549", True),
        ("patches", "one.patch", False),
        ("patches", "tip.patch", False),
        ("total", "b11549 -> tip.patch", False),
        ("total", "b10566 -> tip.patch", True),
    ]
    assert [leg.kind for leg in list_legs(CHAIN[:2])] == ["upstream"]


def test_a_step_that_does_not_build_is_left_out() -> None:
    broken = replace(CHAIN[2], binaries=None, error="does not build: x")
    legs = list_legs((*CHAIN[:2], broken, CHAIN[3]))
    assert [leg.name for leg in legs] == ["b10566 -> b11549", "tip.patch", "b10566 -> tip.patch"]
    with pytest.raises(EnvironmentFault, match=r"1 builds, .*does not build: x"):
        list_legs((CHAIN[0], broken))


def test_steps_by_name_come_with_their_parents() -> None:
    stack = SimpleNamespace(steps=[SimpleNamespace(patch=f"{name}.patch") for name in "abcd"])
    assert choose_steps(stack, "c") == [2]  # type: ignore[arg-type]
    assert choose_steps(stack, "all") == [0, 1, 2, 3]  # type: ignore[arg-type]
    assert list_places([2], 4) == [0, 2, 3, 4]
    assert list_places([], 4) == [0, 4]
    with pytest.raises(UsageError, match="no patch x"):
        choose_steps(stack, "a,x.patch")  # type: ignore[arg-type]


def test_prebuilt_programs(tmp_path: Path) -> None:
    old, new = (make_bench(tmp_path / name, 1e6) for name in ("old", "new"))
    points = open_prebuilt([f"b10566={old}", f"mine={new}"])
    assert [(each.name, each.upstream) for each in points] == [("b10566", True), ("mine", False)]
    for wrong in ([f"b1={old}"], [f"b1={old}", f"b1={new}"], ["b1"], ["b1=/nothing", "b2=/no"]):
        with pytest.raises(UsageError):
            open_prebuilt(wrong)
    (old / "libggml.so").write_bytes(b"a library")
    with pytest.raises(UsageError, match="does not look for libraries beside it"):
        read_binaries(old)


def judged(center: float, width: float = 0.01, verdict: Speed = Speed.FASTER) -> Judged:
    quads = 0 if verdict in (Speed.IDENTICAL, Speed.INVALID) else 8
    cell = Cell("llama-bench", "pp512 ub512", "t/s", 0.02)
    return Judged(cell, verdict, center, center - width, center + width, quads, 0.02, 0.01)


def walk(*effects: Judged) -> Outcome:
    legs = list_legs(CHAIN)
    walked = [Walked(leg, (one,), {}) for leg, one in zip(legs, effects, strict=True)]
    return Outcome(None, tuple(walked))  # type: ignore[arg-type]


def test_only_our_own_legs_decide_the_exit_code() -> None:
    slower, lost = judged(-0.1, verdict=Speed.SLOWER), judged(0.0, verdict=Speed.INVALID)
    assert choose_code([walk(slower, SAME, SAME, SAME, slower)]) == 0  # upstream's own history
    assert choose_code([walk(SAME, slower, SAME, SAME, SAME)]) == 1
    assert choose_code([walk(lost, SAME, SAME, slower, SAME)]) == 1
    assert choose_code([walk(lost, SAME, SAME, SAME, SAME)]) == 4


SAME = judged(0.0, verdict=Speed.IDENTICAL)


def test_legs_stack_up_to_what_was_measured_directly() -> None:
    fall = stack_cell(
        walk(judged(0.2), SAME, judged(0.1), judged(0.1), judged(0.31)), "pp512 ub512"
    )
    assert [round(bar.start, 9) for bar in fall.bars] == [0.0, 0.2, 0.2]
    head, whole = fall.totals
    assert (head.sum, head.consistent) == (0.1, True)
    assert whole.sum == pytest.approx(0.3)
    assert whole.half_width == pytest.approx(math.hypot(0.01, 0.01))
    assert whole.consistent
    assert whole.describe() == ("product of the legs 1.350x, measured directly 1.363x: consistent")


def test_a_direct_number_that_disagrees_is_named() -> None:
    fall = stack_cell(walk(judged(0.2), SAME, judged(0.1), judged(0.1), judged(0.4)), "pp512 ub512")
    assert fall.totals[1].consistent is False
    assert "INCONSISTENT" in draw_fall(fall, "m", "a title")


def test_a_leg_without_a_number_makes_the_sum_not_whole() -> None:
    lost = judged(0.0, verdict=Speed.INVALID)
    fall = stack_cell(walk(lost, SAME, judged(0.1), judged(0.1), judged(0.3)), "pp512 ub512")
    assert fall.totals[1].consistent is None
    assert "1 legs have no number" in fall.totals[1].describe()
    few = judged(0.3, math.inf, Speed.INCONCLUSIVE)
    fall = stack_cell(walk(few, SAME, judged(0.1), judged(0.1), judged(0.3)), "pp512 ub512")
    assert "too few quads" in fall.totals[1].describe()


def test_the_chart_shows_each_leg_where_the_last_one_ended() -> None:
    fall = stack_cell(
        walk(judged(0.2), SAME, judged(-0.1), judged(-0.1), judged(0.1)), "pp512 ub512"
    )
    svg = ET.fromstring(draw_fall(fall, "m", "<a title>"))
    bars = [rect for rect in svg.iter("rect") if rect.get("class", "").startswith("bar")]
    ends = [(float(rect.get("x", "")[:-1]), float(rect.get("width", "")[:-1])) for rect in bars]
    assert [rect.get("class") for rect in bars] == [
        "bar up", "bar none", "bar down", "bar direct", "bar sum", "bar direct", "bar sum",
    ]  # fmt: skip
    assert ends[0][0] + ends[0][1] == pytest.approx(ends[1][0], abs=0.02)  # up to the next one
    assert ends[2][0] + ends[2][1] == pytest.approx(ends[1][0], abs=0.02)  # and down from there
    texts = [text.text or "" for text in svg.iter("text")]
    assert "product of the legs" in texts
    assert any(re.fullmatch(r"FASTER 1\.221x", text) for text in texts)


TIMINGS = """
llama_context: something
----------------
Vulkan Timings:
MUL_MAT q4_K m=256 n=64 k=256: 4 x 10.5 us = 42 us (799.2 GFLOPS/s)
RMS_NORM_MUL RMS_NORM(256,64,1,1): 2 x 3.25 us = 6.5 us
FLASH_ATTN_EXT dst(64,4,64,1),  q(64,64,4,1),  k(64,256,2,1): 2 x 10 us = 20 us (1.2e+03 GFLOPS/s)
Total time: 68.5 us.
----------------
Vulkan Timings:
MUL_MAT q4_K m=256 n=64 k=256: 4 x 11.5 us = 46 us (799.2 GFLOPS/s)
MUL_MAT q4_K m=512 n=64 k=256: 1 x 1e+01 us = 10 us
Total time: 56 us.
"""


def test_the_loggers_graphs_and_what_belongs_to_the_prompt() -> None:
    first, second = read_blocks(TIMINGS)
    assert [name_kind(one.name) for one in first] == [
        "MUL_MAT q4_K", "RMS_NORM_MUL RMS_NORM", "FLASH_ATTN_EXT",
    ]  # fmt: skip
    filled = Grid((64,), (64,), (64,))
    assert [one.microseconds for one in take_prompt([first, second], filled)] == [46.0, 10.0]
    whole = take_prompt([first, second], Grid((128,), (64,), (0,)))
    assert (whole[0].runs, whole[0].microseconds) == (8, 88.0)
    with pytest.raises(InvalidMeasurement, match="2 graphs of 3 micro-batches"):
        take_prompt([first, second], Grid((128,), (64,), (64,)))


def test_what_the_real_logger_printed() -> None:
    """b11549 on lavapipe: tiny-moe-128, 128 tokens in micro-batches of 64."""
    blocks = read_blocks((DATA / "vulkan-timings.txt").read_text())
    assert len(blocks) == 2
    found = take_prompt(blocks, Grid((128,), (64,), (0,)))
    kinds = {name_kind(one.name) for one in found}
    assert {"MUL_MAT q4_K", "MUL_MAT_ID q4_K", "FLASH_ATTN_EXT", "MULTI_ADD ADD"} <= kinds
    assert not [kind for kind in kinds if "=" in kind or "(" in kind]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("nothing of it", "printed nothing"),
        (TIMINGS.replace("68.5", "99.5"), "names 68 us of 100 us"),
        (TIMINGS.rsplit("Total", 1)[0], "cut off"),
    ],
)
def test_a_logger_of_another_form(said: str, words: str) -> None:
    with pytest.raises(InvalidMeasurement, match=words):
        read_blocks(said)


def test_micro_batches_of_a_prompt() -> None:
    assert count_graphs(512, 512) == 1
    assert count_graphs(4096, 1024) == 4
    assert count_graphs(2100, 512) == 4 + 1
    assert count_graphs(0, 512) == 0


def said(cores: str) -> Probe:
    line = f"ggml_vulkan: 0 = a card | fp16: 1 | matrix cores: {cores}"
    return Probe(("Vulkan0",), ("1",), "9/9", (line,))


def test_a_lane_refuses_another_path() -> None:
    default, khr = list_lanes(["Vulkan0"], ("default", "khr"), 1)
    assert khr.launch.variables == {"GGML_VK_DISABLE_COOPMAT2": "1"}
    assert (khr.name, khr.path) == ("Vulkan0 khr", KHR_CORES)
    default.require_path(said("NV_coopmat2"))
    khr.require_path(said("KHR_coopmat"))
    for wrong in ("NV_coopmat2", "none"):
        with pytest.raises(InvalidMeasurement, match=f"the build says {wrong}"):
            khr.require_path(said(wrong))
    with pytest.raises(InvalidMeasurement, match="nothing of its matrix cores"):
        khr.require_path(Probe((), ()))


def test_lanes_of_other_devices_and_lanes_that_are_one() -> None:
    told: list[str] = []
    assert [lane.name for lane in list_lanes(["cpu", "none", "ROCm0"], ("khr",), 2)] == [
        "cpu", "cpu", "ROCm0",
    ]  # fmt: skip
    default, khr = list_lanes(["Vulkan0"], ("default", "khr"), 1)
    amd = replace(default, cores=KHR_CORES)
    assert drop_doubles([amd, khr], told.append) == [amd]
    assert "by default, measured once" in told[0]
    assert drop_doubles([replace(default, cores="NV_coopmat2"), khr], told.append)[1] is khr
    with pytest.raises(UsageError, match="no path"):
        list_lanes(["Vulkan0"], (), 1)


def test_free_memory_of_devices() -> None:
    listed = "Available devices:\n  Vulkan0: a card (a fake) (90000 MiB, 3 MiB free)\n"
    assert read_free(listed) == {"Vulkan0": 3 << 20}


def test_cases_of_operators_at_the_models_sizes(lab: Lab) -> None:
    (model,) = provide_models(lab, ["tiny-moe-128"], Choice())
    head = head_of(model)
    matrices = list_matrices(head)
    assert Matrix(GGMLQuantizationType.Q4_K, 256, 256) in matrices
    assert {matrix.kind.name for matrix in matrices} == {"F32", "Q4_K"}  # the router; no output
    line = Matrix(GGMLQuantizationType.Q4_K, 512, 256).line(31, 64).split()
    assert line[:8] == ["31", "0", "512", "64", "1", "1", "0", "2"]
    assert line[8:17] == ["12", "256", "512", "1", "1", "144", "144", "73728", "73728"]
    assert line[17:] == [
        "0",
        "256",
        "64",
        "1",
        "1",
        "4",
        "1024",
        "65536",
        "65536",
        "q4_k-m512-n64-k256",
    ]
    pattern = expert_pattern(head, (64, 512))
    case = "type_a=q4_K,type_b=f32,n_mats=128,n_used=8,b=0,m=256,n=512,k=256"
    assert re.search(pattern, case)
    assert re.search(pattern, f"{case},amax=1.0,m_v=0")
    assert not re.search(pattern, case.replace("n_used=8", "n_used=4"))


def test_models_that_are_none(lab: Lab) -> None:
    for name in ("nothing.gguf", "moe-129", "moe-128/x"):
        with pytest.raises(UsageError):
            provide_models(lab, [name], Choice())


def test_a_leg_names_what_lies_on_it() -> None:
    many = replace(CHAIN[3], patches=("a", "b", "c"))
    leg = Leg("patches", CHAIN[1], many)
    assert leg.name == "b11549 -> tip.patch and 2 before it"
    assert Lane("cpu").path == "cpu"
