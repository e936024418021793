"""Random blocks of every type of ggml, made as bytes: random bits first, then valid scales.

Layouts: ggml/src/ggml-common.h of llama.cpp b11549. A block type says where its scales are and
which bits may not be random; nothing is quantised from floats, which would be a hundred times
slower. Scales are normal numbers of their own type, never denormal, so that no value is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

Blocks: TypeAlias = NDArray[np.uint8]  # (number of blocks, bytes of a block)
Settle: TypeAlias = Callable[[Blocks, float], None]

JITTER = 256  # a scale is one of so many neighbours, up to a quarter above the smallest
MEAN_JITTER = 1.127
SMALLEST_HALF = 2.0**-14  # the smallest normal number of 16 bits
LARGEST_HALF = 2.0**11  # leaves room for the jitter and for the minima's factors
E8M0_BIAS = 128  # ggml halves the scale of MXFP4, its table holds doubled values
E4M3_SMALLEST, E4M3_LARGEST = 0x08, 0x70  # of the normal numbers, 2^-6 and 2^7
SPREAD = 2.5**0.5  # root mean square of the two neighbouring powers of two, in the smaller one


@dataclass(frozen=True)
class BlockType:
    """A type: `sigma` is the standard deviation of its values at scale 1.

    `settle(blocks, scale)` gets random bytes and makes them valid in place.
    """

    kind: GGMLQuantizationType
    sigma: float
    settle: Settle

    @property
    def elements(self) -> int:
        """Values in a block."""
        return GGML_QUANT_SIZES[self.kind][0]

    @property
    def size(self) -> int:
        """Bytes of a block."""
        return GGML_QUANT_SIZES[self.kind][1]

    def scale_for(self, deviation: float) -> float:
        """The scale at which values have about this standard deviation."""
        return deviation / self.sigma


def half_scales(scale: float, factor: float = 1.0) -> NDArray[np.uint8]:
    """The 256 neighbours of a scale times a factor as the two bytes of a half float, (256, 2)."""
    smallest = min(max(scale / MEAN_JITTER, SMALLEST_HALF), LARGEST_HALF)
    first = np.array(smallest, dtype="<f2").view("<u2")
    bits = (first + np.arange(JITTER, dtype="<u2")).astype("<u2")
    values = bits.view("<f2").astype("<f4") * np.float32(factor)
    return values.astype("<f2").view(np.uint8).reshape(JITTER, 2)


def put_scales(blocks: Blocks, scale: float, *fields: tuple[int, float]) -> None:
    """Put a half float at each (offset, factor); all of a block share one jitter."""
    choice = blocks[:, fields[0][0]].copy()
    for offset, factor in fields:
        table = half_scales(scale, factor)
        for byte in range(2):
            blocks[:, offset + byte] = table[:, byte][choice]


def put_signed_scale(blocks: Blocks, scale: float, offset: int) -> None:
    """Put a half float of either sign, as quantisers do whose steps reach further on one side.

    The mean of random steps is half a step off: with one sign all outputs would lean to one side.
    """
    sign = blocks[:, offset + 1] & 0x80
    put_scales(blocks, scale, (offset, 1.0))
    blocks[:, offset + 1] |= sign


def signed(offset: int) -> Settle:
    """A type of which only its half float, of either sign, is not free."""

    def settle(blocks: Blocks, scale: float) -> None:
        put_signed_scale(blocks, scale, offset)

    return settle


def scaled(*fields: tuple[int, float]) -> Settle:
    """A type of which only the half floats at these (offset, factor) are not free."""

    def settle(blocks: Blocks, scale: float) -> None:
        put_scales(blocks, scale, *fields)

    return settle


def settle_q2_k(blocks: Blocks, scale: float) -> None:
    """Minimum of each 16 values: 1.5 steps, half of the range."""
    put_scales(blocks, scale, (80, 1.0), (82, 1.5))
    for column in range(16):
        repeat_nibble(blocks, column)


def repeat_nibble(blocks: Blocks, column: int) -> None:
    """Make the high half of a byte what its low half is."""
    low = blocks[:, column] & 0x0F
    blocks[:, column] = low | low << 4


def settle_q4_k(blocks: Blocks, scale: float) -> None:
    put_scales(blocks, scale, (0, 1.0), (2, 7.5))
    pair_scales(blocks, 0x5F)


def settle_q5_k(blocks: Blocks, scale: float) -> None:
    put_scales(blocks, scale, (0, 1.0), (2, 15.5))
    pair_scales(blocks, 0x0F)


def pair_scales(blocks: Blocks, mask: int) -> None:
    """Make the 6-bit minima those of the scales, so that values are centred.

    Bytes 4 to 15: scales 0-3 with the top bits of 4-7, minima the same, the nibbles of 4-7. The
    mask keeps scales small enough for the scale of the block to be a normal number.
    """
    for column in range(4, 8):
        blocks[:, column] &= mask
        blocks[:, column + 4] = blocks[:, column]
        repeat_nibble(blocks, column + 8)


def settle_q6_k(blocks: Blocks, scale: float) -> None:
    """Scales of 16 values are signed bytes: here -8 to 7."""
    put_scales(blocks, scale, (208, 1.0))
    scales = blocks[:, 192:208]
    scales &= 0x0F
    scales -= 8


def settle_iq4_xs(blocks: Blocks, scale: float) -> None:
    """Scales of 32 values have 6 bits, 32 is zero: here 32 to 35."""
    put_signed_scale(blocks, scale, 0)
    blocks[:, 2:4] = 0xAA
    blocks[:, 4:8] &= 0x33


def settle_iq1_m(blocks: Blocks, scale: float) -> None:
    """The scale of the block lies in the top nibbles of its four 16-bit scales."""
    table = half_scales(scale)
    choice = blocks[:, 48].copy()
    for byte in range(2):
        for half in range(2):
            column = 49 + 4 * byte + 2 * half
            nibble = (table[:, byte] >> 4 * half & 0x0F) << 4
            blocks[:, column] = blocks[:, column] & 0x0F | nibble[choice]


def settle_tq2_0(blocks: Blocks, scale: float) -> None:
    """Two bits mean -1, 0 or 1; the fourth value is made 0."""
    put_scales(blocks, scale, (64, 1.0))
    bits = blocks[:, :64]
    bits &= ~((bits & bits << 1) & 0xAA)


def settle_mxfp4(blocks: Blocks, scale: float) -> None:
    """The scale is a power of two: one of two neighbours."""
    _, exponent = math.frexp(2.0**0.5 * scale / SPREAD)
    lowest = min(max(E8M0_BIAS + exponent - 1, 1), 253)
    blocks[:, 0] = (blocks[:, 0] & 1) + lowest


def settle_nvfp4(blocks: Blocks, scale: float) -> None:
    """Four scales of 8 bits (4 of exponent, 3 of mantissa): one of four neighbours."""
    fraction, exponent = math.frexp(2 * scale / MEAN_JITTER)
    wanted = (exponent + 6 << 3) + int((2 * fraction - 1) * 8)
    lowest = min(max(wanted, E4M3_SMALLEST), E4M3_LARGEST)
    blocks[:, :4] &= 3
    blocks[:, :4] += lowest


def float_settler(form: str, octave: int) -> Settle:
    """Floats in [scale, 4 scale) with a random sign; `octave` is how many bits make a factor 2."""

    def settle(blocks: Blocks, scale: float) -> None:
        bits = blocks.view(form)
        sign = bits & (1 << 8 * bits.itemsize - 1)
        bits &= 2 * octave - 1
        bits += first_bits(form, scale)
        bits |= sign

    return settle


def first_bits(form: str, scale: float) -> int:
    """The bits of a scale as a float of this width; 16 bits of octave 128 are a bfloat16."""
    if form == "<u2":
        return int(np.array(max(scale, SMALLEST_HALF), "<f2").view("<u2"))
    return int(np.array(scale, "<f4").view("<u4"))


def settle_bf16(blocks: Blocks, scale: float) -> None:
    """As other floats, the upper half of one of 32 bits."""
    bits = blocks.view("<u2")
    sign = bits & 0x8000
    bits &= 0xFF
    bits += first_bits("<u4", scale) >> 16
    bits |= sign


_K = GGMLQuantizationType
_FLOAT = 2.28  # of numbers spread evenly, in logarithms nearly, over [1, 4)
# The deviations were measured with gguf.quants.dequantize; a test measures them again.
TYPES: dict[str, BlockType] = {
    each.kind.name: each
    for each in (
        BlockType(_K.F32, _FLOAT, float_settler("<u4", 1 << 23)),
        BlockType(_K.F16, _FLOAT, float_settler("<u2", 1 << 10)),
        BlockType(_K.BF16, _FLOAT, settle_bf16),
        BlockType(_K.Q4_0, 4.47, signed(0)),
        BlockType(_K.Q4_1, 4.47, scaled((0, 1.0), (2, -7.5))),
        BlockType(_K.Q5_0, 8.95, signed(0)),
        BlockType(_K.Q5_1, 8.95, scaled((0, 1.0), (2, -15.5))),
        BlockType(_K.Q8_0, 71.5, scaled((0, 1.0))),
        BlockType(_K.Q1_0, 1.0, scaled((0, 1.0))),
        BlockType(_K.Q2_K, 9.6, settle_q2_k),
        BlockType(_K.Q3_K, 42.0, signed(108)),
        BlockType(_K.Q4_K, 81.5, settle_q4_k),
        BlockType(_K.Q5_K, 79.0, settle_q5_k),
        BlockType(_K.Q6_K, 85.0, settle_q6_k),
        BlockType(_K.IQ1_S, 7.0, scaled((0, 1.0))),
        BlockType(_K.IQ1_M, 7.0, settle_iq1_m),
        BlockType(_K.IQ2_XXS, 50.8, scaled((0, 1.0))),
        BlockType(_K.IQ2_XS, 53.2, scaled((0, 1.0))),
        BlockType(_K.IQ2_S, 53.8, scaled((0, 1.0))),
        BlockType(_K.IQ3_XXS, 139.0, scaled((0, 1.0))),
        BlockType(_K.IQ3_S, 136.0, scaled((0, 1.0))),
        BlockType(_K.IQ4_NL, 64.4, signed(0)),
        BlockType(_K.IQ4_XS, 120.0, settle_iq4_xs),
        BlockType(_K.TQ1_0, 0.82, scaled((52, 1.0))),
        BlockType(_K.TQ2_0, 0.71, settle_tq2_0),
        BlockType(_K.MXFP4, 5.87, settle_mxfp4),
        BlockType(_K.NVFP4, 5.87, settle_nvfp4),
    )
}
