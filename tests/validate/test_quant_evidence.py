"""quant-evidence from models to tables, on fakes (labelled) of llama.cpp's programs."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from quant_programs import LISTED, make_model, make_programs

from tests.small_disk import mount_small
from upstream.errors import EnvironmentFault, InvalidMeasurement, UsageError
from upstream.lab import Lab
from validate.artifacts import StepBinaries
from validate.corpus import open_corpus
from validate.guards import Placement
from validate.quant_evidence import cpu_speed
from validate.quant_evidence.__main__ import main
from validate.quant_evidence.card import write_folder
from validate.quant_evidence.cpu_speed import CELLS, Speed, find_unfit, judge_arm, plan_order
from validate.quant_evidence.document import Document
from validate.quant_evidence.files import read_census
from validate.quant_evidence.kept import TABLES, keep, read_documents, write_tables
from validate.quant_evidence.place import Builds, find_model
from validate.quant_evidence.quality import read_chunks, read_quality
from validate.quant_evidence.run import Plan, measure_model
from validate.quant_evidence.schemes import BASELINE, SCHEMES, choose, list_known
from validate.quant_evidence.tables import format_documents
from validate.room import Room
from validate.statistics import hodges_lehmann

ROOT = Path(__file__).parent.parent.parent
KEPT = ROOT / "docs" / "evidence" / "quant"
CHUNKS = 6


def make_plan(base: StepBinaries, tip: StepBinaries, room: Room, rounds: int = 6) -> Plan:
    known = list_known(room, tip)
    return Plan(
        builds=Builds(base, tip),
        schemes=choose(["Q4_0", "IQ4_NL", "NVFP4 (upstream)", "NVFP4"], known)[0],
        native=list_known(room, base),
        corpus=replace(open_corpus(), chunks=CHUNKS),
        rounds=rounds,
        placement=Placement(1),
        seed=1,
        facts={"upstream": "b1", "tip": "abc", "machine": {"cpu": "a stand-in"}},
    )


def measure(lab: Lab, tmp_path: Path, mark: str = "searched", rounds: int = 6) -> Document:
    model = make_model(lab)
    base = make_programs(tmp_path / "base")
    tip = make_programs(tmp_path / "tip", mark)
    plan = make_plan(base, tip, Room(lab, model), rounds)
    document: Document = json.loads(json.dumps(measure_model(lab, model, plan, 2)))
    return document


def test_a_model_goes_from_file_to_table(lab: Lab, tmp_path: Path) -> None:
    document = measure(lab, tmp_path)
    rows = {row["scheme"]: row for row in document["rows"]}
    assert list(rows) == ["Q4_0", "IQ4_NL", "NVFP4 (upstream)", "NVFP4"]
    assert rows["NVFP4"]["census"] == {"nvfp4": 576 * 49152}
    assert rows["IQ4_NL"]["mean over baseline"]["high"] == pytest.approx(-0.02, abs=1e-4)
    # the type's speed and that of repacking come out, the control finds nothing
    ratio = rows["IQ4_NL"]["speed"]["off"][CELLS[0]]["ratio"]["center"]
    assert ratio == pytest.approx(-0.01905, abs=1e-3)
    assert [list(row["speed"]) for row in document["rows"]] == [["off", "on"], *[["off"]] * 3]
    assert document["speed invalid"] == []
    text = format_documents([document])
    assert "| Q4_0 | on |" in text
    assert "NVFP4, the stack's encoder against upstream's: +0.0000 [+0.0000, +0.0000]" in text
    assert "llama-quantize --pure --tensor-type .=nvfp4 Q4_0`, upstream's encoder" in text
    calls = {path: path.read_text() for path in tmp_path.glob("*/*.calls")}
    assert measure(lab, tmp_path) == document
    assert {path: path.read_text() for path in tmp_path.glob("*/*.calls")} == calls
    assert len(calls) == 2  # the base's perplexity, the tip's bench


def test_repacked_weights_can_be_left_out(lab: Lab, tmp_path: Path) -> None:
    model, programs = make_model(lab), make_programs(tmp_path / "tip")
    plan = replace(make_plan(programs, programs, Room(lab, model)), repacked=False)
    rows = measure_model(lab, model, plan, 2)["rows"]
    assert [list(row["speed"]) for row in rows] == [["off"]] * len(rows)


def test_an_encoder_that_the_stack_left_alone_has_one_row(lab: Lab, tmp_path: Path) -> None:
    document = measure(lab, tmp_path, mark="upstream", rounds=0)
    assert [row["scheme"] for row in document["rows"]] == ["Q4_0", "IQ4_NL", "NVFP4"]
    assert not document["rows"][0]["speed"]


def test_a_model_that_is_cut_off_is_refused_and_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    model, base = make_model(lab, "GGUF cut off"), make_programs(tmp_path / "base")
    with pytest.raises(InvalidMeasurement, match="not within the file bounds"):
        measure_model(lab, model, make_plan(base, base, Room(lab, model)), 2)
    assert [path.name for path in model.folder.iterdir()] == ["tiny.gguf"]


def test_a_full_disk_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mount_small(tmp_path / "disk", "1m") as disk:
        lab = Lab(disk)
        model, base = make_model(lab), make_programs(tmp_path / "base")
        plan = make_plan(base, base, Room(lab, model))
        with pytest.raises(EnvironmentFault, match="the reference's logits needs about"):
            measure_model(lab, model, plan, 2)


def test_file_types_are_those_of_the_binary(lab: Lab, tmp_path: Path) -> None:
    room = Room(lab, make_model(lab))
    known = list_known(room, make_programs(tmp_path / "a"))
    assert known == frozenset(LISTED.split())
    schemes, left_out = choose([], known)
    assert schemes[0] == BASELINE
    assert [each.name for each in left_out] == [each.name for each in SCHEMES[-3:]]
    assert [each.name for each in choose(["NVFP4"], known)[0]] == ["Q4_0", "NVFP4"]
    with pytest.raises(UsageError, match="no file type 'Q9'"):
        choose(["Q9"], known)
    with pytest.raises(UsageError, match="does not know Q4_0_ROCMFP4"):
        choose(["Q4_0_ROCMFP4"], known)
    with pytest.raises(InvalidMeasurement, match="lists no file type"):
        list_known(room, make_programs(tmp_path / "b", listed=""))


def test_figures_that_are_missing_are_no_measurement() -> None:
    with pytest.raises(InvalidMeasurement):
        read_quality("Mean    KLD: 0.1\nMaximum KLD: 1\n99.9%   KLD: 1\nSame top p: 99\n")
    with pytest.raises(InvalidMeasurement, match="each chunk"):
        read_chunks("   2  1.0 ± 1.0  1.0 ± 1.0  1.0 ± 1.0  1.0 ± 1.0 %  1.0 ± 1.0 %\n")
    with pytest.raises(InvalidMeasurement, match="which tensors"):
        read_census("quant size  =    72.27 MiB (4.51 BPW)")


def test_every_chunk_has_its_own_divergence() -> None:
    line = (
        "{n:4d}  9.1 ± 1.0   0.1 ± 0.1   {kld:.5f} ±    0.01706   16.852 ±  1.229 %   69.8 ±  2.8 %"
    )
    said = "\n".join(line.format(n=n, kld=kld) for n, kld in ((1, 0.3), (2, 0.2), (3, 0.3)))
    assert read_chunks(said) == pytest.approx([0.3, 0.1, 0.5])


@pytest.mark.parametrize("drift", [0.0, 0.05])
def test_a_drift_cancels_and_a_difference_does_not(drift: float) -> None:
    rounds, arms, slower = 8, 5, 0.9
    orders = [plan_order(arms, 3, number) for number in range(rounds)]
    assert all(
        order == order[::-1] and sorted(order) == sorted([*range(arms)] * 2) for order in orders
    )
    measured = []
    for order in orders:
        values: list[dict[str, list[float]]] = [{"pp": []} for _ in range(arms)]
        for position, arm in enumerate(order):
            speed = 100 * (slower if arm == 2 else 1) * 2.718281828 ** (-drift * position)
            values[arm]["pp"].append(speed)
        measured.append(values)
    found = [judge_arm(measured, orders, arm, "pp") for arm in range(arms)]
    assert found[1].ratio.center == pytest.approx(0, abs=1e-12)
    assert found[2].ratio.percent == pytest.approx(-10, abs=1e-6)
    assert found[0].ratio.quads == 0


def test_a_file_that_differs_from_itself_makes_the_speed_invalid() -> None:
    steady = Speed(1.0, hodges_lehmann([0.01, -0.01, 0.02, -0.02, 0.0, 0.001, -0.001, 0.002], 0.05))
    shifted = Speed(1.0, hodges_lehmann([0.05 + 0.001 * n for n in range(8)], 0.05))
    assert find_unfit({"pp": steady}) == []
    assert find_unfit({"pp": shifted}) == ["pp of the same file differs by +5.5 %"]
    with pytest.raises(UsageError, match="--rounds 6"):
        cpu_speed.require_rounds(5)


def test_the_kept_tables_are_those_of_the_kept_documents(lab: Lab, tmp_path: Path) -> None:
    document, folder = measure(lab, tmp_path, rounds=0), tmp_path / "kept"
    path = keep(document, folder)
    assert path.name == "tiny.json"
    assert (folder / TABLES).read_text() == write_tables(folder) == format_documents([document])
    path.write_text(json.dumps(document | {"version": 0}))
    with pytest.raises(UsageError, match="another version"):
        read_documents(folder)
    path.write_text("[]")
    with pytest.raises(UsageError, match="no document of quant-evidence"):
        read_documents(folder)


@pytest.mark.skipif(not KEPT.exists(), reason="no evidence is kept")
def test_the_tables_in_the_repository_were_made_from_what_lies_beside_them() -> None:
    assert (KEPT / TABLES).read_text() == format_documents(read_documents(KEPT))


def test_the_folder_for_upload_holds_the_file_and_its_facts(lab: Lab, tmp_path: Path) -> None:
    document = measure(lab, tmp_path, rounds=0)
    folder = write_folder(lab, document, "NVFP4", tmp_path / "upload")
    row = document["rows"][-1]
    assert sorted(path.name for path in folder.iterdir()) == sorted(["README.md", row["file"]])
    card = (folder / "README.md").read_text()
    for fact in (row["sha256"], "already quantised", "Licence of the base: unknown", row["how"]):
        assert fact in card
    with pytest.raises(UsageError, match="not empty"):
        write_folder(lab, document, "NVFP4", folder)
    with pytest.raises(UsageError, match="MXFP4 was not measured"):
        write_folder(lab, document, "MXFP4", tmp_path / "other")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--models", "none"), 2, "no model to measure"),
        (("--models", "llama"), 2, "no packaged model 'llama'"),
        (("--models", "none", "--model", "missing.gguf"), 2, "cannot be read"),
        (("--types", "Q4_0,Q9"), 2, "no file type 'Q9'"),
        (("--rounds", "3"), 2, "3 rounds give no interval"),
        (("--tables", "."), 2, "holds no kept document"),
        (("--chunks", "0"), 2, "--chunks"),
    ],
)
def test_wrong_use_is_said(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["quant_evidence", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (code, "")
    assert words in said.err


def test_unknown_models_are_named() -> None:
    with pytest.raises(UsageError, match="smollm2, gemma3"):
        find_model("other")
