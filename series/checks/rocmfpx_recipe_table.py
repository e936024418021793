"""What the ROCmFPx recipes take for which tensor, and models to ask them about.

Written from the description of the format, not from the patch.
"""

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import tiny_drafters as tiny
from tiny_drafters import U32, Metadata, Shapes

N_EMBD, N_FF, N_VOCAB = 256, 512, 288
Types: TypeAlias = dict[str, str]

DUAL, FAST = "q4_0_rocmfp4", "q4_0_rocmfp4_fast"
Q2, Q3, Q6, Q8 = (f"q{bits}_0_rocmfpx" for bits in (2, 3, 6, 8))
FP4: Final = (DUAL, FAST)


# --- the table: what a recipe takes for a tensor ------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where a tensor stands: what it is, its layer and the number of layers, and the model."""

    kind: str
    layer: int
    n_layer: int
    tied: bool

    @property
    def more(self) -> bool:
        """Tell whether upstream's mixes give this layer more bits."""
        i, eighth = self.layer, self.n_layer // 8
        return i < eighth or i >= 7 * self.n_layer // 8 or (i - eighth) % 3 == 2

    @property
    def first(self) -> bool:
        """Tell whether it is in the first sixteenth of the layers."""
        return self.layer < self.n_layer // 16

    @property
    def last_third(self) -> bool:
        """Tell whether it is in the last third of the layers."""
        return self.layer >= 2 * self.n_layer // 3


Rule: TypeAlias = str | Callable[[Place], str]


@dataclass(frozen=True)
class Recipe:
    """A file type: its number, the type of all tensors that have no rule, and the rules."""

    number: int
    base: str
    rules: dict[str, Rule] = field(default_factory=dict)

    def wanted(self, place: Place) -> str:
        """Give the type of a tensor, before experts and draft heads are looked at."""
        rule = self.rules.get(place.kind, self.base)
        return rule if isinstance(rule, str) else rule(place)


def rules_of_6_bits() -> dict[str, Rule]:
    """Q6_0_ROCMFPX: 8 bits for the first layers, and for ffn_down also for the last."""
    attention: Rule = lambda at: Q8 if at.first else Q6  # noqa: E731
    down: Rule = lambda at: Q8 if at.first or at.layer >= 7 * at.n_layer // 8 else Q6  # noqa: E731
    return {**dict.fromkeys(("attn_k", "attn_v", "attn_q", "attn_output"), attention), "down": down}


def rules_of_3_bits() -> dict[str, Rule]:
    """Q3_0_ROCMFPX: 3 bits only where they hurt least."""
    key_value: Rule = lambda at: "q5_K" if at.layer < at.n_layer // 2 else "q4_K"  # noqa: E731
    return {
        **dict.fromkeys(("embd", "output"), FAST),
        **dict.fromkeys(("attn_k", "attn_v"), key_value),
        **dict.fromkeys(("attn_q", "attn_output"), "q5_K"),
        "gate": lambda at: Q6 if at.first or at.more else Q3,
        "down": lambda at: "q5_K" if at.first or at.more or at.last_third else Q3,
    }


MIX: Final[dict[str, Rule]] = {
    "embd": lambda at: "q6_K" if at.tied else DUAL,
    "output": "q6_K",
    "attn_v": "q5_K",
    "attn_output": "q5_K",
    "gate": lambda at: "q5_K" if at.more else DUAL,
    "down": lambda at: "q5_K" if at.last_third else "q6_K",
}
STRIX: Final[dict[str, Rule]] = {"attn_k": DUAL, "attn_v": DUAL}
RECIPES: Final = {
    "Q4_0_ROCMFP4": Recipe(100, DUAL, MIX),
    "Q4_0_ROCMFP4_LEAN": Recipe(101, DUAL, {"embd": "q5_K"}),
    "Q4_0_ROCMFP4_COHERENT": Recipe(102, DUAL, {"embd": "q6_K"}),
    "Q4_0_ROCMFP4_FAST": Recipe(103, FAST),
    "Q4_0_ROCMFP4_FAST_COHERENT": Recipe(104, FAST, {"embd": "q6_K"}),
    "Q4_0_ROCMFP4_STRIX": Recipe(105, FAST, {"embd": "q6_K", **STRIX}),
    "Q4_0_ROCMFP4_STRIX_LEAN": Recipe(106, FAST, {"embd": "q5_K", **STRIX}),
    "Q6_0_ROCMFPX": Recipe(110, Q6, rules_of_6_bits()),
    "Q8_0_ROCMFPX": Recipe(111, Q8),
    "Q3_0_ROCMFPX": Recipe(112, Q3, rules_of_3_bits()),
    "Q2_0_ROCMFPX": Recipe(
        119, Q2, {"embd": lambda at: "q6_K" if at.tied else Q2, "output": "q6_K"}
    ),
}

KINDS: Final = (
    (r"nextn\.embed_tokens|token_embd", "embd"),
    (r"nextn\.shared_head_head|^output\.", "output"),
    (r"attn_(v|qkv|kv_b)\.", "attn_v"),
    (r"attn_(k|q|output)\.", r"attn_\1"),
    (r"ffn_(gate|down)", r"\1"),
)
DRAFT_PROJECTIONS: Final = re.compile(
    r"^fc\.weight$|nextn\.(eh|e|h)_proj\.|(nextn|mtp)\.(pre|post)_projection\."
)
# what upstream takes where 256 do not divide a row
NARROW: Final = {"q4_K": "q5_0", "q5_K": "q5_1", "q6_K": "q8_0"}


@dataclass(frozen=True)
class Model:
    """Shapes, and the metadata that recipes read."""

    name: str
    n_layer: int
    shapes: Shapes
    n_expert: int = 0

    @property
    def path_name(self) -> str:
        """Name the file."""
        return f"{self.name}.gguf"

    def place(self, tensor: str) -> Place:
        """Say where a tensor stands."""
        layer = re.search(r"blk\.(\d+)\.", tensor)
        kind = "other"
        for pattern, name in KINDS:
            if found := re.search(pattern, tensor):
                kind = found.expand(name)
                break
        tied = "output.weight" not in self.shapes
        return Place(kind, int(layer[1]) if layer else 0, self.n_layer, tied)

    def wanted(self, recipe: Recipe) -> Types:
        """Give the type of each tensor; one dimension and norms stay."""
        quantised = {name: shape for name, shape in self.shapes.items() if len(shape) > 1}
        return {name: self._wanted(recipe, name, shape[0]) for name, shape in quantised.items()}

    def _wanted(self, recipe: Recipe, name: str, row: int) -> str:
        at = self.place(name)
        found = recipe.wanted(at)
        eight = {"attn_v": range(100, 107), "attn_k": range(100, 105)}
        if self.n_expert == 8 and recipe.number in eight.get(at.kind, ()):
            found = "q8_0"
        if DRAFT_PROJECTIONS.search(name) and found in (*FP4, Q3):
            found = "q8_0"
        if row % 32:
            return "f16"
        return NARROW.get(found, found) if row % 256 else found


# --- models -------------------------------------------------------------------------------------


def layer(index: int, *, linear: bool = False, fused: bool = False, n_expert: int = 0) -> Shapes:
    """Give the tensors of a layer; `linear` is the attention of Qwen3.5's other layers."""
    square, wide = (N_EMBD, N_EMBD), (N_EMBD, N_FF)
    names: tuple[str, ...] = ("attn_q", "attn_k", "attn_v", "attn_output")
    if linear:
        names = ("attn_qkv", "attn_gate", "ssm_alpha", "ssm_beta", "ssm_out")
    elif fused:
        names = ("attn_qkv", "attn_kv_b", "attn_output")
    shapes: Shapes = dict.fromkeys(names, square) | {"attn_norm": (N_EMBD,)}
    suffix, experts = ("_exps", (n_expert,)) if n_expert else ("", ())
    shapes |= {f"ffn_{part}{suffix}": (*wide, *experts) for part in ("gate", "up")}
    shapes |= {f"ffn_down{suffix}": (N_FF, N_EMBD, *experts)}
    return {f"blk.{index}.{name}.weight": shape for name, shape in shapes.items()}


def trunk(*, tied: bool = False) -> Shapes:
    """Give what stands outside of the layers."""
    names = ("token_embd.weight",) if tied else ("token_embd.weight", "output.weight")
    return {**dict.fromkeys(names, (N_EMBD, N_VOCAB)), "output_norm.weight": (N_EMBD,)}


def dense(name: str, n_layer: int, **how: bool) -> Model:
    """Make a dense model."""
    shapes = trunk(tied=how.pop("tied", False))
    for index in range(n_layer):
        shapes |= layer(index, **how)
    return Model(name, n_layer, shapes)


def experts(n_expert: int) -> Model:
    """Make a mixture of experts."""
    shapes = trunk()
    for index in range(16):
        shapes |= layer(index, n_expert=n_expert)
    return Model(f"experts-{n_expert}", 16, shapes, n_expert)


def qwen35() -> Model:
    """Make what Qwen3.8-27B is made of: 48 linear, 16 full attentions and an MTP block."""
    shapes = trunk()
    for index in range(65):
        shapes |= layer(index, linear=index % 4 != 3 and index < 64)
    shapes["blk.64.nextn.eh_proj.weight"] = (2 * N_EMBD, N_EMBD)
    return Model("qwen35-mtp", 65, shapes)


def draft_heads(*, tied: bool) -> Model:
    """Make a model with all tensors of a draft head, and rows that 256 or 32 do not divide."""
    model = dense("odd", 16, tied=tied)
    shapes = dict(model.shapes)
    for part in ("eh_proj", "e_proj", "h_proj", "embed_tokens", "shared_head_head"):
        shapes[f"blk.15.nextn.{part}.weight"] = (N_EMBD, N_VOCAB)
    for family in ("nextn", "mtp"):
        for part in ("pre", "post"):
            shapes[f"{family}.{part}_projection.weight"] = (N_EMBD, N_EMBD)
    shapes["fc.weight"] = (N_EMBD, N_EMBD)
    for index, row in ((1, 96), (2, 80), (9, 96)):
        for part in ("attn_v", "attn_output", "ffn_down", "ffn_gate"):
            shapes[f"blk.{index}.{part}.weight"] = (row, N_EMBD)
    return Model("draft-heads-tied" if tied else "draft-heads", 16, shapes)


MODELS: Final = (
    dense("dense-32", 32),
    dense("dense-22", 22),
    dense("tied", 16, tied=True),
    dense("fused", 24, fused=True),
    experts(8),
    experts(16),
    qwen35(),
    draft_heads(tied=False),
    draft_heads(tied=True),
)
# the types of published files of Qwen3.8-27B
CENSUS: Final = {
    "Q4_0_ROCMFP4_STRIX_LEAN": {DUAL: 82, FAST: 422, "q5_K": 1, "q8_0": 1},
    "Q4_0_ROCMFP4_COHERENT": {DUAL: 504, "q6_K": 1, "q8_0": 1},
    "Q4_0_ROCMFP4_FAST": {FAST: 505, "q8_0": 1},
    "Q6_0_ROCMFPX": {Q6: 486, Q8: 20},
    "Q8_0_ROCMFPX": {Q8: 506},
    "Q2_0_ROCMFPX": {Q2: 505, "q6_K": 1},
}


def describe(model: Model) -> Metadata:
    """Give the metadata that a recipe reads."""
    extra: Metadata = {"attention.head_count": U32(2), "embedding_length": U32(N_EMBD)}
    if model.n_expert:
        extra |= {"expert_count": U32(model.n_expert), "expert_used_count": U32(2)}
    return tiny.metadata_of("llama", model.n_layer, extra)


def pack(metadata: Metadata, shapes: Shapes) -> bytes:
    """Encode all of a GGUF file but its F32 tensors."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata))
    for key, value in metadata.items():
        head += tiny.pack_text(key) + tiny.pack_value(value)
    head += tiny.pack_tensor_infos(shapes)
    return head.ljust(tiny.padded(len(head)), b"\0")


def write_hollow(model: Model, folder: Path) -> Path:
    """Write a model whose tensors are a hole in the file."""
    path, head = folder / model.path_name, pack(describe(model), model.shapes)
    with path.open("wb") as file:
        file.write(head)
        size = sum(tiny.padded(4 * volume(shape)) for shape in model.shapes.values())
        file.truncate(len(head) + size)
    return path


def volume(shape: Sequence[int]) -> int:
    """Count the elements."""
    total = 1
    for side in shape:
        total *= side
    return total
