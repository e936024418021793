"""From options to a recipe: mixes, vocabularies, drafters for a target, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf import GGUFValueType

from upstream.errors import EnvironmentFault, LabError, UsageError
from upstream.lab import Lab
from validate.shape_models.choices import Choice, choose_vocabulary, make_recipe
from validate.shape_models.files import read_head
from validate.shape_models.mixes import choose_type, parse_schema, require_type, uniform_mix
from validate.shape_models.sets import list_set
from validate.shape_models.shapes import PRESETS, choose_shape
from validate.shape_models.tensors import Entry, Tensor, list_tensors
from validate.shape_models.vocabulary import (
    SUPPRESSED,
    TOKENS,
    adopt_vocabulary,
    bar_ends,
    generate_vocabulary,
)
from validate.shape_models.writer import write_model

# As upstream writes them; the depths are those of the 64-layer model.
SCHEMA = """\
# Model: Qwen3.5-27B
# n_embd=5120, n_ff=17408, n_vocab=248320, n_layer=64, n_head=24, n_head_kv=4

[Q4_0] q4_0
output.weight q6_K

[Q4_K_M] q4_K
output.weight q6_K
blk.0.attn_qkv.weight q6_K
blk.32.ffn_down.weight q6_K
blk.63.ffn_down.weight q5_K
"""


def types_of(preset: str, layers: int | None, section: str) -> dict[str, str]:
    shape = choose_shape(preset, layers)
    mix = parse_schema(SCHEMA, section, 64, "test.schema")
    tensors = list_tensors(shape, shape.n_vocab)
    return {each.name: choose_type(each, mix, shape).kind.name for each in tensors}


def test_a_mix_of_upstream() -> None:
    types = types_of("dense-27b", None, "Q4_K_M")
    assert types["output.weight"] == "Q6_K"
    assert types["blk.0.attn_qkv.weight"] == "Q6_K"
    assert types["blk.1.attn_qkv.weight"] == "Q4_K"
    assert types["blk.63.ffn_down.weight"] == "Q5_K"
    for kept in ("output_norm.weight", "blk.0.ssm_conv1d.weight", "blk.0.ssm_a"):
        assert types[kept] == "F32"
    assert set(types_of("dense-27b", None, "Q4_0").values()) == {"F32", "Q4_0", "Q6_K"}


def test_fewer_layers_are_spread_over_the_mix() -> None:
    types = types_of("dense-27b", 8, "Q4_K_M")
    assert types["blk.0.attn_qkv.weight"] == "Q6_K"  # of layer 0
    assert types["blk.4.ffn_down.weight"] == "Q6_K"  # of layer 32
    assert types["blk.7.ffn_down.weight"] == "Q4_K"  # of layer 35


def test_rows_that_are_no_multiple_of_a_block() -> None:
    mix, shape = uniform_mix("q5_K"), PRESETS["tiny-dense"]
    assert choose_type(Tensor("a.weight", (256, 4)), mix, shape).kind.name == "Q5_K"
    assert choose_type(Tensor("a.weight", (96, 4)), mix, shape).kind.name == "Q5_1"
    assert choose_type(Tensor("a.weight", (100, 4)), mix, shape).kind.name == "F16"


def test_reduced_models_keep_the_shape_of_a_layer() -> None:
    whole, part = choose_shape("moe-512"), choose_shape("moe-512", 4)
    names = {t.name: t.shape for t in list_tensors(part, 151936)}
    assert names.items() <= {t.name: t.shape for t in list_tensors(whole, 151936)}.items()


def test_all_control_tokens_are_barred() -> None:
    vocabulary = bar_ends(generate_vocabulary(300))
    assert vocabulary.barred == (1, 2, 299)
    assert vocabulary.entries[SUPPRESSED].value == [1, 2, 299]
    assert vocabulary.entries[SUPPRESSED].item is GGUFValueType.INT32


def test_another_vocabulary_is_filled_up() -> None:
    own = generate_vocabulary(300).entries
    filled = adopt_vocabulary(own, 320, Path("x.gguf"))
    assert filled.size == 320
    assert adopt_vocabulary(own, 10, Path("x.gguf")).size == 300
    tokens = filled.entries[TOKENS].value
    assert isinstance(tokens, list)
    assert len(set(tokens)) == 320
    assert {len(e.value) for e in filled.entries.values() if isinstance(e.value, list)} == {320}


def test_a_drafter_takes_the_vocabulary_and_depth_of_its_target(tmp_path: Path) -> None:
    target = tmp_path / "target.gguf"
    write_model(make_recipe("tiny-mtp", Choice(n_vocab=700, endless=True)), target, 1)
    recipe = make_recipe("tiny-dflash2", Choice(target=target, endless=True))
    assert recipe.vocabulary.size == 700
    assert recipe.vocabulary.barred == (1, 2, 699)
    assert recipe.shape.drafter
    assert recipe.shape.drafter.target_layers == (1, 3)
    simple = make_recipe("tiny-draft", Choice(target=target))
    assert simple.vocabulary.entries[TOKENS] == recipe.vocabulary.entries[TOKENS]


def test_a_set_is_for_its_target(tmp_path: Path) -> None:
    for recipe, path in list_set("tiny", tmp_path, Choice(n_vocab=600)):
        write_model(recipe, path, 1)
    files = {path.stem: read_head(path) for path in tmp_path.iterdir()}
    assert files.keys() == {"tiny-mtp", "tiny-draft", "tiny-dflash", "tiny-dflash2"}
    tokens = [head.entries[TOKENS] for head in files.values()]
    assert all(each == tokens[0] for each in tokens)
    assert "selector_hidden.weight" in files["tiny-dflash2"].tensors
    assert "blk.4.nextn.eh_proj.weight" in files["tiny-mtp"].tensors


def make_file(folder: Path, content: bytes) -> Path:
    path = folder / "x.gguf"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("preset", "choice", "words"),
    [
        ("tiny-dens", Choice(), "no preset 'tiny-dens'"),
        ("tiny-dense", Choice(kind="q8_K"), "no tensor type 'q8_K' that llama.cpp loads"),
        ("tiny-dense", Choice(kind="i32"), "no tensor type"),
        ("tiny-dense", Choice(n_layer=3), "cannot have 3 layers"),
        ("tiny-dense", Choice(n_layer=0), "cannot have 0 layers"),
        ("tiny-dense", Choice(n_layer=8), "cannot have 8 layers"),
        ("tiny-dense", Choice(n_vocab=100), "a vocabulary of 100 tokens is too small"),
        ("tiny-dense", Choice(tokenizer="no/such.gguf"), "cannot be read: No such file"),
        ("tiny-dflash", Choice(target=Path("no/such.gguf")), "cannot be read: No such file"),
        ("tiny-dflash", Choice(mix="Q4_K_M"), "upstream has no mixes for tiny-dflash"),
        ("tiny-dense", Choice(mix="X", schema=Path("no.schema")), "no.schema cannot be read"),
    ],
)
def test_what_makes_no_sense(preset: str, choice: Choice, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        make_recipe(preset, choice)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no GGUF file"),
        (b"PK\x03\x04", "is no GGUF file"),
        (b"GGUF", "cut short or broken"),
        (b"GGUF\x03\0\0\0" + b"\x01" + 7 * b"\0" + b"\x01" + 7 * b"\0", "cut short or broken"),
        (b"GGUF\x63\0\0\0" + 64 * b"\0", "version 99 is not known"),
        (b"GGUF\x03\0\0\0" + 64 * b"\0", "has no vocabulary"),
    ],
)
def test_broken_vocabularies(tmp_path: Path, content: bytes, words: str) -> None:
    choice = Choice(tokenizer=str(make_file(tmp_path, content)))
    with pytest.raises(UsageError, match=words):
        choose_vocabulary(choice, 512)


def test_a_cut_model_is_no_vocabulary(tmp_path: Path) -> None:
    whole = tmp_path / "whole.gguf"
    write_model(make_recipe("tiny-draft", Choice()), whole, 1)
    for length in (30, 400, 5000):
        cut = make_file(tmp_path, whole.read_bytes()[:length])
        with pytest.raises(UsageError, match="cut short or broken"):
            read_head(cut)


def test_a_drafter_of_another_width(tmp_path: Path) -> None:
    target = tmp_path / "target.gguf"
    write_model(make_recipe("tiny-mtp", Choice()), target, 1)
    with pytest.raises(UsageError, match=r"is 5120 wide, its target .* 256"):
        make_recipe("dflash-27b", Choice(target=target))


@pytest.mark.parametrize(
    ("content", "section", "words"),
    [
        (SCHEMA, "Q9", "has no mix 'Q9'"),
        ("", "Q4_0", "has no mix 'Q4_0'"),
        ("[A] q4_0\nblk.0.attn_q.weight\n", "A", "is not a tensor and its type"),
        ("[A] q4_0\nblk.0.attn_q.weight q44\n", "A", "no tensor type 'q44'"),
    ],
)
def test_broken_schemas(content: str, section: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_schema(content, section, 64, "test.schema")


def test_upstreams_mixes_need_upstream(lab: Lab) -> None:
    with pytest.raises(EnvironmentFault, match="no upstream source with tests/snapshots") as found:
        make_recipe("tiny-dense", Choice(mix="Q4_K_M"))
    assert isinstance(found.value, LabError)
    assert "--schema" in found.value.remedy


def test_type_names_are_ggmls() -> None:
    assert require_type("iq2_xs") == "IQ2_XS"
    assert uniform_mix("q8_0").overrides == {"output.weight": "Q8_0"}
    assert uniform_mix("f16").overrides == {"output.weight": "F16"}
    assert Entry(1, GGUFValueType.UINT32).item is None
