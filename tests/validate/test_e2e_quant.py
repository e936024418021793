"""quant-evidence on the real llama.cpp: one packaged model, the encoders of base and tip."""

from __future__ import annotations

from dataclasses import replace

import pytest
from real_stack import provide_stack

from upstream.git import Git
from upstream.lab import open_lab
from validate.build import Builder
from validate.corpus import open_corpus
from validate.guards import Placement
from validate.models import provide_model
from validate.quant_evidence.place import Builds, build_ends
from validate.quant_evidence.run import Plan, measure_model
from validate.quant_evidence.schemes import choose, list_known
from validate.quant_evidence.weight_error import Libraries, find_library, measure_normal
from validate.recipe import llama_recipe
from validate.result_cache import ResultCache
from validate.room import Room
from validate.toolchain import find_toolchain

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def builds() -> Builds:
    lab = open_lab()
    stack = provide_stack(lab)
    recipe = llama_recipe(stack.version)
    return build_ends(Builder(lab, Git(lab.repository), recipe, find_toolchain(), jobs=2), stack)


def make_plan(builds: Builds) -> Plan:
    room = Room(open_lab(), provide_model(open_lab()), threads=1)
    known = list_known(room, builds.tip)
    return Plan(
        builds=builds,
        schemes=choose(["Q4_0", "NVFP4 (upstream)", "NVFP4"], known)[0],
        native=list_known(room, builds.base),
        corpus=replace(open_corpus(), chunks=6),
        rounds=0,
        placement=Placement(1),
        seed=1,
        facts={},
    )


def test_a_searched_scale_diverges_less_and_upstream_reads_it(builds: Builds) -> None:
    lab = open_lab()
    document = measure_model(lab, provide_model(lab), make_plan(builds), threads=1)
    rows = {row["scheme"]: row for row in document["rows"]}
    before, after = (rows[name] for name in ("NVFP4 (upstream)", "NVFP4"))
    assert before["bytes"] == after["bytes"]
    assert list(after["census"]) == ["nvfp4"]
    assert after["quality"]["mean"]["high"] < before["quality"]["mean"]["low"]
    assert len(after["quality"]["chunks"]) == 6


def test_the_encoders_of_the_tip_are_those_of_the_specification(builds: Builds) -> None:
    """Gaussian weights of 1.0: a simulation that shares no code gave 9.1e-3, 6.6e-3, 7.4e-3."""
    libraries = Libraries(find_library(builds.tip), find_library(builds.base))
    measured = measure_normal(ResultCache(open_lab()), libraries, 1.0)
    found = {each.encoding: each.nmse.value for each in measured}
    assert found["NVFP4 (upstream)"] == pytest.approx(9.1e-3, rel=0.02)
    assert found["NVFP4"] == pytest.approx(6.6e-3, rel=0.02)
    assert found["Q4_0"] == pytest.approx(7.4e-3, rel=0.02)
