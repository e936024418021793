"""Occupancy cliffs between column counts. The numbers are made up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.validate.isa_stand_ins import make_compiler, mat_vec
from validate.isa.cliffs import count_halvings, find_cliffs, list_waves
from validate.isa.page import render_page
from validate.isa.place import Place
from validate.isa.run import IsaRun, Scan, Scope
from validate.isa.statistics import Numbers
from validate.isa.tables import document_run, format_run
from validate.isa.variants import Variant, halve_rows


def answer(waves: int, cost: int) -> Numbers:
    return Numbers(waves=waves, inverse_throughput=cost, access={})


def shader(waves: Sequence[int], costs: Sequence[int], rows: int = 4) -> dict[Variant, Numbers]:
    """The mat-vec of a type at 1, 2, ... columns."""
    pairs = enumerate(zip(waves, costs, strict=True), 1)
    return {mat_vec(rows=rows, columns=count): answer(*pair) for count, pair in pairs}


# The sixth column leaves 4 of 8 waves and costs 300 where the others cost 100.
STEEP = shader([16, 8, 8, 8, 8, 4], [400, 500, 600, 700, 800, 1100])


def test_a_column_that_costs_more_because_fewer_waves_fit() -> None:
    (cliff,) = find_cliffs(STEEP, {})
    assert (cliff.columns, cliff.waves, cliff.costs) == ("5 -> 6", (8, 4), (200, 275))
    assert cliff.steepness == 3.0
    assert cliff.halved is None
    assert count_halvings(STEEP) == 2  # the one at 2 columns costs nothing


@pytest.mark.parametrize(
    ("waves", "costs"),
    [
        ([8, 8, 8, 8], [400, 500, 600, 900]),  # dear, but as many waves
        ([16, 8, 6, 4], [400, 500, 600, 700]),  # fewer waves, hidden by the others
        ([16, 8, 8, 4], [400, 500, 600, 800]),  # exactly twice the median
        ([8], [400]),
    ],
)
def test_what_is_no_cliff(waves: list[int], costs: list[int]) -> None:
    assert find_cliffs(shader(waves, costs), {}) == ()


def test_a_count_that_was_not_compiled_is_no_step() -> None:
    some = {each: found for each, found in STEEP.items() if each.columns != 5}
    assert find_cliffs(some, {}) == ()
    assert list_waves(some) == {"mul_mat_vec_iq3_s_f32_f32 wg 64": [16, 8, 8, 8, None, 4]}
    failed = {each: replace(found, error="signal 11") for each, found in STEEP.items()}
    assert find_cliffs(failed, {}) == ()
    assert list_waves(failed) == {}


def test_other_rows_at_more_columns_are_another_series() -> None:
    """As upstream does it for q8_1: one row up to 4 columns, 4 rows, cheaper ones, above."""
    few = shader([32, 24, 24, 24], [1000, 2000, 3100, 4100], rows=1)
    many = shader([32, 24, 24, 24, 16, 14, 10], [0] * 4 + [8000, 9000, 10000])
    both = few | {each: many[each] for each in list(many)[4:]}
    assert find_cliffs(both, {}) == ()
    assert list_waves(both) == {"mul_mat_vec_iq3_s_f32_f32 wg 64": [32, 24, 24, 24, 16, 14, 10]}


def test_four_subgroups_are_left_out() -> None:
    name = "mul_mat_vec_iq3_s_f32_f32_subgroup"
    large = {replace(each, shader=name): found for each, found in STEEP.items()}
    assert find_cliffs(large, {}) == ()
    assert count_halvings(large) == 2


def test_half_the_rows_are_the_lever() -> None:
    halves = halve_rows([*STEEP, mat_vec(rows=1), replace(mat_vec(), shader="matmul_f16_cm1")])
    assert {each.rows for each in halves.values()} == {2}
    assert len(halves) == len(STEEP)
    (cliff,) = find_cliffs(STEEP, {each: answer(8, 440) for each in halves})
    assert cliff.halved == 0.8


def test_cliffs_are_shown(tmp_path: Path) -> None:
    halved = {each: answer(8, 440) for each in STEEP}
    scan = Scan("tip", "stand-in", STEEP, {}, 6, halved)
    compiler = make_compiler(Place(tmp_path), tmp_path / "none")
    run = IsaRun("b1", Scope.MAT_VEC, (compiler,), "glslc", (), (scan,))
    row = "mul_mat_vec_iq3_s_f32_f32 wg 64  5 -> 6   8 -> 4  200 -> 275     3.0"
    assert row in format_run(run)
    (total,) = json.loads(json.dumps(document_run(run), default=str))["totals"]
    assert total["cliffs"][0]["cost with half the rows"] == 0.8
    assert total["columns that halve the waves"] == 2
    assert "<td>5 -&gt; 6</td><td>8 -&gt; 4</td>" in render_page(run)
