"""`python -m validate.prefill` from programs to the page, on fakes (labelled) of llama-bench.

Their speeds are planned and have no noise; a real llama-bench is in test_e2e_prefill.py.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from prefill_programs import count_calls, make_bench

from upstream.errors import InvalidMeasurement, UsageError
from upstream.lab import Lab
from validate.prefill.__main__ import main, make_parser
from validate.prefill.lanes import Lane
from validate.prefill.place import Builds, require_hardware
from validate.room import Launch
from validate.sample_store import open_samples
from validate.vulkan.device import Device

QUICK = ("--looks", "6", "--prompts", "512", "--ubatches", "512", "-t", "1", "--repetitions", "1")


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    speeds = {"b1": 1e6, "b2": 1.2e6, "mine": 1.5e6}
    return {
        name: make_bench(tmp_path / name, speed, number=number)
        for number, (name, speed) in enumerate(speeds.items(), 1)
    }


def prefill(
    monkeypatch: pytest.MonkeyPatch, folders: dict[str, Path], names: str, *options: str
) -> int:
    chain = [word for name in names.split() for word in ("--prebuilt", f"{name}={folders[name]}")]
    command = ["prefill", "--model", "tiny-dense", *QUICK, *chain, *options]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_two_versions_and_a_patch_on_the_cpu_and_again_from_the_store(
    lab: Lab,
    folders: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert prefill(monkeypatch, folders, "b1 b2 mine", "--json") == 0
    first = capsys.readouterr()
    (arena,) = json.loads(first.out)["arenas"]
    legs = {leg["name"]: leg["cells"][0] for leg in arena["legs"]}
    assert list(legs) == ["b1 -> b2", "mine", "b1 -> mine"]
    assert {cell["cell"]["verdict"] for cell in legs.values()} == {"FASTER"}
    assert legs["mine"]["speeds"] == pytest.approx([2.4e6, 3e6], rel=1e-6)
    (total,) = arena["totals"]
    assert total["gap"] == pytest.approx(0, abs=1e-6)
    assert "per-op shares on cpu: none, ggml-cpu has no logger of them" in first.out
    assert "3 of 3 comparisons to measure" in first.err
    page = (lab.root / "report" / "prefill.html").read_text("utf-8")
    drawing = page[page.index("<svg") : page.index("</svg>") + 6]
    assert len([*ET.fromstring(drawing).iter("rect")]) == 2 + 2
    assert "<script" not in page
    with open_samples(lab) as store:
        rows = [json.loads(line) for line in store.export()]
    assert {row["facts"]["path"] for row in rows} == {"cpu"}
    before = {name: count_calls(folder) for name, folder in folders.items()}
    assert prefill(monkeypatch, folders, "b1 b2 mine", "--json") == 0
    assert json.loads(capsys.readouterr().out)["arenas"] == [arena]
    # Once more each lane is looked at: the devices and one short run of the newest version.
    assert {n: count_calls(f) - before[n] for n, f in folders.items() if n != "b2"} == {
        "b1": 0, "mine": 0,
    }  # fmt: skip


def test_a_khr_lane_has_samples_and_shares_of_its_own(
    lab: Lab,
    folders: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--device", "Vulkan0", "--path", "khr")
    assert prefill(monkeypatch, folders, "b1 mine", *options) == 0
    said = capsys.readouterr()
    assert "tiny-dense-q4_K on Vulkan0 khr (KHR_coopmat)" in said.out
    assert "+50.0 % (+50.0 to +50.0)  FASTER" in said.out
    assert "time of pp512 ub512 in mine: MUL_MAT_ID q4_K 75.0 %, ADD 25.0 %" in said.out
    with open_samples(lab) as store:
        rows = [json.loads(line) for line in store.export()]
    assert {row["facts"]["path"] for row in rows} == {"KHR_coopmat"}
    assert all('"GGML_VK_DISABLE_COOPMAT2": "1"' in row["key"]["machine"] for row in rows)


def test_a_device_without_the_path_that_was_asked_is_invalid(
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folders = {n: make_bench(tmp_path / n, s, khr="none") for n, s in (("b1", 1e6), ("b2", 2e6))}
    options = ("--device", "Vulkan0", "--path", "khr", "--no-shares", "--json")
    assert prefill(monkeypatch, folders, "b1 b2", *options) == 4
    said = capsys.readouterr()
    (arena,) = json.loads(said.out)["arenas"]
    cell = arena["legs"][0]["cells"][0]["cell"]
    assert cell["verdict"] == "INVALID"
    assert cell["reason"] == "Vulkan0 khr is the path KHR_coopmat, the build says none"
    with open_samples(lab) as store:
        assert not list(store.export())


def test_a_model_larger_than_the_device(
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folders = {n: make_bench(tmp_path / n, s, free=1) for n, s in (("b1", 1e6), ("b2", 2e6))}
    assert prefill(monkeypatch, folders, "b1 b2", "--device", "Vulkan0") == 3
    said = capsys.readouterr().err
    assert "of memory, Vulkan0 has 0.0 GB free" in said
    assert "fewer layers" in said


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--looks", "2"), 2, "cannot decide anything"),
        (("--budget", "0"), 2, "must be above 0"),
        (("--device", "Vulkan7"), 4, "there is no device Vulkan7"),
        (("--model", "nothing.gguf"), 2, "neither a file nor a shape model"),
    ],
)
def test_command_lines_that_make_no_sense(
    lab: Lab,
    folders: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    assert prefill(monkeypatch, folders, "b1 b2", *options) == code
    assert words in capsys.readouterr().err


def test_byte_identical_programs_are_not_run(
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folders = {name: make_bench(tmp_path / name, 1e6) for name in ("b1", "mine")}
    assert prefill(monkeypatch, folders, "b1 mine", "--json") == 0
    (arena,) = json.loads(capsys.readouterr().out)["arenas"]
    assert arena["legs"][0]["cells"][0]["cell"]["verdict"] == "IDENTICAL"
    assert count_calls(folders["mine"]) == 0


def test_devices_that_nothing_is_built_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("validate.prefill.place.has_gpu", lambda: False)
    builds = Builds(make_parser().parse_args([]), lab)
    with pytest.raises(UsageError, match="nothing is built for ROCm0 here"):
        builds.points(Lane("ROCm0"))
    with pytest.raises(InvalidMeasurement, match="no GPU here for Vulkan0"):
        builds.points(Lane("Vulkan0"))


def test_a_driver_in_software_measures_nothing() -> None:
    device = Device("Vulkan0", "llvmpipe (LLVM 19)", Launch())
    require_hardware(device, software=True)
    require_hardware(replace(device, description="a card"), software=False)
    with pytest.raises(InvalidMeasurement, match="a driver in software"):
        require_hardware(device, software=False)
