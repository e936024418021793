"""The vocabulary of a shape model: a real one out of a GGUF file, or a generated one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from gguf import GGUFValueType, TokenType

from upstream.errors import UsageError
from validate.shape_models.tensors import Entry, flag, i32s, text, u32

PREFIX = "tokenizer."
TOKENS = "tokenizer.ggml.tokens"
KINDS = "tokenizer.ggml.token_type"
SCORES = "tokenizer.ggml.scores"
SUPPRESSED = "tokenizer.ggml.suppress_tokens"
MASK = "tokenizer.ggml.mask_token_id"
ENDS = ("eos", "eot", "eom")
SMALLEST = 3 + 256 + 1
_T = GGUFValueType


@dataclass(frozen=True)
class Vocabulary:
    """Metadata of a vocabulary; `barred` are the tokens that the model must never write."""

    name: str
    entries: Mapping[str, Entry]
    barred: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(_list_of(self.entries[TOKENS]))


def _list_of(entry: Entry) -> list[object]:
    assert isinstance(entry.value, list)
    return entry.value


def generate_vocabulary(size: int) -> Vocabulary:
    """256 bytes, with which any text can be read, and words.

    Raises UsageError where not even the bytes have room.
    """
    if size < SMALLEST:
        raise UsageError(
            f"a vocabulary of {size} tokens is too small", remedy=f"name at least {SMALLEST}"
        )
    n_words = size - SMALLEST
    letters = [f"<0x{byte:02X}>" for byte in range(256)]
    words = [f"\N{LOWER ONE EIGHTH BLOCK}word{index}" for index in range(n_words)]
    special = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    kinds = [*special, *[TokenType.BYTE] * 256, *[TokenType.NORMAL] * n_words, TokenType.CONTROL]
    entries = {
        "tokenizer.ggml.model": text("llama"),
        TOKENS: Entry(["<unk>", "<s>", "</s>", *letters, *words, "<mask>"], _T.ARRAY, _T.STRING),
        SCORES: Entry([0.0] * size, _T.ARRAY, _T.FLOAT32),
        KINDS: i32s([int(kind) for kind in kinds]),
        "tokenizer.ggml.bos_token_id": u32(1),
        "tokenizer.ggml.eos_token_id": u32(2),
        "tokenizer.ggml.unknown_token_id": u32(0),
        MASK: u32(size - 1),
        "tokenizer.ggml.add_space_prefix": flag(False),
    }
    return Vocabulary("generated", entries)


def adopt_vocabulary(entries: Mapping[str, Entry], size: int, origin: Path) -> Vocabulary:
    """The vocabulary of another file, filled up with words to at least `size` tokens.

    Raises UsageError when there is none.
    """
    if TOKENS not in entries:
        raise UsageError(
            f"{origin} has no vocabulary", remedy="name another GGUF: --tokenizer FILE"
        )
    own = {key: entry for key, entry in entries.items() if key.startswith(PREFIX)}
    filled = _fill_up(own, size)
    values = {key: entry.value for key, entry in filled.items()}
    return Vocabulary(sha256(json.dumps(values).encode()).hexdigest(), filled)


def _fill_up(entries: Mapping[str, Entry], size: int) -> dict[str, Entry]:
    """Words that no text is read as, and a mask for drafters that read blocks."""
    filled = dict(entries)
    tokens = _list_of(filled[TOKENS])
    missing = max(size - len(tokens), 0)
    words = [f"\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}word{n}" for n in range(missing)]
    filled[TOKENS] = replace(filled[TOKENS], value=[*tokens, *words])
    for key, value in ((KINDS, int(TokenType.NORMAL)), (SCORES, 0.0)):
        if key in filled:
            filled[key] = replace(filled[key], value=[*_list_of(filled[key]), *[value] * missing])
    filled.setdefault(MASK, u32(len(tokens) + missing - 1))
    return filled


def bar_ends(vocabulary: Vocabulary) -> Vocabulary:
    """Make control tokens impossible, with them all ends of generation.

    llama.cpp takes tokens as ends by their text (llama-vocab.cpp); all it knows are control tokens.
    Samplers skip the listed ones; drafters that read logits themselves find rows of zeros there.
    """
    entries = vocabulary.entries
    kinds = _list_of(entries[KINDS]) if KINDS in entries else []
    barred = {index for index, kind in enumerate(kinds) if kind == TokenType.CONTROL}
    named = (entries.get(f"tokenizer.ggml.{name}_token_id") for name in ENDS)
    barred |= {each.value for each in named if each and isinstance(each.value, int)}
    ids = sorted(barred)
    return Vocabulary(vocabulary.name, dict(entries) | {SUPPRESSED: i32s(ids)}, tuple(ids))
