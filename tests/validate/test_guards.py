"""Guards: each planted difference is refused with words that name it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.errors import ExitCode, InvalidMeasurement
from validate import guards
from validate.artifacts import Binary, StepBinaries
from validate.guards import Placement, Probe, Watch

CASES = st.sets(st.sampled_from("abcdef"))
GPU = Placement(device="Vulkan0")
SEEN = Probe(("Vulkan0",), ("2 (with bs=1)",), "31/31", ("ggml_vulkan: 0 = A | int dot: 1",))


def keep(folder: Path, **files: bytes) -> StepBinaries:
    """A step folder of files; every one belongs to the target `bench`."""
    folder.mkdir(parents=True)
    kept = {}
    for name, content in files.items():
        (folder / name).write_bytes(content)
        kept[name] = Binary(hashlib.sha256(content).hexdigest(), len(content))
    return StepBinaries("0" * 64, folder, kept, {"bench": tuple(files)}, ())


def test_the_kept_files_are_accepted(tmp_path: Path) -> None:
    guards.require_own_binaries(keep(tmp_path / "bin", bench=b"1", lib=b"2"), "bench")


def test_a_stale_library_is_refused(tmp_path: Path) -> None:
    binaries = keep(tmp_path / "bin", bench=b"1", lib=b"2")
    (binaries.folder / "lib").write_bytes(b"3")
    with pytest.raises(InvalidMeasurement, match="lib is not the file of this step") as caught:
        guards.require_own_binaries(binaries, "bench")
    assert caught.value.exit_code is ExitCode.INVALID
    assert "build again" in caught.value.remedy


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    binaries = keep(tmp_path / "bin", bench=b"1", lib=b"2")
    (binaries.folder / "lib").unlink()
    with pytest.raises(InvalidMeasurement, match="nothing"):
        guards.require_own_binaries(binaries, "bench")


def test_a_link_to_another_steps_library_is_refused(tmp_path: Path) -> None:
    other = keep(tmp_path / "other", lib=b"2")
    binaries = keep(tmp_path / "bin", bench=b"1")
    (binaries.folder / "lib.so").symlink_to(other.folder / "lib")
    files = {**binaries.files, "lib.so": Binary(link="lib")}
    foreign = StepBinaries(binaries.key, binaries.folder, files, binaries.uses, ())
    with pytest.raises(InvalidMeasurement, match="not of this step"):
        guards.require_own_binaries(foreign, "bench")


def test_a_program_that_was_not_built_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidMeasurement, match="no such target"):
        guards.require_own_binaries(keep(tmp_path / "bin", bench=b"1"), "other")


def test_the_cpu_needs_no_device() -> None:
    guards.require_device(Probe((), ("1",)), Placement())


@pytest.mark.parametrize(
    ("listed", "words"),
    [(("Vulkan1", "CUDA0"), "lists Vulkan1, CUDA0"), ((), "lists no device at all")],
)
def test_a_device_with_a_typo_or_without_a_driver_is_refused(
    listed: tuple[str, ...], words: str
) -> None:
    with pytest.raises(InvalidMeasurement, match=words):
        guards.require_device(Probe(listed, ("1",)), Placement(device="Vulkna0"))


@pytest.mark.parametrize(
    ("placement", "offloaded", "good"),
    [
        (Placement(), "", True),
        (Placement(), "0/31", True),
        (Placement(), "31/31", False),
        (GPU, "31/31", True),
        (GPU, "30/31", False),
        (GPU, "0/31", False),
        (GPU, "", False),
    ],
)
def test_layers_go_where_they_were_asked_to(
    placement: Placement, offloaded: str, good: bool
) -> None:
    probe = Probe(("Vulkan0",), ("1",), offloaded)
    if good:
        guards.require_offloaded(probe, placement)
        return
    with pytest.raises(InvalidMeasurement, match="layers"):
        guards.require_offloaded(probe, placement)


def test_a_program_that_ran_no_graph_is_refused() -> None:
    with pytest.raises(InvalidMeasurement, match="graph splits"):
        guards.require_splits(Probe((), ()))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Probe(("Vulkan1",), SEEN.splits, SEEN.offloaded, SEEN.paths), "Vulkan0 / Vulkan1"),
        (Probe((), SEEN.splits, SEEN.offloaded, SEEN.paths), "Vulkan0 / none"),
        (Probe(SEEN.devices, ("3",), SEEN.offloaded, SEEN.paths), "graph splits"),
        (Probe(SEEN.devices, SEEN.splits, "30/31", SEEN.paths), "31/31 / 30/31"),
        (Probe(SEEN.devices, SEEN.splits, SEEN.offloaded, ("int dot: 0",)), "code path"),
    ],
)
def test_arms_of_another_fingerprint_are_refused(other: Probe, words: str) -> None:
    guards.require_same_facts("bench", SEEN.facts, SEEN.facts)
    with pytest.raises(InvalidMeasurement, match=words):
        guards.require_same_facts("bench", SEEN.facts, other.facts)


def test_a_fact_that_one_arm_lacks_is_a_difference() -> None:
    with pytest.raises(InvalidMeasurement, match="driver: 1 / missing"):
        guards.require_same_facts("bench", {"driver": "1"}, {})


def test_a_watch_refuses_a_device_that_changes_in_the_middle() -> None:
    watch = Watch()
    watch.require_same("bench", "pp", "A", {"gpu": "x"})
    watch.require_same("bench", "tg", "A", {"gpu": "y"})
    watch.require_same("bench", "pp", "B", {"gpu": "x"})
    with pytest.raises(InvalidMeasurement, match=r"pp: arms A and A differ in gpu: x / z"):
        watch.require_same("bench", "pp", "A", {"gpu": "z"})


def test_a_setting_that_the_program_ignored_is_refused() -> None:
    guards.require_as_asked("bench", {"flash_attn": "0", "other": "1"}, {"flash_attn": "0"})
    with pytest.raises(InvalidMeasurement, match="flash_attn is -1, asked was 0"):
        guards.require_as_asked("bench", {"flash_attn": "-1"}, {"flash_attn": "0"})


@given(CASES, CASES, CASES)
def test_cases_are_accepted_just_if_each_planned_one_ran_or_has_a_reason(
    planned: set[str], run: set[str], skipped: set[str]
) -> None:
    reasons = dict.fromkeys(skipped, "not supported")
    if run and run | skipped == planned:
        guards.require_cases("ops", planned, run, reasons)
        return
    with pytest.raises(InvalidMeasurement):
        guards.require_cases("ops", planned, run, reasons)


def test_nothing_but_unsupported_cases_is_no_measurement() -> None:
    with pytest.raises(InvalidMeasurement, match=r"measured no case \(not supported\)"):
        guards.require_cases("ops", ["ADD"], [], {"ADD": "not supported"})


def test_a_case_that_vanished_or_came_up_is_named() -> None:
    with pytest.raises(InvalidMeasurement, match="missing: MUL; not planned: SUB"):
        guards.require_cases("ops", ["ADD", "MUL"], ["ADD", "SUB"])
