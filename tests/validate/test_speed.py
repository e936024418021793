"""Planted speeds and faults: real builds and processes of a stand-in for llama-bench (a fake).

The stand-in computes its numbers from `speed()`, so that they have no noise; the real programs are
in test_e2e_speed.py.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import stand_ins
from stand_ins import change_core
from tiny_project import Change, make_builder, make_stack

from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from validate import samplers
from validate.artifacts import StepBinaries
from validate.build import StepBuild, build_stack
from validate.cells import Judged, Speed
from validate.guards import Placement
from validate.profiles import QUICK
from validate.room import Model, Room
from validate.sample_store import SampleStore, open_samples
from validate.samplers import make_twin, probe
from validate.speed import Bench, Measured, Pairing, measure_speed, recall_speed
from validate.speed_stack import TIP, add_speed, check_speed, list_pairings, measure_stack
from validate.verdict import StepVerdict, Verdict

SPEED = "return 1e6;"
GPU = 'const char * gpu() { return ""; }'
SPLITS = "int splits() { return 1; }"
SLEEP = '(std::system("sleep 31415 &"), std::system("sleep 31415"), 1e6)'
CHANGES = (
    Change("readme", {"README.md": "another text\n"}),
    change_core("faster", SPEED, "return 1.2e6;"),
    change_core("slower", SPEED, "return 0.8e6;"),
    change_core("a-little", SPEED, "return 1.01e6;"),
    change_core("silent", SPEED, "return 0.0;"),
    change_core("fails", SPEED, "return -1.0;"),
    change_core("dies", SPEED, "std::abort();"),
    change_core("hangs", SPEED, f"return {SLEEP};"),
    change_core("renamed", GPU, 'const char * gpu() { return "Card B"; }'),
    change_core("listed", '"  (none)"', '"  Vulkan0: a card (1 MiB, 1 MiB free)"'),
    change_core("split", SPLITS, "int splits() { return 3; }"),
    change_core(
        "offloads",
        'offloaded() { return ""; }',
        'offloaded() { return "offloaded 31/31 layers to GPU"; }',
    ),
    change_core("clock", SPEED, "return 1e-6;"),
    change_core(
        "nonsense", 'extra() { return ""; }', 'extra() { return ", \\"samples_ns\\": [null]"; }'
    ),
    change_core("tears-a-row", 'extra() { return ""; }', 'extra() { return "\\n{\\"n_gen\\": "; }'),
)
TINY = replace(QUICK, looks=(8,), limit=20.0)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, dict[str, StepBuild]]:
    lab = Lab(tmp_path_factory.mktemp("speed") / "lab")
    stack = make_stack(lab, CHANGES, stand_ins.BASE)
    builds = build_stack(make_builder(lab, ("llama-bench",)), stack)
    assert all(build.binaries for build in builds)
    return lab, {build.name: build for build in builds}


@pytest.fixture
def store(lab: Lab) -> Iterator[SampleStore]:
    """A database of its own for each test."""
    with open_samples(lab) as opened:
        yield opened


@pytest.fixture
def bench(built: tuple[Lab, dict[str, StepBuild]], store: SampleStore, tmp_path: Path) -> Bench:
    room = Room(built[0], Model(tmp_path, "tiny.gguf", "0" * 64))
    return Bench(room, TINY, store, "a compiler", budget=60.0)


def binaries_of(built: tuple[Lab, dict[str, StepBuild]], name: str) -> StepBinaries:
    found = built[1][name].binaries
    assert found is not None
    return found


def pair(built: tuple[Lab, dict[str, StepBuild]], name: str) -> Pairing:
    return Pairing(name, "base", binaries_of(built, name), binaries_of(built, "base"))


def measure(bench: Bench, built: tuple[Lab, dict[str, StepBuild]], name: str) -> list[Judged]:
    return list(measure_speed(bench, pair(built, name), 60.0).cells)


@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        ("readme", Speed.IDENTICAL, ""),
        ("faster", Speed.FASTER, ""),
        ("a-little", Speed.SAME, ""),
        ("slower", Speed.SLOWER, "a second run says -20.0 %"),
        ("silent", Speed.INVALID, "measured no case"),
        ("fails", Speed.INVALID, "ended with 1"),
        ("dies", Speed.INVALID, "ended by signal 6"),
        ("renamed", Speed.INVALID, "gpu_info:"),
        ("listed", Speed.INVALID, "devices listed: none / Vulkan0"),
        ("split", Speed.INVALID, "graph splits: 1 / 3"),
        ("offloads", Speed.INVALID, "31/31 layers went to a device, none was asked"),
        ("clock", Speed.INVALID, "in a process that lived"),
        ("nonsense", Speed.INVALID, "another form"),
        ("tears-a-row", Speed.INVALID, "another form"),
    ],
)
def test_what_is_said_of_a_planted_step(
    bench: Bench,
    built: tuple[Lab, dict[str, StepBuild]],
    name: str,
    verdict: Speed,
    words: str,
) -> None:
    judged = measure(bench, built, name)
    assert [(one.cell.name, one.verdict) for one in judged] == [
        ("pp64", verdict),
        ("tg32", verdict),
    ]
    assert all(words in one.reason for one in judged), judged


def test_a_program_that_hangs_is_ended_with_all_that_it_started(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]]
) -> None:
    impatient = replace(bench, profile=replace(TINY, limit=1.0))
    judged = measure(impatient, built, "hangs")
    assert {one.verdict for one in judged} == {Speed.INVALID}
    assert "no answer within 1 s" in judged[0].reason
    assert are_gone("31415", seconds=5.0)


def are_gone(word: str, seconds: float) -> bool:
    """Whether no such process is left: SIGKILL returns before a grandchild of ours is dead."""
    end = time.monotonic() + seconds
    while list(find_processes(word)):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def find_processes(word: str) -> Iterator[str]:
    """Command lines of living processes with that argument."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in words:
            yield str(path)


def test_identical_binaries_are_not_run(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]]
) -> None:
    found = measure_speed(bench, pair(built, "readme"), 60.0)
    assert found.cached
    assert list(bench.store.export()) == []


def test_a_finished_comparison_is_not_measured_again(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]]
) -> None:
    assert recall_speed(bench, pair(built, "slower")) is None
    first = measure_speed(bench, pair(built, "slower"), 60.0)
    rows = list(bench.store.export())
    recalled = recall_speed(bench, pair(built, "slower"))
    assert recalled is not None
    assert (recalled.cached, recalled.cells) == (True, first.cells)
    assert recall_speed(replace(bench, seed=2), pair(built, "slower")) is None
    again = measure_speed(bench, pair(built, "slower"), 60.0)
    assert (first.cached, again.cached) == (False, True)
    assert again.cells == first.cells
    assert list(bench.store.export()) == rows
    other = measure_speed(replace(bench, seed=2), pair(built, "slower"), 60.0)
    assert not other.cached


def test_an_invalid_comparison_is_measured_again(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]]
) -> None:
    pairing = pair(built, "faster")
    wrong = replace(pairing, step=pair(built, "renamed").step)
    assert measure_speed(bench, wrong, 60.0).cells[0].verdict is Speed.INVALID
    assert not measure_speed(bench, wrong, 60.0).cached


def test_an_interrupted_comparison_goes_on_where_it_was(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, calls = samplers.run_job, []

    def interrupt(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 30:  # in the middle of a quad
            raise KeyboardInterrupt
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(samplers, "run_job", interrupt)
    with pytest.raises(KeyboardInterrupt):
        measure(bench, built, "faster")
    kept = list(bench.store.export())
    assert len(kept) == 29 * 2
    judged = measure(bench, built, "faster")
    assert {one.verdict for one in judged} == {Speed.FASTER}
    everything = list(bench.store.export())
    assert everything[: len(kept)] == kept
    places = [place(row) for row in everything if json.loads(row)["quad"]]
    assert len(places) == len({*places})


def place(row: str) -> tuple[object, ...]:
    """What a sample is of: no place may have been measured twice."""
    found = json.loads(row)
    return tuple(found[key] for key in ("session", "track", "cell", "quad", "position"))


def test_samples_of_another_fingerprint_are_not_mixed_in(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that was updated between an interruption and the next run."""
    run, calls = samplers.run_job, []

    def interrupt(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 30:
            raise KeyboardInterrupt
        done, table = run(*arguments)  # type: ignore[arg-type]
        cases = {
            name: replace(reading, facts={**reading.facts, "driver": "old"})
            for name, reading in table.cases.items()
        }
        return done, replace(table, cases=cases)

    monkeypatch.setattr(samplers, "run_job", interrupt)
    with pytest.raises(KeyboardInterrupt):
        measure(bench, built, "faster")
    monkeypatch.setattr(samplers, "run_job", run)
    (one, _) = measure(bench, built, "faster")
    assert one.verdict is Speed.INVALID
    assert "driver: old / missing" in one.reason


def test_a_foreign_library_in_the_steps_folder_is_invalid(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]], tmp_path: Path
) -> None:
    twin = make_twin(Lab(tmp_path), binaries_of(built, "faster"))
    library = twin.folder / "libcore.so"
    library.unlink()
    library.write_bytes((binaries_of(built, "base").folder / "libcore.so").read_bytes())
    judged = measure_speed(bench, replace(pair(built, "faster"), step=twin), 60.0).cells
    assert {one.verdict for one in judged} == {Speed.INVALID}
    assert "libcore.so is not the file of this step" in judged[0].reason


def test_a_twin_runs_its_own_files_under_a_path_of_the_same_length(
    built: tuple[Lab, dict[str, StepBuild]],
) -> None:
    base = binaries_of(built, "base")
    twin = make_twin(built[0], base)
    assert twin.folder != base.folder
    assert len(os.fspath(twin.folder)) == len(os.fspath(base.folder))
    assert sorted(p.name for p in twin.folder.iterdir()) == sorted(base.files)
    assert make_twin(built[0], base).folder.is_dir()  # a second time


@pytest.mark.parametrize("name", ["base", "listed"])
def test_a_device_with_a_typo_is_refused(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]], name: str
) -> None:
    with pytest.raises(InvalidMeasurement, match="there is no device Vulkna0"):
        probe(bench.room, binaries_of(built, name), Placement(device="Vulkna0"), 20.0)


def test_a_model_that_the_programs_cannot_load_is_refused_in_their_words(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]]
) -> None:
    room = replace(bench.room, model=replace(bench.room.model, name="broken.gguf"))
    with pytest.raises(InvalidMeasurement, match="unknown model architecture"):
        probe(room, binaries_of(built, "base"), Placement(), 20.0)


def test_without_time_nothing_is_decided(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]]
) -> None:
    cells = measure_speed(bench, pair(built, "slower"), 1e-6).cells
    assert {one.verdict for one in cells} == {Speed.INCONCLUSIVE}
    assert "could hide" in cells[0].reason
    later = measure_speed(bench, pair(built, "slower"), 60.0).cells
    assert {one.verdict for one in later} == {Speed.SLOWER}


def test_a_program_that_was_not_built_is_invalid(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]]
) -> None:
    with_ops = replace(bench, ops=("ADD",))
    cells = measure_speed(with_ops, pair(built, "readme"), 60.0).cells
    assert [one.verdict for one in cells] == [Speed.IDENTICAL, Speed.IDENTICAL, Speed.INVALID]
    assert "no such target" in cells[-1].reason


def test_the_stack_is_judged_step_by_step_and_as_a_whole(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]]
) -> None:
    builds = [built[1][name] for name in ("base", "readme", "faster", "a-little")]
    pairings = list_pairings(builds)
    assert [(p.name, p.parent_name) for p in pairings] == [
        ("readme", "base"),
        ("faster", "readme"),
        ("a-little", "faster"),
        (TIP, "base"),
    ]
    measured = measure_stack(bench, pairings)
    steps = [StepVerdict(name, "", ()) for name in ("readme", "faster", "a-little")]
    found = add_speed(steps, pairings, measured)
    assert [(step.patch, step.verdict) for step in found] == [
        ("readme", Verdict.IDENTICAL),
        ("faster", Verdict.FASTER),
        ("a-little", Verdict.SLOWER),
        (TIP, Verdict.SAME),
    ]


def test_a_single_step_is_its_own_tip(built: tuple[Lab, dict[str, StepBuild]]) -> None:
    assert len(list_pairings([built[1]["base"], built[1]["faster"]])) == 1


def test_a_step_that_does_not_build_is_no_arm(built: tuple[Lab, dict[str, StepBuild]]) -> None:
    broken = replace(built[1]["faster"], binaries=None, state="failed")
    (found,) = list_pairings([built[1]["base"], broken, built[1]["slower"]])
    assert (found.name, found.parent_name) == ("slower", "base")


def test_a_check_is_as_bad_as_its_worst_cell(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]]
) -> None:
    found = measure_speed(bench, pair(built, "faster"), 60.0)
    slow = replace(found.cells[1], verdict=Speed.SLOWER, reason="a second run says so")
    check = check_speed(Measured((found.cells[0], slow), cached=False))
    assert check.verdict is Verdict.SLOWER
    assert "pp64 FASTER +20.0 %" in check.detail
    assert "a second run says so" in check.detail
    assert len(check.facts["cells"]) == 2


def test_the_stack_keeps_to_its_budget(
    bench: Bench, built: tuple[Lab, dict[str, StepBuild]]
) -> None:
    builds = [built[1][name] for name in ("base", "faster", "slower")]
    started = time.monotonic()
    measure_stack(replace(bench, budget=1.0), list_pairings(builds))
    assert time.monotonic() - started < 20
