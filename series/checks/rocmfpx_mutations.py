"""Small model files with tensors of all ROCmFPx types, and ways to spoil them.

Numbers of the format stand here as its description gives them. The same index and seed make the
same file on every machine.
"""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import tiny_drafters as tiny

# name, id, bytes of a block, its scale bytes, which stand at its end
TYPES: Final = (
    ("q4_0_rocmfp4", 100, 18, 2),
    ("q4_0_rocmfp4_fast", 101, 17, 1),
    ("q6_0_rocmfpx", 102, 26, 2),
    ("q8_0_rocmfpx", 103, 33, 1),
    ("q3_0_rocmfpx", 104, 14, 2),
    ("q2_0_rocmfpx", 107, 10, 2),
)
N_ROW, N_ROWS, BLOCK = 256, 4, 32
N_BLOCKS: Final = N_ROW * N_ROWS // BLOCK
# the same of some types of upstream: F32, F16, Q4_0, Q8_0, BF16, MXFP4, NVFP4, Q2_0
UPSTREAM: Final = {0: 128, 1: 64, 2: 18, 8: 34, 30: 64, 39: 17, 40: 18, 42: 9}
UNDEFINED: Final = (*range(43, 100), 105, 106, *range(108, 120), 200, 2**31 - 1, -1, -107)


@dataclass
class Tensor:
    """A tensor of a file; `type_id` and `shape` are what its header says."""

    name: str
    type_id: int
    shape: tuple[int, ...]
    data: bytes
    offset: int = 0


@dataclass
class File:
    """A GGUF file; `size` cuts it; `target` is the tensor that was spoilt."""

    tensors: list[Tensor]
    target: str = ""
    size: int | None = None
    patches: list[tuple[int, bytes]] = field(default_factory=list)

    def head(self) -> bytes:
        """Encode all before the data, and give each tensor its offset there."""
        metadata = tiny.metadata_of("llama", 1, {})
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(metadata))
        for key, value in metadata.items():
            head += tiny.pack_text(key) + tiny.pack_value(value)
        offset = 0
        for tensor in self.tensors:
            tensor.offset = offset
            shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
            head += tiny.pack_text(tensor.name) + shape
            head += struct.pack("<iQ", tensor.type_id, offset)
            offset += tiny.padded(len(tensor.data))
        return head.ljust(tiny.padded(len(head)), b"\0")

    def encode(self) -> bytes:
        """Encode the file as it is mutated."""
        raw = bytearray(self.head())
        for tensor in self.tensors:
            raw += tensor.data.ljust(tiny.padded(len(tensor.data)), b"\0")
        for position, bits in self.patches:
            raw[position : position + len(bits)] = bits
        return bytes(raw[: self.size])


def sound(source: random.Random) -> File:
    """Make a file that loads: every code, every valid scale byte, in an order of its own."""
    tensors = []
    for name, type_id, size, n_scales in TYPES:
        blocks = bytearray(source.randbytes(size * N_BLOCKS))
        for end in range(size, len(blocks) + 1, size):
            for position in range(end - n_scales, end):
                blocks[position] %= 0x7F
        tensors.append(Tensor(f"blk.0.{name}.weight", type_id, (N_ROW, N_ROWS), bytes(blocks)))
    source.shuffle(tensors)
    return File([*tensors, Tensor("output_norm.weight", 0, (8,), bytes(32))])


# --- mutations that must be refused -------------------------------------------------------------


def pick(file: File, source: random.Random) -> tuple[Tensor, int, int]:
    """Choose the tensor to spoil; gives also the bytes and the scale bytes of its blocks."""
    tensor = source.choice(file.tensors[:-1])
    file.target = tensor.name
    size, n_scales = next(entry[2:] for entry in TYPES if entry[1] == tensor.type_id)
    return tensor, size, n_scales


def spoil_scale(file: File, source: random.Random) -> None:
    """Write an invalid scale byte."""
    tensor, size, n_scales = pick(file, source)
    data = bytearray(tensor.data)
    end = size * source.randint(1, N_BLOCKS)
    data[end - source.randint(1, n_scales)] = source.randint(0x7F, 0xFF)
    tensor.data = bytes(data)


def cut_tensor(file: File, source: random.Random) -> None:
    """End the file within a tensor."""
    tensor, _, _ = pick(file, source)
    start = len(file.head()) + tensor.offset
    file.size = start + source.randrange(len(tensor.data))


def spoil_blocks(file: File, source: random.Random) -> None:
    """Let the header say another number of blocks than the data has, or a part of a block."""
    tensor, _, _ = pick(file, source)
    columns = source.choice([N_ROW - 32, N_ROW + 32, N_ROW // 2, N_ROW * 2, N_ROW + 1, 33, 31])
    rows = source.choice([1, 3, 5, 8])
    tensor.shape = source.choice([(columns, N_ROWS), (N_ROW, rows), (N_ROW, N_ROWS, 2)])


def spoil_type(file: File, source: random.Random) -> None:
    """Give an id that no type has."""
    tensor, _, _ = pick(file, source)
    tensor.type_id = source.choice(UNDEFINED)


def swap_type(file: File, source: random.Random) -> None:
    """Give the id of another type, which clashes with the data: only its size can tell."""
    tensor, size, _ = pick(file, source)
    sizes = {entry[1]: entry[2] for entry in TYPES} | UPSTREAM
    tensor.type_id = source.choice([other for other, n in sizes.items() if n != size])


def other_layout(file: File, source: random.Random) -> None:
    """Store type 107 as 240 bytes for 256 values, in the middle or at the end."""
    tensor = next(tensor for tensor in file.tensors if tensor.type_id == 107)
    file.target = tensor.name
    tensor.data = source.randbytes(240 * N_ROW * N_ROWS // 256)
    if source.random() < 0.5:
        file.tensors = [other for other in file.tensors if other is not tensor] + [tensor]


# --- mutations that may do anything but crash ---------------------------------------------------


def flip(raw: bytes, source: random.Random, start: int, end: int) -> list[tuple[int, bytes]]:
    """Flip up to eight bits."""
    places = [source.randrange(start, end) for _ in range(source.randint(1, 8))]
    return [(place, bytes([raw[place] ^ 1 << source.randrange(8)])) for place in places]


def flip_head(file: File, source: random.Random) -> None:
    """Flip bits of the header."""
    file.patches = flip(file.encode(), source, 0, len(file.head()))


def flip_infos(file: File, source: random.Random) -> None:
    """Flip bits of the tensors' descriptions, which end the header."""
    head = file.head()
    start = head.index(file.tensors[0].name.encode()) - 8
    file.patches = flip(file.encode(), source, start, len(head))


def flip_any(file: File, source: random.Random) -> None:
    """Flip bits anywhere."""
    raw = file.encode()
    file.patches = flip(raw, source, 0, len(raw))


def overwrite(file: File, source: random.Random) -> None:
    """Overwrite a stretch with zeros, ones or noise."""
    size = source.choice([1, 4, 8, 64])
    place = source.randrange(len(file.encode()) - size)
    noise = source.choice([bytes(size), b"\xff" * size, source.randbytes(size)])
    file.patches = [(place, noise)]


def cut_anywhere(file: File, source: random.Random) -> None:
    """End the file anywhere."""
    file.size = source.randrange(len(file.encode()))


Mutation: TypeAlias = Callable[[File, random.Random], None]
REFUSED: Final[tuple[Mutation, ...]] = (
    spoil_scale,
    cut_tensor,
    spoil_blocks,
    spoil_type,
    swap_type,
    other_layout,
)
ANY: Final[tuple[Mutation, ...]] = (flip_head, flip_infos, flip_any, overwrite, cut_anywhere)
MUTATIONS: Final = (*REFUSED, *ANY)


def mutate(index: int, seed: int) -> tuple[str, File]:
    """Make the file of an index; every twelfth is left as it is."""
    source = random.Random(f"{seed} {index}")  # noqa: S311 - repeatable numbers are the point
    file = sound(source)
    kind = index % (len(MUTATIONS) + 1)
    if kind == len(MUTATIONS):
        return "sound", file
    MUTATIONS[kind](file, source)
    return MUTATIONS[kind].__name__, file
