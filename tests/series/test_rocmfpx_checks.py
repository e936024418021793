"""The checks of the ROCmFPx patches on stand-ins: that they are red where they must be.

What they say about real builds is the own check's work (`nox -s validate`).
"""

from __future__ import annotations

import importlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CHECKS = Path(__file__).parents[2] / "series" / "checks"


@pytest.fixture
def mutations(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CHECKS))
    return importlib.import_module("rocmfpx_mutations")


@pytest.fixture
def mutated(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CHECKS))
    return importlib.import_module("rocmfpx_mutated")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CHECKS))
    return importlib.import_module("rocmfpx_recipe_table")


def check(name: str, tree: Path) -> tuple[int, dict[str, Any]]:
    words = [
        sys.executable,
        CHECKS / name,
        "--bin",
        tree,
        "--source",
        tree,
        "--work",
        tree / "work",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, document


def program(path: Path, text: str, interpreter: str = sys.executable) -> Path:
    path.write_text(f"#!{interpreter}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_every_mutation_changes_its_file_and_is_the_same_again(mutations: ModuleType) -> None:
    kinds = len(mutations.MUTATIONS) + 1
    for index in range(3 * kinds):
        kind, file = mutations.mutate(index, 1)
        assert file.encode() == mutations.mutate(index, 1)[1].encode()
        assert (file.encode() == mutations.mutate(index, 2)[1].encode()) is False
        assert (kind == "sound") is (index % kinds == kinds - 1)
        source = mutations.random.Random(f"1 {index}")
        assert (file.encode() != mutations.sound(source).encode()) is (kind != "sound")


def test_sound_files_have_valid_scales_only(mutations: ModuleType) -> None:
    file = mutations.sound(mutations.random.Random(3))
    for _, type_id, size, n_scales in mutations.TYPES:
        (tensor,) = (tensor for tensor in file.tensors if tensor.type_id == type_id)
        blocks = [tensor.data[at : at + size] for at in range(0, len(tensor.data), size)]
        assert len(blocks) == mutations.N_BLOCKS
        assert max(max(block[-n_scales:]) for block in blocks) <= 0x7E


DRIVER = """
import sys
for line in sys.stdin:
    name = line.strip()
    if name.endswith("crash"):
        sys.exit("x.cpp:1: runtime error: planted")
    print("loaded" if name.endswith("good") else "tensor 'a' at offset 1 is bad", flush=True)
"""


def test_goes_on_after_a_crash(mutated: ModuleType, tmp_path: Path) -> None:
    driver = program(tmp_path / "driver", DRIVER)
    said = list(mutated.ask(driver, [Path(name) for name in ("good", "crash", "bad", "crash")]))
    assert [answer.loaded for answer in said] == [True, False, False, False]
    assert ["planted" in answer.crash for answer in said] == [False, True, False, True]


@pytest.mark.parametrize(
    ("said", "complains"),
    [
        ("loaded", "loaded, though"),
        ("tensor '{}' has invalid data", "without name or offset"),
        ("tensor 'other' at offset 12 has invalid data", "without name or offset"),
        ("tensor '{}' at offset 12 has invalid data", ""),
    ],
)
def test_a_refusal_names_tensor_and_offset(mutated: ModuleType, said: str, complains: str) -> None:
    kind, file = mutated.mutate(0, 1)
    answer = mutated.Answer(said.format(file.target))
    assert (kind, mutated.complaint(kind, file, answer)[: len(complains)]) == (
        "spoil_scale",
        complains,
    )
    assert mutated.complaint("sound", file, mutated.Answer("refused"))
    assert mutated.complaint("flip_any", file, mutated.Answer("", "aborted"))


def test_a_tree_of_another_form_measures_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "ggml" / "src"
    folder.mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text("add_library(ggml other.c)\n")
    code, document = check("rocmfpx_mutated.py", tmp_path)
    assert (code, document["cases"]) == (4, 0)
    assert "add_library(ggml-base)" in document["reason"]


def test_recipes_follow_the_layers(table: ModuleType) -> None:
    lean = table.RECIPES["Q4_0_ROCMFP4_STRIX_LEAN"]
    wanted = table.qwen35().wanted(lean)
    assert len(wanted) == 506
    assert wanted["blk.3.attn_k.weight"] == table.DUAL
    assert wanted["blk.64.nextn.eh_proj.weight"] == "q8_0"
    assert table.experts(8).wanted(lean)["blk.0.attn_v.weight"] == "q8_0"
    assert table.experts(16).wanted(lean)["blk.0.attn_v.weight"] == table.DUAL
    odd = table.draft_heads(tied=True).wanted(table.RECIPES["Q4_0_ROCMFP4"])
    assert (odd["blk.1.attn_v.weight"], odd["blk.2.attn_v.weight"]) == ("q5_1", "f16")


def test_counts_of_published_files_come_out(table: ModuleType) -> None:
    for name, counts in table.CENSUS.items():
        types = list(table.qwen35().wanted(table.RECIPES[name]).values())
        assert {kind: types.count(kind) for kind in types} == counts, name


def test_recipes_need_llama_quantize(tmp_path: Path) -> None:
    code, document = check("rocmfpx_recipes.py", tmp_path)
    assert (code, document["cases"]) == (3, 0)
    assert "llama-quantize" in document["reason"]


def test_recipes_are_red_where_the_file_types_are_unknown(tmp_path: Path) -> None:
    # a stand-in for llama-quantize without the patch
    program(tmp_path / "llama-quantize", "exit 1", interpreter="/bin/sh")
    code, document = check("rocmfpx_recipes.py", tmp_path)
    assert (code, document["passed"]) == (1, False)
    assert document["cases"] > 100


def test_python_types_need_the_library(tmp_path: Path) -> None:
    for name in ("gguf", "test_quants"):  # stand-ins for upstream's package
        (tmp_path / "gguf-py" / "tests").mkdir(parents=True, exist_ok=True)
        (tmp_path / "gguf-py" / f"{name}.py").write_text("")
    code, document = check("rocmfpx_gguf_py.py", tmp_path)
    assert (code, document["cases"]) == (3, 0)
    assert "libggml-base" in document["reason"]


def test_python_types_are_red_where_there_are_none(tmp_path: Path) -> None:
    # stand-ins for upstream's package before the patch
    python = tmp_path / "gguf-py"
    (python / "tests").mkdir(parents=True)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "llama.h").write_text("")
    (python / "gguf.py").write_text("GGMLQuantizationType = {}\nquants = None\n")
    (python / "test_quants.py").write_text("GGMLQuants = None\n")
    library = tmp_path / "libggml-base.so"
    words = ["cc", "-shared", "-x", "c", os.devnull, "-o", library]
    subprocess.run(words, check=True)
    code, document = check("rocmfpx_gguf_py.py", tmp_path)
    assert (code, document["passed"]) == (1, False)
    assert document["cases"] == 15
