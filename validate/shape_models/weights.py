"""The bytes of a tensor, in chunks that any thread can make in any order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from validate.shape_models.blocks import Blocks, BlockType
from validate.shape_models.tensors import Fill, Tensor

CHUNK = 4 << 20  # bytes; more do not make it faster, and each thread holds one or two
LOGITS = 3.0  # deviation: the likeliest of many tokens stands out, as in a real model
ROUTING = 1.0  # deviation of the logits of experts
STANDING = {Fill.EMBEDDING: 1.0, Fill.BIAS: 0.3, Fill.DECAY: 0.5}
GAINS = {Fill.HEAD: LOGITS, Fill.ROUTER: ROUTING}
WORD = 8


@dataclass(frozen=True)
class Part:
    """A tensor with its type and where it begins in the data of the file, in bytes."""

    tensor: Tensor
    type: BlockType
    offset: int

    @property
    def row_size(self) -> int:
        """Bytes of a row."""
        return self.tensor.row // self.type.elements * self.type.size

    @property
    def size(self) -> int:
        """Bytes of the tensor."""
        return self.tensor.elements // self.type.elements * self.type.size


@dataclass(frozen=True)
class Chunk:
    """So many blocks of a tensor from one on; `key` decides its random bits."""

    part: Part
    first: int
    count: int
    key: str

    @property
    def offset(self) -> int:
        """Where it lies in the data of the file, in bytes."""
        return self.part.offset + self.first * self.part.type.size

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.count * self.part.type.size


def list_chunks(part: Part, seed: int) -> Iterator[Chunk]:
    """All chunks of a tensor."""
    blocks = part.size // part.type.size
    step = CHUNK // part.type.size
    for first in range(0, blocks, step):
        key = f"{seed} {part.tensor.name} {first}"
        yield Chunk(part, first, min(step, blocks - first), key)


def make_chunk(chunk: Chunk, barred: tuple[int, ...] = (), skew: float = 0.0) -> Blocks:
    """The blocks of a chunk; `barred` are rows of logits that are to be zero."""
    blocks = random_blocks(chunk.key, chunk.count, chunk.part.type.size)
    tensor = chunk.part.tensor
    chunk.part.type.settle(blocks, chunk.part.type.scale_for(_deviation(tensor)))
    match tensor.fill:
        case Fill.NORM:
            _settle_norms(blocks)
        case Fill.DECAY:
            blocks.view("<u4")[:] |= 1 << 31
        case Fill.BIAS:
            blocks.view("<u4")[:] &= (1 << 31) - 1
        case Fill.ROUTER if skew:
            _skew_rows(blocks, chunk, skew)
        case Fill.HEAD if barred:
            _clear_rows(blocks, chunk, barred)
    return blocks


def random_blocks(key: str, count: int, size: int) -> Blocks:
    """Random bytes, (count, size), the same on every machine: numpy keeps its raw streams stable.

    See https://numpy.org/doc/stable/reference/random/compatibility.html
    """
    entropy = int.from_bytes(sha256(key.encode()).digest(), "little")
    source = np.random.SFC64(np.random.SeedSequence(entropy))
    words = source.random_raw(-(-count * size // WORD)).astype("<u8", copy=False)
    return words.view(np.uint8)[: count * size].reshape(count, size)


def _deviation(tensor: Tensor) -> float:
    """Of the values of a tensor: a matrix is to keep the size of what it multiplies."""
    if tensor.fill in STANDING:
        return STANDING[tensor.fill]
    return GAINS.get(tensor.fill, 1.0) / math.sqrt(tensor.row)


def _settle_norms(blocks: Blocks) -> None:
    """Floats of 1 to 1.125, from random bits."""
    bits = blocks.view("<u4")
    bits &= (1 << 20) - 1
    bits += 0x3F800000


def _skew_rows(blocks: Blocks, chunk: Chunk, skew: float) -> None:
    """Make the logits of some experts vary more, so that these are chosen more often.

    Expert of rank r (a fixed shuffle) has its row times r to the power of -skew.
    """
    row = chunk.part.tensor.row
    values = blocks.view("<f4").reshape(-1)
    index = (chunk.first + np.arange(values.size)) // row
    values *= expert_gains(chunk.part.tensor, skew)[index]


def expert_gains(tensor: Tensor, skew: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """What each expert's logit is multiplied with, (n_expert,)."""
    count = tensor.shape[1]
    random = random_blocks(f"experts of {tensor.name}", count, WORD).view("<u8").reshape(-1)
    rank = np.empty(count, dtype=np.int64)
    rank[np.argsort(random, kind="stable")] = np.arange(count)
    gains = [1.0 / (1.0 + int(each)) ** skew for each in rank]
    return np.array(gains, dtype="<f4")


def _clear_rows(blocks: Blocks, chunk: Chunk, rows: tuple[int, ...]) -> None:
    """A row of zeros gives a logit of zero: any better token comes first."""
    length = chunk.part.tensor.row // chunk.part.type.elements
    for row in rows:
        first, last = (row * length - chunk.first, (row + 1) * length - chunk.first)
        blocks[max(first, 0) : max(last, 0)] = 0
