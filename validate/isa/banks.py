"""How many LDS accesses of a cooperative-matrix tile hit one bank at once, by the width of a load.

RDNA has 32 banks of 4 bytes. A load of 4 bytes serves 32 lanes at once, one of 8 bytes 16 lanes on
16 pairs of banks, one of 16 bytes 8 lanes on 8 quads: with rows `stride` dwords apart the factor is
gcd(stride, 32), gcd(stride / 2, 16), gcd(stride / 4, 8). A model, not a measurement; the compiler's
own cost estimate does not know banks.
"""

from __future__ import annotations

import re
from math import gcd

from validate.isa.variants import Subject

# Constants of mul_mm.comp and mul_mmq_cm1.comp, b11549.
BK_ID, PAD_ID, PAD_ID_QUANT, PAD = 3, 12, 13, 4
QPITCH, QPITCH_ID = 4 * 8 + 4, 2 * 8 + 4
WIDTHS = {"b32": (1, 32), "b64": (2, 16), "b128": (4, 8)}  # dwords of a load, lanes at once
_COOPMAT = re.compile(r"matmul_(?P<id>id_)?.*_cm1$")


def stride_of(variant: Subject) -> int | None:
    """Dwords between the rows of a tile in LDS; None where this is no such tile."""
    found = _COOPMAT.match(variant.shader)
    if found is None or len(variant.spec) <= BK_ID:
        return None
    if "q8_1" in variant.shader:
        return QPITCH_ID if found["id"] else QPITCH
    pad_id = PAD_ID_QUANT if "_quant_" in variant.shader else PAD_ID
    pad = variant.spec[pad_id] if len(variant.spec) > pad_id else PAD
    plain = re.match(r"matmul_(id_)?(subgroup_)?(f32|f16)_", variant.shader)
    depth = 32 if plain else variant.spec[BK_ID]
    return depth // 2 + pad


def conflict(stride: int, width: str) -> int | None:
    """The factor for loads of a width; None where the rows are not aligned to it."""
    dwords, lanes = WIDTHS[width]
    return None if stride % dwords else gcd(stride // dwords, lanes)
