"""Random models small enough to write in a moment, one for every kind of drafter.

`test-llama-archs` writes no EAGLE3 and no DFlash model, so the GGUF files are written here, with
the standard library only: a check runs with whatever Python there is. Their output is dominated by
a few tokens, so that drafts are read to their end.
"""

import math
import random
import struct
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Final, TypeAlias

N_EMBD, N_HEAD, N_FF, N_VOCAB, N_LAYER = 32, 2, 48, 260, 4
N_CTX_TRAIN: Final = 1024
FIRST_WORD, N_WORDS, MASK_TOKEN = 131, 128, N_VOCAB - 1
BLOCK_SIZE: Final = 8


class U32(int):
    """An unsigned GGUF integer, a plain int is a signed one."""


Value: TypeAlias = str | bool | int | float | Sequence[str] | Sequence[int] | Sequence[float]
Metadata: TypeAlias = dict[str, Value]
Shapes: TypeAlias = dict[str, tuple[int, ...]]


def pack_text(text: str) -> bytes:
    """Encode a GGUF string, whose length comes first."""
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def pack_scalar(value: str | bool | int | float) -> tuple[int, bytes]:
    """Encode a GGUF scalar together with its type number."""
    match value:
        case bool():
            return 7, struct.pack("<?", value)
        case U32():
            return 4, struct.pack("<I", value)
        case int():
            return 5, struct.pack("<i", value)
        case float():
            return 6, struct.pack("<f", value)
        case str():
            return 8, pack_text(value)


def pack_value(value: Value) -> bytes:
    """Encode a GGUF value, lists must not be empty as their first item gives the type."""
    if isinstance(value, str | int | float):
        kind, raw = pack_scalar(value)
        return struct.pack("<I", kind) + raw
    items = [pack_scalar(item) for item in value]
    return struct.pack("<IIQ", 9, items[0][0], len(items)) + b"".join(raw for _, raw in items)


def pack_tensor_infos(shapes: Shapes) -> bytes:
    """Encode the list of F32 tensors and where their data lies."""
    infos, offset = b"", 0
    for name, shape in shapes.items():
        infos += pack_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)
        offset += padded(4 * math.prod(shape))
    return infos


def padded(size: int) -> int:
    """Round up to the default alignment of GGUF."""
    return (size + 31) // 32 * 32


def weights(name: str, shape: Sequence[int]) -> bytes:
    """Make the weights of a tensor from its name, so that they are the same on each run."""
    source = random.Random(name)  # noqa: S311 - repeatable numbers are the point
    mean, deviation = (1.0, 0.1) if "norm" in name else (0.0, 0.3)
    values = [source.gauss(mean, deviation) for _ in range(math.prod(shape))]
    raw = struct.pack(f"<{len(values)}f", *values)
    return raw.ljust(padded(len(raw)), b"\0")


def write_model(
    path: Path,
    metadata: Metadata,
    shapes: Shapes,
    *,
    seed: str = "",
    zeros: Container[str] = frozenset(),
) -> None:
    """Write a GGUF file; its weights come from the seed (else from its name), some are 0."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata))
    head += b"".join(pack_text(key) + pack_value(value) for key, value in metadata.items())
    head += pack_tensor_infos(shapes)
    data = b"".join(
        bytes(padded(4 * math.prod(shape)))
        if name in zeros
        else weights(f"{seed or path.name} {name}", shape)
        for name, shape in shapes.items()
    )
    path.write_bytes(head.ljust(padded(len(head)), b"\0") + data)


def tokenizer() -> Metadata:
    """Give all models one vocabulary, as a drafter must share that of its target."""
    ascii_bytes = [f"<0x{byte:02X}>" for byte in range(FIRST_WORD - 3)]
    words = [f"w{index}" for index in range(N_WORDS)]
    tokens = ["<unk>", "<s>", "</s>", *ascii_bytes, *words, "<mask>"]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * N_VOCAB,
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * len(ascii_bytes), *[1] * N_WORDS, 3],
        "tokenizer.ggml.bos_token_id": U32(1),
        "tokenizer.ggml.eos_token_id": U32(2),
        "tokenizer.ggml.mask_token_id": U32(MASK_TOKEN),
    }


def metadata_of(arch: str, n_layer: int, extra: Metadata) -> Metadata:
    """Give what every architecture here reads, and its own keys."""
    own: Metadata = {
        "context_length": U32(N_CTX_TRAIN),
        "embedding_length": U32(N_EMBD),
        "block_count": U32(n_layer),
        "feed_forward_length": U32(N_FF),
        "attention.head_count": U32(N_HEAD),
        "attention.layer_norm_rms_epsilon": 1e-5,
        **extra,
    }
    return {
        "general.architecture": arch,
        **{f"{arch}.{key}": value for key, value in own.items()},
        **tokenizer(),
    }


def block(index: int, n_attn: int = N_EMBD) -> Shapes:
    """Give a transformer block whose attention reads rows of n_attn values."""
    shapes: Shapes = {f"attn_{part}": (n_attn, N_EMBD) for part in "qkv"}
    shapes |= {"attn_norm": (N_EMBD,), "attn_output": (N_EMBD, N_EMBD), "ffn_norm": (N_EMBD,)}
    shapes |= {"ffn_gate": (N_EMBD, N_FF), "ffn_up": (N_EMBD, N_FF), "ffn_down": (N_FF, N_EMBD)}
    return {f"blk.{index}.{name}.weight": shape for name, shape in shapes.items()}


def trunk(n_layer: int) -> Shapes:
    """Give a whole target model without extras."""
    shapes: Shapes = dict.fromkeys(("token_embd.weight", "output.weight"), (N_EMBD, N_VOCAB))
    shapes["output_norm.weight"] = (N_EMBD,)
    for index in range(n_layer):
        shapes |= block(index)
    return shapes


def write_target(path: Path) -> None:
    """Write a plain target for the drafters that live in a file of their own."""
    write_model(path, metadata_of("llama", N_LAYER, {}), trunk(N_LAYER))


def write_slow_twin(path: Path, target: str, n_idle: int) -> None:
    """Write a model with the output of the plain target, bit by bit, and n_idle blocks more.

    What those blocks add to their input is 0: they only take time.
    """
    n_layer = N_LAYER + n_idle
    zeros = {
        f"blk.{index}.{last}.weight"
        for index in range(N_LAYER, n_layer)
        for last in ("attn_output", "ffn_down")
    }
    write_model(path, metadata_of("llama", n_layer, {}), trunk(n_layer), seed=target, zeros=zeros)


def write_eagle3(path: Path) -> None:
    """Write an EAGLE3 drafter, it reads three layers of its target."""
    shapes = block(0, n_attn=2 * N_EMBD)
    shapes |= {
        "fc.weight": (3 * N_EMBD, N_EMBD),
        "output_norm.weight": (N_EMBD,),
        "output.weight": (N_EMBD, N_VOCAB),
    }
    shapes["blk.0.attn_norm_2.weight"] = (N_EMBD,)
    extra: Metadata = {"target_layers": [1, 2, 3], "target_hidden_size": U32(N_EMBD)}
    write_model(path, metadata_of("eagle3", 1, extra), shapes)


def dflash_shapes() -> Shapes:
    """Give the tensors of a DFlash drafter, embeddings and output are those of its target."""
    head_norms = {f"blk.0.attn_{part}_norm.weight": (N_EMBD // N_HEAD,) for part in "qk"}
    norms = {f"{name}.weight": (N_EMBD,) for name in ("enc.output_norm", "output_norm")}
    return {**block(0), **head_norms, **norms, "fc.weight": (2 * N_EMBD, N_EMBD)}


def write_dflash(path: Path) -> None:
    """Write a DFlash drafter, its block holds the last token and the masks."""
    extra: Metadata = {"target_layers": [1, 2], "block_size": U32(BLOCK_SIZE)}
    write_model(path, metadata_of("dflash", 1, extra), dflash_shapes())


def write_dspark(path: Path) -> None:
    """Write a DSpark drafter, its block is sampled from the last token on."""
    rank = 8
    shapes = dflash_shapes() | {"conf_proj.weight": (N_EMBD + rank, 1)}
    shapes |= {f"markov_w{index}.weight": (rank, N_VOCAB) for index in (1, 2)}
    extra: Metadata = {
        "target_layers": [1, 2],
        "block_size": U32(BLOCK_SIZE),
        "sample_from_anchor": True,
    }
    write_model(path, metadata_of("dflash", 1, extra), shapes)


def write_mtp(path: Path, n_heads: int) -> None:
    """Write a target that carries its own MTP heads."""
    n_all = N_LAYER + n_heads
    shapes = trunk(n_all)
    for index in range(N_LAYER, n_all):
        shapes[f"blk.{index}.nextn.eh_proj.weight"] = (2 * N_EMBD, N_EMBD)
        shapes |= {f"blk.{index}.nextn.{name}.weight": (N_EMBD,) for name in ("enorm", "hnorm")}
    extra: Metadata = {
        "nextn_predict_layers": U32(n_heads),
        "expert_feed_forward_length": U32(N_FF),
        "attention.sliding_window": U32(N_CTX_TRAIN),
        "attention.sliding_window_pattern": [U32(index % 2) for index in range(n_all)],
    }
    write_model(path, metadata_of("step35", n_all, extra), shapes)
