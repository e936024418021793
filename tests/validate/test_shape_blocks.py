"""Random blocks: every type is what ggml reads, with the deviation asked for, on every machine."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from gguf.quants import dequantize
from hypothesis import given, settings
from hypothesis import strategies as st

from validate.shape_models.blocks import SMALLEST_HALF, TYPES, half_scales
from validate.shape_models.shapes import PRESETS
from validate.shape_models.tensors import Fill, Tensor, list_tensors
from validate.shape_models.weights import (
    CHUNK,
    Part,
    expert_gains,
    list_chunks,
    make_chunk,
    random_blocks,
)

FORMS = {"F32": "<f4", "F16": "<f2"}
UNREADABLE = ("Q1_0",)  # gguf 0.19 cannot dequantise it: its scale is looked at instead
COARSE = {"NVFP4": 0.06}  # its smallest normal scale gives no smaller values
RANDOM_DIGEST = "20cce1be49cd2d3bd46e314850893da5114f01723de4d92821aeff4c3c2370c7"
NORMAL = float(np.finfo(np.float32).tiny)


def make_values(kind: str, deviation: float) -> np.ndarray:
    """Values of 2,000 blocks, as gguf reads them."""
    found = TYPES[kind]
    blocks = random_blocks("test", 2000, found.size)
    found.settle(blocks, found.scale_for(deviation))
    raw = blocks.reshape(-1).view(FORMS[kind]) if kind in FORMS else blocks
    return dequantize(raw, found.kind).astype(np.float64).reshape(-1)


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in UNREADABLE])
def test_values_have_the_deviation_asked_for(kind: str) -> None:
    deviation = COARSE.get(kind, 0.014)
    values = make_values(kind, deviation)
    assert np.isfinite(values).all()
    assert 0.7 < values.std() / deviation < 1.42
    assert abs(values.mean()) < (0.02 + 4 / len(values) ** 0.5) * deviation
    assert np.abs(values).max() < 5 * deviation


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in UNREADABLE])
@pytest.mark.parametrize("deviation", [1e-9, 0.003, 1.0])
def test_no_value_is_denormal_or_overflows(kind: str, deviation: float) -> None:
    values = np.abs(make_values(kind, deviation))
    assert np.isfinite(values).all()
    filled = values[values > 0]
    assert filled.min() > NORMAL
    if kind == "F16":
        assert filled.min() >= SMALLEST_HALF


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-12, 1e9), st.sampled_from([1.0, 1.5, 7.5, -15.5]))
def test_half_scales_are_normal(scale: float, factor: float) -> None:
    table = half_scales(scale, factor).reshape(-1).view("<f2").astype(np.float64)
    assert np.isfinite(table).all()
    assert np.abs(table).min() >= SMALLEST_HALF
    assert np.abs(table).max() <= 1.26 * np.abs(table).min()


def test_one_bit_blocks_have_normal_scales() -> None:
    found = TYPES["Q1_0"]
    blocks = random_blocks("test", 500, found.size)
    found.settle(blocks, found.scale_for(0.014))
    scales = blocks[:, :2].copy().view("<f2").astype(np.float64)
    assert 0.01 < scales.min() <= scales.max() < 0.02


def test_random_bits_are_the_same_everywhere() -> None:
    digest = hashlib.sha256(random_blocks("1 blk.0.attn_q.weight 0", 1000, 144).tobytes())
    assert digest.hexdigest() == RANDOM_DIGEST


def part_of(name: str, shape: tuple[int, ...], kind: str, fill: Fill) -> Part:
    return Part(Tensor(name, shape, fill), TYPES[kind], 0)


def test_chunks_cover_a_tensor_once() -> None:
    part = part_of("x.weight", (5120, 3000), "Q4_K", Fill.WEIGHT)
    chunks = list(list_chunks(part, 1))
    assert len(chunks) > 1
    assert sum(chunk.size for chunk in chunks) == part.size == 5120 * 3000 // 256 * 144
    ends = [chunk.offset + chunk.size for chunk in chunks]
    assert [chunk.offset for chunk in chunks] == [0, *ends[:-1]]
    assert max(chunk.size for chunk in chunks) <= CHUNK


def test_barred_rows_are_zero_across_chunks() -> None:
    rows = CHUNK // (256 // 256 * 210) + 100  # more than a chunk
    part = part_of("output.weight", (256, rows), "Q6_K", Fill.HEAD)
    barred = (0, 7, rows - 101, rows - 1)
    whole = np.concatenate([make_chunk(chunk, barred) for chunk in list_chunks(part, 1)])
    assert len(whole) == rows
    assert sorted(np.flatnonzero(~whole.any(axis=1))) == sorted(barred)


def test_norms_are_about_one_and_decays_negative() -> None:
    norms = make_chunk(next(list_chunks(part_of("a", (512,), "F32", Fill.NORM), 1)))
    decays = make_chunk(next(list_chunks(part_of("b", (512,), "F32", Fill.DECAY), 1)))
    assert 1 <= norms.view("<f4").min() <= norms.view("<f4").max() < 1.13
    assert decays.view("<f4").max() < 0


def test_a_skewed_router_has_unequal_rows() -> None:
    part = part_of("blk.0.ffn_gate_inp.weight", (256, 64), "F32", Fill.ROUTER)
    (chunk,) = list_chunks(part, 1)
    plain = make_chunk(chunk).view("<f4").reshape(64, 256)
    skewed = make_chunk(chunk, skew=0.5).view("<f4").reshape(64, 256)
    gains = expert_gains(part.tensor, 0.5)
    assert sorted(gains)[-1] == 1.0
    assert sorted(gains)[0] == pytest.approx(1 / 8)
    np.testing.assert_allclose(skewed, plain * gains[:, None])


@pytest.mark.parametrize(
    ("preset", "billions"),
    # What the models' own pages say; the drafters' are those of their files.
    [("dense-27b", 26.9), ("dense-14b", 14.77), ("moe-128", 30.53), ("moe-512", 79.67)],
)
def test_shapes_have_the_published_number_of_parameters(preset: str, billions: float) -> None:
    shape = PRESETS[preset]
    count = sum(tensor.elements for tensor in list_tensors(shape, shape.n_vocab))
    assert count / 1e9 == pytest.approx(billions, abs=0.006)
