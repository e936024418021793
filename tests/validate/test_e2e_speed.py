"""Real llama.cpp: a planted slow-down is called SLOWER, a build against its own copy is not.

Run by `nox -s e2e`; ten minutes on two cores beside a warm lab (LAB_DIR). On a machine that does
much else a slow-down of 10 % may drown; that of 20 % must not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from real_stack import provide_stack

from upstream.errors import InvalidMeasurement
from upstream.git import Git
from upstream.lab import Lab, open_lab
from validate.artifacts import StepBinaries
from validate.build import Builder, build_stack
from validate.cells import Judged, Speed
from validate.guards import Placement
from validate.models import open_model, provide_model
from validate.planted import plant_slow_down
from validate.profiles import FULL, QUICK
from validate.recipe import llama_recipe
from validate.room import Room
from validate.sample_store import SampleStore, open_samples
from validate.samplers import make_twin, probe
from validate.speed import Bench, Pairing, measure_speed
from validate.toolchain import find_toolchain

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parent.parent.parent
PERCENTS = (10, 20)


@pytest.fixture(scope="module")
def lab() -> Lab:
    return open_lab()


@pytest.fixture(scope="module")
def builds(lab: Lab) -> dict[str, StepBinaries]:
    """The base and the base with a slow-down of 10 and 20 %."""
    git, stack = Git(lab.repository), provide_stack(lab)
    steps = tuple(plant_slow_down(git, lab, stack, percent) for percent in PERCENTS)
    builder = Builder(lab, git, llama_recipe(stack.version), find_toolchain(), jobs=2)
    built = build_stack(builder, replace(stack, steps=steps))
    return {build.name: build.binaries for build in built if build.binaries is not None}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    """A database of its own: nothing is known from an earlier run."""
    (tmp_path / "lab").mkdir()
    with open_samples(Lab(tmp_path / "lab")) as opened:
        yield opened


@pytest.fixture
def bench(lab: Lab, store: SampleStore) -> Bench:
    return Bench(Room(lab, provide_model(lab)), QUICK, store, "the compiler here", budget=300.0)


def judge(bench: Bench, step: StepBinaries, parent: StepBinaries) -> tuple[Judged, ...]:
    return measure_speed(bench, Pairing("step", "base", step, parent), bench.budget).cells


@pytest.mark.measures
def test_a_build_against_its_own_copy_is_neither_slower_nor_faster(
    bench: Bench, lab: Lab, builds: dict[str, StepBinaries]
) -> None:
    base = builds["base"]
    judged = judge(replace(bench, identical_too=True), make_twin(lab, base), base)
    assert {one.verdict for one in judged} <= {Speed.SAME, Speed.INCONCLUSIVE}, judged
    assert all(one.quads >= QUICK.looks[0] for one in judged), judged


@pytest.mark.measures
def test_a_slow_down_of_20_percent_is_slower(bench: Bench, builds: dict[str, StepBinaries]) -> None:
    judged = judge(bench, builds["slow-20.patch"], builds["base"])
    assert {one.verdict for one in judged} == {Speed.SLOWER}, judged
    assert all("instructions" in one.reason for one in judged)


@pytest.mark.measures
def test_a_slow_down_of_10_percent_is_slower(bench: Bench, builds: dict[str, StepBinaries]) -> None:
    judged = judge(bench, builds["slow-10.patch"], builds["base"])
    assert Speed.SLOWER in {one.verdict for one in judged}, judged
    assert {one.verdict for one in judged} <= {Speed.SLOWER, Speed.INCONCLUSIVE}, judged


def test_the_other_programs_measure_what_the_full_profile_plans(
    bench: Bench, lab: Lab, builds: dict[str, StepBinaries]
) -> None:
    """One quad of each program is enough to see that plan and output agree."""
    sizes = replace(FULL, prompt=16, generate=4, depths=(0, 32), parallel=(1, 2), threads=1)
    full = replace(bench, profile=sizes, ops=("ADD",), ops_parameters=r"ne=\[4096,1,1,1\]")
    judged = measure_speed(
        full, Pairing("step", "base", builds["slow-20.patch"], builds["base"]), 1.0
    ).cells
    tools = {one.cell.tool for one in judged}
    assert tools == {"llama-bench", "llama-batched-bench", "test-backend-ops"}
    assert {one.verdict for one in judged} == {Speed.INCONCLUSIVE}, judged


def test_a_device_with_a_typo_is_refused(bench: Bench, builds: dict[str, StepBinaries]) -> None:
    with pytest.raises(InvalidMeasurement, match="there is no device Vulkna0"):
        probe(bench.room, builds["base"], Placement(device="Vulkna0"), 60.0)


def test_a_truncated_model_and_one_of_another_architecture_are_refused(
    bench: Bench, lab: Lab, builds: dict[str, StepBinaries], tmp_path: Path
) -> None:
    whole = (bench.room.model.folder / bench.room.model.name).read_bytes()
    name, other = b"general.architecture", b"llama"
    at = whole.index(other, whole.index(name) + len(name))
    cut, foreign = tmp_path / "cut.gguf", tmp_path / "foreign.gguf"
    cut.write_bytes(whole[: len(whole) // 2])
    foreign.write_bytes(whole[:at] + b"lemma" + whole[at + len(other) :])
    for path, words in ((cut, "corrupted or incomplete"), (foreign, "unknown model architecture")):
        with pytest.raises(InvalidMeasurement, match=words):
            probe(Room(lab, open_model(path)), builds["base"], Placement(), 60.0)
