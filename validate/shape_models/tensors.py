"""Which tensors and metadata a model of a shape has, by architecture.

Sources: src/models/*.cpp of llama.cpp b11549, which refuses a model where one is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from gguf import GGUFValueType

from validate.shape_models.shapes import Shape


class Fill(Enum):
    """What the values of a tensor are like."""

    WEIGHT = auto()  # a matrix that keeps the size of what it multiplies
    EMBEDDING = auto()  # about 1, so that tokens differ after many layers
    HEAD = auto()  # of logits: a few tokens stand out
    ROUTER = auto()  # logits of experts
    NORM = auto()  # a little above 1
    DECAY = auto()  # negative, of recurrent layers
    BIAS = auto()  # small and positive


@dataclass(frozen=True)
class Tensor:
    """A tensor; `shape` as ggml counts: the length of a row first."""

    name: str
    shape: tuple[int, ...]
    fill: Fill = Fill.WEIGHT

    @property
    def row(self) -> int:
        """Values in a row."""
        return self.shape[0]

    @property
    def elements(self) -> int:
        """Values in all."""
        count = 1
        for length in self.shape:
            count *= length
        return count


@dataclass(frozen=True)
class Entry:
    """A value of the metadata with its type; `item` is the type within an array."""

    value: object
    type: GGUFValueType
    item: GGUFValueType | None = None


Metadata = Mapping[str, Entry]
_T = GGUFValueType


def u32(value: int) -> Entry:
    return Entry(value, _T.UINT32)


def f32(value: float) -> Entry:
    return Entry(value, _T.FLOAT32)


def text(value: str) -> Entry:
    return Entry(value, _T.STRING)


def flag(value: bool) -> Entry:
    return Entry(value, _T.BOOL)


def i32s(values: list[int]) -> Entry:
    return Entry(values, _T.ARRAY, _T.INT32)


def list_metadata(shape: Shape) -> dict[str, Entry]:
    """What llama.cpp reads of this architecture, without the vocabulary."""
    own = {
        "context_length": u32(shape.n_ctx),
        "embedding_length": u32(shape.n_embd),
        "block_count": u32(shape.n_layer + shape.n_mtp),
        "feed_forward_length": u32(shape.n_ff),
        "attention.head_count": u32(shape.n_head),
        "attention.head_count_kv": u32(shape.n_head_kv),
        "attention.key_length": u32(shape.head_dim),
        "attention.value_length": u32(shape.head_dim),
        "attention.layer_norm_rms_epsilon": f32(1e-6),
        "rope.freq_base": f32(shape.rope_base),
        "rope.dimension_count": u32(shape.n_rot),
    }
    if shape.sections:
        own["rope.dimension_sections"] = i32s(list(shape.sections))
    if shape.n_mtp:
        own["nextn_predict_layers"] = u32(shape.n_mtp)
    own |= _recurrent_metadata(shape) | _expert_metadata(shape) | _drafter_metadata(shape)
    return {f"{shape.arch}.{key}": entry for key, entry in own.items()}


def _recurrent_metadata(shape: Shape) -> dict[str, Entry]:
    state = shape.recurrent
    if state is None:
        return {}
    return {
        "full_attention_interval": u32(state.interval),
        "ssm.conv_kernel": u32(state.kernel),
        "ssm.state_size": u32(state.state),
        "ssm.group_count": u32(state.groups),
        "ssm.time_step_rank": u32(state.heads),
        "ssm.inner_size": u32(state.value_dim),
    }


def _expert_metadata(shape: Shape) -> dict[str, Entry]:
    experts = shape.experts
    if experts is None:
        return {}
    own = {
        "expert_count": u32(experts.count),
        "expert_used_count": u32(experts.used),
        "expert_feed_forward_length": u32(experts.n_ff),
    }
    if experts.n_ff_shared:
        own["expert_shared_feed_forward_length"] = u32(experts.n_ff_shared)
    return own


def _drafter_metadata(shape: Shape) -> dict[str, Entry]:
    drafter = shape.drafter
    if drafter is None:
        return {}
    own = {
        "target_layers": i32s(list(drafter.target_layers)),
        "block_size": u32(drafter.block),
    }
    if drafter.rank:
        own |= {
            "conv_kernel_size": u32(drafter.kernel),
            "conv_group_size": u32(drafter.group),
            "selector_rank": u32(drafter.rank),
            "selector_top_k": u32(drafter.top_k),
        }
    return own


def list_tensors(shape: Shape, n_vocab: int) -> Iterator[Tensor]:
    """All tensors in the order of the file."""
    if shape.drafter is None:
        yield Tensor("token_embd.weight", (shape.n_embd, n_vocab), Fill.EMBEDDING)
        yield Tensor("output.weight", (shape.n_embd, n_vocab), Fill.HEAD)
    else:
        yield from _drafter_tensors(shape, n_vocab)
    yield Tensor("output_norm.weight", (shape.n_embd,), Fill.NORM)
    for index in range(shape.n_layer + shape.n_mtp):
        for tensor in _list_block(shape, index):
            yield Tensor(f"blk.{index}.{tensor.name}", tensor.shape, tensor.fill)


def _list_block(shape: Shape, index: int) -> Iterator[Tensor]:
    yield Tensor("attn_norm.weight", (shape.n_embd,), Fill.NORM)
    yield Tensor(f"{shape.second_norm}.weight", (shape.n_embd,), Fill.NORM)
    if shape.is_recurrent(index):
        yield from _recurrent_tensors(shape)
    else:
        yield from _attention_tensors(shape)
    if shape.experts:
        yield from _expert_tensors(shape)
    else:
        yield from _forward_tensors(shape.n_embd, shape.n_ff)
    if index >= shape.n_layer:
        yield Tensor("nextn.eh_proj.weight", (2 * shape.n_embd, shape.n_embd))
        yield Tensor("nextn.enorm.weight", (shape.n_embd,), Fill.NORM)
        yield Tensor("nextn.hnorm.weight", (shape.n_embd,), Fill.NORM)
    if shape.drafter and shape.drafter.rank:
        yield from _convolution_tensors(shape)


def _attention_tensors(shape: Shape) -> Iterator[Tensor]:
    """A gated query (qwen35, qwen3next) is twice as wide."""
    width, narrow = shape.head_dim * shape.n_head, shape.head_dim * shape.n_head_kv
    yield Tensor("attn_q.weight", (shape.n_embd, width * (2 if shape.gated else 1)))
    yield Tensor("attn_k.weight", (shape.n_embd, narrow))
    yield Tensor("attn_v.weight", (shape.n_embd, narrow))
    yield Tensor("attn_output.weight", (width, shape.n_embd))
    yield Tensor("attn_q_norm.weight", (shape.head_dim,), Fill.NORM)
    yield Tensor("attn_k_norm.weight", (shape.head_dim,), Fill.NORM)


def _recurrent_tensors(shape: Shape) -> Iterator[Tensor]:
    """A gated delta net."""
    state = shape.recurrent
    assert state is not None
    wide = 2 * state.key_dim + state.value_dim
    yield Tensor("attn_qkv.weight", (shape.n_embd, wide))
    yield Tensor("attn_gate.weight", (shape.n_embd, state.value_dim))
    yield Tensor("ssm_conv1d.weight", (state.kernel, wide))
    yield Tensor("ssm_dt.bias", (state.heads,), Fill.BIAS)
    yield Tensor("ssm_a", (state.heads,), Fill.DECAY)
    if state.joined:
        yield Tensor("ssm_ba.weight", (shape.n_embd, 2 * state.heads))
    else:
        yield Tensor("ssm_beta.weight", (shape.n_embd, state.heads))
        yield Tensor("ssm_alpha.weight", (shape.n_embd, state.heads))
    yield Tensor("ssm_norm.weight", (state.state,), Fill.NORM)
    yield Tensor("ssm_out.weight", (state.value_dim, shape.n_embd))


def _forward_tensors(n_embd: int, n_ff: int, suffix: str = "") -> Iterator[Tensor]:
    yield Tensor(f"ffn_gate{suffix}.weight", (n_embd, n_ff))
    yield Tensor(f"ffn_down{suffix}.weight", (n_ff, n_embd))
    yield Tensor(f"ffn_up{suffix}.weight", (n_embd, n_ff))


def _expert_tensors(shape: Shape) -> Iterator[Tensor]:
    experts = shape.experts
    assert experts is not None
    yield Tensor("ffn_gate_inp.weight", (shape.n_embd, experts.count), Fill.ROUTER)
    for each in _forward_tensors(shape.n_embd, experts.n_ff, "_exps"):
        yield Tensor(each.name, (*each.shape, experts.count))
    if experts.n_ff_shared:
        yield Tensor("ffn_gate_inp_shexp.weight", (shape.n_embd,))
        yield from _forward_tensors(shape.n_embd, experts.n_ff_shared, "_shexp")


def _drafter_tensors(shape: Shape, n_vocab: int) -> Iterator[Tensor]:
    """DFlash reads layers of its target, whose embeddings and output it shares; 2 selects too."""
    drafter = shape.drafter
    assert drafter is not None
    yield Tensor("fc.weight", (len(drafter.target_layers) * shape.n_embd, shape.n_embd))
    yield Tensor("enc.output_norm.weight", (shape.n_embd,), Fill.NORM)
    if drafter.rank:
        yield Tensor("selector_predecessor.weight", (drafter.rank, n_vocab))
        yield Tensor("selector_successor.weight", (drafter.rank, n_vocab))
        yield Tensor("selector_hidden.weight", (shape.n_embd, drafter.rank))


def _convolution_tensors(shape: Shape) -> Iterator[Tensor]:
    """Of DFlash2: two sides, before and after attention and feed-forward."""
    drafter = shape.drafter
    assert drafter is not None
    projected = 2 * drafter.kernel * (shape.n_embd // drafter.group)
    for part in ("attn", "ffn"):
        yield Tensor(f"{part}_conv_base", (shape.n_embd, drafter.kernel, 2), Fill.BIAS)
        yield Tensor(f"{part}_conv_proj.weight", (shape.n_embd, projected))
