"""Rows per expert: computed from a router, or read from what llama-imatrix counts.

The llama-imatrix here is a stand-in that copies counts prepared by the test; test_e2e_shape_models
runs real programs.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter
from shape_model_runs import call_shapes

from upstream.errors import InvalidMeasurement, UsageError
from upstream.lab import Lab
from validate.shape_models.choices import Choice, make_recipe
from validate.shape_models.files import read_head
from validate.shape_models.routing import count_rows, format_histogram, read_counts, summarise
from validate.shape_models.writer import write_model


def write_moe(path: Path, skew: float) -> Path:
    write_model(make_recipe("tiny-moe-128", Choice(skew=skew, kind="iq1_s")), path, 2)
    return path


def write_counts(path: Path, counts: np.ndarray) -> Path:
    """What llama-imatrix writes of one layer, as far as it is read."""
    writer = GGUFWriter(path, "imatrix")
    writer.add_tensor("blk.0.ffn_down_exps.weight.counts", counts.astype("<f4").reshape(-1, 1))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_moe(tmp_path_factory.mktemp("moe") / "even.gguf", 0.0)


def test_random_weights_route_evenly_and_skew_does_not(even: Path, tmp_path: Path) -> None:
    busy = []
    for path in (even, write_moe(tmp_path / "skewed.gguf", 0.3)):
        rows, used = count_rows(read_head(path), 512)
        assert used == 8
        assert sorted(rows) == [0, 1]
        assert {int(layer.sum()) for layer in rows.values()} == {512 * 8}
        busy.append(summarise(rows, used, "computed").busy)
    assert busy[0] < 0.16
    assert busy[1] > 1.7 * busy[0]


def test_a_histogram_counts_every_expert(tmp_path: Path) -> None:
    counts = np.array([0, 1, 3, 4, 130, 300, 2, 0])
    rows = read_counts(write_counts(tmp_path / "i.gguf", counts))
    found = summarise(rows, 2, "measured")
    assert (found.tokens, found.experts, found.smallest, found.largest) == (220, 8, 0, 300)
    assert sum(count for _, _, count in found.buckets) == 8
    assert found.buckets[0] == (0, 0, 2.0)
    assert found.busy == pytest.approx(300 / 440)
    text = format_histogram(found)
    assert "measured: 220 tokens, 2 of 8 experts, mean 55.0" in text
    assert "\n     1 to 3           3.0 experts" in text


def test_a_program_measures(
    even: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], lab: Lab
) -> None:
    prepared = write_counts(tmp_path / "i.gguf", np.full(128, 32))
    program = tmp_path / "llama-imatrix"
    program.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ncp {prepared} "$2"\n')
    program.chmod(0o755)
    assert call_shapes("rows", even, "--imatrix", program, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["method"], found["tokens"], found["median"]) == ("measured", 512, 32)
    program.write_text("#!/bin/sh\n")
    with pytest.raises(InvalidMeasurement, match="wrote nothing"):
        call_shapes("rows", even, "--imatrix", program)
    assert list(lab.scratch.iterdir()) == []


def test_models_without_experts(tmp_path: Path) -> None:
    dense = tmp_path / "dense.gguf"
    write_model(make_recipe("tiny-draft", Choice()), dense, 1)
    with pytest.raises(UsageError, match="has no experts"):
        count_rows(read_head(dense), 8)
    with pytest.raises(InvalidMeasurement, match="counts no experts"):
        read_counts(dense)
