"""Shape models in real llama.cpp programs: finite logits of every preset and type, real drafting.

Run by `nox -s e2e`. LLAMA_SERVER names a llama-server with llama-perplexity beside it and
LLAMA_IMATRIX a llama-imatrix; else those of the stack's tip are built.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import requests
from real_stack import provide_stack
from shape_model_runs import ROOT, call_shapes

from upstream.git import Git
from upstream.lab import Lab, open_lab
from validate.build import Builder, build_plans
from validate.corpus import open_corpus
from validate.models import provide_model
from validate.recipe import llama_recipe
from validate.room import clean
from validate.shape_models.blocks import TYPES
from validate.shape_models.choices import Choice, make_recipe, whole_depth
from validate.shape_models.files import read_head
from validate.shape_models.mixes import choose_type, parse_schema
from validate.shape_models.origins import read_upstream
from validate.shape_models.routing import count_rows, measure_rows, summarise
from validate.shape_models.sets import list_set
from validate.shape_models.shapes import PRESETS
from validate.shape_models.tensors import list_tensors
from validate.shape_models.writer import write_model
from validate.speculation.place import find_server
from validate.speculation.server import serve
from validate.toolchain import find_toolchain

pytestmark = pytest.mark.e2e
WHOLE = [name for name, shape in PRESETS.items() if name.startswith("tiny-") and not shape.drafter]
N_CTX, N_CHUNKS, N_PREDICT = 64, 2, 96
DRAFTERS = {
    "simple": ("draft-simple", "tiny-draft"),
    "mtp": ("draft-mtp", ""),
    "dflash": ("draft-dflash", "tiny-dflash"),
    "dflash2": ("draft-dflash", "tiny-dflash2"),
}
PROMPT = "Hey, who are you and what are your capabilities?"
IMATRIX = "llama-imatrix"


@pytest.fixture(scope="module")
def server() -> Path:
    if named := os.environ.get("LLAMA_SERVER"):
        return Path(named)
    build = [sys.executable, "-m", "validate", "build"]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return find_server(argparse.Namespace(server=None, series=ROOT / "series"), open_lab())


def read_logits(path: Path) -> np.ndarray:
    """(tokens, 2): scale and smallest log-probability of each token that llama-perplexity stored.

    Format: log_softmax of tools/perplexity/perplexity.cpp, 16 bits a token of the vocabulary.
    """
    raw = path.read_bytes()
    assert raw.startswith(b"_logits_")
    _, n_vocab, n_chunk = struct.unpack_from("<3i", raw, 8)
    assert n_chunk == N_CHUNKS
    width = 2 * (2 * ((n_vocab + 1) // 2) + 4)
    rows = np.frombuffer(raw, np.uint8, offset=20 + 4 * n_chunk * N_CTX).reshape(-1, width)
    return rows[:, :8].copy().view("<f4")


def require_finite_logits(server: Path, model: Path) -> None:
    """Evaluate a text; the file is looked at, as the program may lose the end of its output."""
    stored = model.with_suffix(".logits")
    options = ("-c", N_CTX, "--chunks", N_CHUNKS, "-t", 1, "--kl-divergence-base", stored)
    command = [server.parent / "llama-perplexity", "-m", model, "-f", open_corpus().path, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, env=clean(os.environ))
    assert done.returncode == 0, done.stderr[-2000:]
    found = read_logits(stored)
    assert len(found) == N_CHUNKS * (N_CTX - 1 - N_CTX // 2)
    assert np.isfinite(found).all()
    assert -200 < found[:, 1].min() < -math.log(500)


@pytest.mark.parametrize("preset", WHOLE)
def test_tiny_presets_have_finite_logits(server: Path, preset: str, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    write_model(make_recipe(preset, Choice(skew=0.2, endless=True)), path, 2)
    require_finite_logits(server, path)


@pytest.mark.parametrize("kind", TYPES)
def test_types_have_finite_logits(server: Path, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    write_model(make_recipe("tiny-dense", Choice(kind=kind)), path, 2)
    require_finite_logits(server, path)


def test_a_real_tokenizer(server: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    assert call_shapes("write", "tiny-dense", path, "--tokenizer", "smollm2") == 0
    real = provide_model(open_lab())
    with serve([server, "-m", path, "-c", "128", "-t", "1"], tmp_path / "log") as running:
        tokens = post(running.url, "tokenize", {"content": PROMPT})["tokens"]
    with serve([server, "-m", real.folder / real.name, "-c", "64"], tmp_path / "log2") as running:
        assert post(running.url, "tokenize", {"content": PROMPT})["tokens"] == tokens
    assert len(tokens) < 16


def post(url: str, path: str, body: dict[str, object]) -> dict[str, object]:
    answer = requests.post(f"{url}/{path}", json=body, timeout=300)
    assert answer.ok, answer.text
    found: dict[str, object] = answer.json()
    return found


@pytest.fixture(scope="module", params=["q4_K", "f32"])
def tiny_set(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    for recipe, path in list_set("tiny", folder, Choice(kind=request.param)):
        write_model(recipe, path, 2)
    return folder


def complete(server: Path, folder: Path, drafter: str, rates: str) -> dict[str, object]:
    """A greedy completion with a drafter, or none, and synthetic acceptance."""
    command: list[str | Path] = [server, "-m", folder / "tiny-mtp.gguf", "-c", "512", "-t", "1"]
    command += ["-np", "1", *drafting(folder, drafter, rates)]
    with serve(command, folder / f"{drafter}.log") as running:
        body = {"prompt": PROMPT, "n_predict": N_PREDICT, "temperature": 0, "return_tokens": True}
        return post(running.url, "completion", body)


def drafting(folder: Path, drafter: str, rates: str) -> Sequence[str | Path]:
    if not drafter:
        return []
    kind, file = DRAFTERS[drafter]
    own = ["-md", folder / f"{file}.gguf"] if file else []
    return ["--spec-type", kind, "--spec-draft-n-max", "4", "--spec-synth-rates", rates, *own]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_drafters_draft_and_never_end(server: Path, tiny_set: Path, drafter: str) -> None:
    whole = complete(server, tiny_set, drafter, "1,1,1,1")
    timings = whole["timings"]
    assert isinstance(timings, dict)
    assert timings["predicted_n"] == N_PREDICT
    assert timings["draft_n_accepted"] == timings["draft_n"] > 0.75 * N_PREDICT
    assert whole["stop_type"] == "limit"


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_drafts_in_vain_change_no_text(server: Path, tiny_set: Path, drafter: str) -> None:
    """With quantised weights the last bits depend on the batch, and with them close decisions."""
    vain = complete(server, tiny_set, drafter, "0,0,0,0")
    timings = vain["timings"]
    assert isinstance(timings, dict)
    assert (timings["predicted_n"], timings["draft_n_accepted"]) == (N_PREDICT, 0)
    assert timings["draft_n"] > N_PREDICT
    if tiny_set.name.startswith("f32"):
        assert vain["tokens"] == complete(server, tiny_set, "", "")["tokens"]


def test_all_mixes_of_upstream_are_understood() -> None:
    count = 0
    for preset in ("dense-27b", "dense-14b", "moe-128", "moe-512", "draft-0.6b", "tiny-moe-512"):
        shape = PRESETS[preset]
        content = read_upstream(f"tests/snapshots/{shape.schema}.schema")
        tensors = list(list_tensors(shape, shape.n_vocab))
        for section in re.findall(r"^\[(\w+)\]", content, re.M):
            mix = parse_schema(content, section, whole_depth(shape.schema), preset)
            kinds = [choose_type(tensor, mix, shape) for tensor in tensors]
            assert all(t.row % k.elements == 0 for t, k in zip(tensors, kinds, strict=True))
            count += 1
    assert count > 150


@pytest.fixture(scope="module")
def imatrix() -> Path:
    """The steps need none: a target more, in the tree in which the tip was built."""
    if named := os.environ.get("LLAMA_IMATRIX"):
        return Path(named)
    lab = open_lab()
    stack = provide_stack(lab)
    recipe = replace(llama_recipe(stack.version), targets=(IMATRIX,))
    builder = Builder(lab, Git(lab.repository), recipe, find_toolchain(), jobs=2)
    (tip,) = build_plans(builder, builder.plan(stack)[-1:])
    assert tip.binaries is not None, tip.error
    return tip.binaries.folder / IMATRIX


def test_llama_imatrix_counts_rows(imatrix: Path, tmp_path: Path, lab: Lab) -> None:
    path = tmp_path / "x.gguf"
    write_model(make_recipe("tiny-moe-128", Choice()), path, 2)
    rows = measure_rows(path, imatrix, 512, None, lab)
    _, used = count_rows(read_head(path), 1)
    found = summarise(rows, used, "measured")
    assert (found.tokens, found.experts) == (512, 128)
    assert found.smallest < 32 < found.largest
