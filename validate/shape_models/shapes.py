"""The tensor shapes of published models, and small ones with all their parts.

Sources: the headers of llama.cpp's tests/snapshots/*.schema (b11549) and the published
configurations of the models. What is known of DFlash2 is upstream's code: its layers here are those
of DFlash, a convolution over 2 positions makes as many nodes as upstream says (8.6 a tensor in
llama_context::graph_max_nodes; over 4 the graph has no room), the rest is a guess of ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from upstream.errors import UsageError


@dataclass(frozen=True)
class Recurrent:
    """Gated delta net layers; every `interval`-th layer has attention instead.

    `groups` key heads and `heads` value heads of `state` values each; `joined`: one tensor for
    beta and alpha.
    """

    state: int
    groups: int
    heads: int
    kernel: int = 4
    interval: int = 4
    joined: bool = False

    @property
    def key_dim(self) -> int:
        return self.state * self.groups

    @property
    def value_dim(self) -> int:
        return self.state * self.heads


@dataclass(frozen=True)
class Experts:
    """`used` of `count` experts work on a token, and one of `n_ff_shared` on all."""

    count: int
    used: int
    n_ff: int
    n_ff_shared: int = 0


@dataclass(frozen=True)
class Drafter:
    """A DFlash drafter of blocks of `block` tokens, fed by these layers of its target.

    With a `rank` it is a DFlash2: a convolution over `kernel` positions, one coefficient for each
    `group` values, and a selector among `top_k` candidates.
    """

    target_layers: tuple[int, ...]
    block: int = 16
    kernel: int = 2
    group: int = 64
    rank: int = 0
    top_k: int = 8


@dataclass(frozen=True)
class Shape:
    """A model without its weights. `schema` names the quantisation mixes that upstream keeps."""

    arch: str
    n_layer: int
    n_embd: int
    n_ff: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_rot: int
    n_vocab: int
    n_ctx: int = 32768
    rope_base: float = 1e6
    sections: tuple[int, ...] = ()
    n_mtp: int = 0
    recurrent: Recurrent | None = None
    experts: Experts | None = None
    drafter: Drafter | None = None
    schema: str = ""

    @property
    def gated(self) -> bool:
        """Whether a gate comes out of the query's matrix."""
        return self.recurrent is not None

    @property
    def second_norm(self) -> str:
        """The name of the norm between attention and feed-forward."""
        return "post_attention_norm" if self.recurrent else "ffn_norm"

    @property
    def period(self) -> int:
        """After so many layers their kinds repeat."""
        return self.recurrent.interval if self.recurrent else 1

    def is_recurrent(self, index: int) -> bool:
        """Whether a layer has a recurrent state in place of attention."""
        return index < self.n_layer and (index + 1) % self.period != 0


DENSE_27B = Shape(
    "qwen35", 64, 5120, 17408, 24, 4, 256, 64, 248320, 262144, 1e7, (11, 11, 10, 0),
    recurrent=Recurrent(128, 16, 48), schema="qwen3.6-27b",
)  # fmt: skip
TINY_DENSE = Shape(
    "qwen35", 4, 256, 512, 4, 2, 64, 16, 512, 4096, 1e7, (3, 3, 2, 0),
    recurrent=Recurrent(64, 2, 4), schema="qwen3.6-27b",
)  # fmt: skip
SMALL_DENSE = Shape(
    "qwen35", 24, 1024, 3584, 8, 2, 256, 64, 32768, 32768, 1e7, (11, 11, 10, 0),
    recurrent=Recurrent(128, 16, 16), schema="qwen3.6-27b",
)  # fmt: skip
DRAFT = Shape(
    "qwen3", 28, 1024, 3072, 16, 8, 128, 128, 151936, 40960, schema="qwen3-0.6b"
)  # fmt: skip
TINY_DRAFT = Shape("qwen3", 1, 256, 512, 4, 2, 64, 64, 512, 4096, schema="qwen3-0.6b")
DFLASH_27B = Shape(
    "dflash", 5, 5120, 17408, 32, 8, 128, 128, 248320, 262144, 1e7, (64, 0, 0, 0),
    drafter=Drafter((2, 17, 32, 47, 62)),
)  # fmt: skip
SMALL_DFLASH = Shape(
    "dflash", 2, 1024, 3072, 8, 2, 128, 128, 32768, 32768, 1e7, (64, 0, 0, 0),
    drafter=Drafter((2, 9, 16, 22)),
)  # fmt: skip
TINY_DFLASH = Shape(
    "dflash", 1, 256, 512, 4, 2, 64, 64, 512, 4096, 1e7, (32, 0, 0, 0),
    drafter=Drafter((1, 3)),
)  # fmt: skip


def _with_mtp(shape: Shape) -> Shape:
    return replace(shape, n_mtp=1)


def _with_selector(shape: Shape, rank: int) -> Shape:
    assert shape.drafter
    return replace(shape, drafter=replace(shape.drafter, rank=rank))


PRESETS: dict[str, Shape] = {
    "dense-27b": DENSE_27B,
    "dense-14b": Shape(
        "qwen3", 40, 5120, 17408, 40, 8, 128, 128, 151936, 40960, schema="qwen3-14b"
    ),
    "moe-128": Shape(  # Qwen3-30B-A3B
        "qwen3moe", 48, 2048, 6144, 32, 4, 128, 128, 151936, 40960,
        experts=Experts(128, 8, 768), schema="qwen3-coder-next",
    ),
    "moe-512": Shape(  # Qwen3-Coder-Next
        "qwen3next", 48, 2048, 5120, 16, 2, 256, 64, 151936, 262144, 5e6,
        recurrent=Recurrent(128, 16, 32, joined=True),
        experts=Experts(512, 10, 512, 512), schema="qwen3-coder-next",
    ),
    "mtp-27b": _with_mtp(DENSE_27B),
    "draft-0.6b": DRAFT,
    "dflash-27b": DFLASH_27B,
    "dflash2-27b": _with_selector(DFLASH_27B, 256),
    "small-dense": SMALL_DENSE,
    "small-mtp": _with_mtp(SMALL_DENSE),
    "small-draft": replace(DRAFT, n_layer=4, n_embd=512, n_ff=1536, n_head=4, n_head_kv=2,
                           n_vocab=32768),
    "small-dflash": SMALL_DFLASH,
    "small-dflash2": _with_selector(SMALL_DFLASH, 64),
    "tiny-dense": TINY_DENSE,
    "tiny-mtp": _with_mtp(TINY_DENSE),
    "tiny-moe-128": Shape(
        "qwen3moe", 2, 256, 512, 4, 2, 64, 64, 512, 4096,
        experts=Experts(128, 8, 256), schema="qwen3-coder-next",
    ),
    "tiny-moe-512": Shape(
        "qwen3next", 2, 256, 512, 4, 2, 64, 16, 512, 4096,
        recurrent=Recurrent(64, 2, 4, interval=2, joined=True),
        experts=Experts(512, 10, 256, 256), schema="qwen3-coder-next",
    ),
    "tiny-draft": TINY_DRAFT,
    "tiny-dflash": TINY_DFLASH,
    "tiny-dflash2": _with_selector(TINY_DFLASH, 32),
}  # fmt: skip


def choose_shape(preset: str, n_layer: int | None = None) -> Shape:
    """A preset, with fewer layers of the same shape when asked.

    Raises UsageError for an unknown preset, or a depth that no longer has all kinds of layers.
    """
    if preset not in PRESETS:
        raise UsageError(f"no preset {preset!r}", remedy=f"name one of {', '.join(PRESETS)}")
    shape = PRESETS[preset]
    if n_layer is None:
        return shape
    if n_layer < 1 or n_layer % shape.period or n_layer > shape.n_layer:
        raise UsageError(
            f"{preset} cannot have {n_layer} layers: it has {shape.n_layer}, in groups of "
            f"{shape.period}",
            remedy=f"name a multiple of {shape.period} up to {shape.n_layer}",
        )
    return replace(shape, n_layer=n_layer)


def place_drafter(shape: Shape, n_layer: int) -> Shape:
    """The same drafter for a target of this depth: its layers are spread over the target's."""
    assert shape.drafter
    count = min(len(shape.drafter.target_layers), max(n_layer - 1, 1))
    last = max(n_layer - 2, 1)
    spread = [1 + (last - 1) * index // max(count - 1, 1) for index in range(count)]
    return replace(shape, drafter=replace(shape.drafter, target_layers=tuple(spread)))
