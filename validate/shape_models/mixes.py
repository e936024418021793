"""Which type each tensor gets: a mix of upstream's schemas (tests/snapshots), or one for all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from upstream.errors import UsageError
from validate.shape_models.blocks import TYPES, BlockType
from validate.shape_models.shapes import Shape
from validate.shape_models.tensors import Tensor

SECTION = re.compile(r"\[(?P<name>[A-Za-z0-9_]+)\]\s+(?P<type>\S+)")
BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
# What upstream keeps in floats (tensor_allows_quantization of src/llama-quant.cpp, b11549).
KEPT = ("_norm.weight", "ffn_gate_inp.weight", "ssm_conv1d")
# And takes where a row is no multiple of a block (tensor_type_fallback there).
FALLBACKS = {
    **dict.fromkeys(("Q5_K",), "Q5_1"),
    **dict.fromkeys(("Q6_K",), "Q8_0"),
    **dict.fromkeys(("Q4_K",), "Q5_0"),
    **dict.fromkeys(("Q2_K", "Q3_K", "TQ1_0", "TQ2_0"), "Q4_0"),
}
FALLBACK, LAST_RESORT = "IQ4_NL", "F16"


@dataclass(frozen=True)
class Mix:
    """The type of all tensors but those in `overrides` (names as in the model of `n_layer`)."""

    name: str
    default: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    n_layer: int = 0


def uniform_mix(kind: str) -> Mix:
    """One type for all; logits have more bits, as in upstream's mixes.

    Raises UsageError for a type that llama.cpp does not load.
    """
    name = require_type(kind)
    wide = name if TYPES[name].elements == 1 or name == "Q8_0" else "Q6_K"
    return Mix(name, name, {"output.weight": wide})


def require_type(text: str) -> str:
    """The name of a type as ggml's enumeration has it (`q4_K` is Q4_K)."""
    name = text.upper()
    if name not in TYPES:
        raise UsageError(
            f"no tensor type {text!r} that llama.cpp loads from a file",
            remedy=f"name one of {', '.join(TYPES)}",
        )
    return name


def parse_schema(content: str, section: str, n_layer: int, origin: str) -> Mix:
    """One section of a schema; `n_layer` is the depth of the model that it was written for.

    Raises UsageError for a section that it does not have or a line that is none.
    """
    lines = [line for line in content.splitlines() if line and not line.startswith("#")]
    heads = {match["name"]: n for n, line in enumerate(lines) if (match := SECTION.fullmatch(line))}
    if section not in heads:
        raise UsageError(
            f"{origin} has no mix {section!r}", remedy=f"name one of {', '.join(heads) or 'none'}"
        )
    first = heads[section]
    after = [n for n in heads.values() if n > first]
    head = SECTION.fullmatch(lines[first])
    assert head
    overrides = _parse_overrides(lines[first + 1 : min(after, default=len(lines))], origin)
    return Mix(section, require_type(head["type"]), overrides, n_layer)


def _parse_overrides(lines: Sequence[str], origin: str) -> dict[str, str]:
    found = {}
    for line in lines:
        words = line.split()
        if len(words) != 2:
            raise UsageError(f"{origin}: {line!r} is not a tensor and its type")
        found[words[0]] = require_type(words[1])
    return found


def read_schema(path: Path, section: str, n_layer: int) -> Mix:
    """A mix from a file. Raises UsageError when it cannot be read."""
    try:
        content = path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"the schema {path} cannot be read: {error}",
            remedy="name a file of upstream's tests/snapshots",
        ) from error
    return parse_schema(content, section, n_layer, path.name)


def choose_type(tensor: Tensor, mix: Mix, shape: Shape) -> BlockType:
    """The type of a tensor, one of floats where upstream does not quantise."""
    if not _may_quantise(tensor):
        return TYPES["F32"]
    name = mix.overrides.get(_name_in_full(tensor.name, mix, shape), mix.default)
    return TYPES[_fitting(name, tensor.row)]


def _may_quantise(tensor: Tensor) -> bool:
    kept = any(part in tensor.name for part in KEPT)
    return len(tensor.shape) > 1 and tensor.name.endswith("weight") and not kept


def _name_in_full(name: str, mix: Mix, shape: Shape) -> str:
    """What a tensor of a model of fewer layers is called in the whole: groups are spread evenly."""
    match = BLOCK.fullmatch(name)
    if match is None or not mix.n_layer or int(match[1]) >= shape.n_layer:
        return name
    group, within = divmod(int(match[1]), shape.period)
    groups, whole = shape.n_layer // shape.period, mix.n_layer // shape.period
    return f"blk.{group * whole // groups * shape.period + within}.{match[2]}"


def _fitting(name: str, row: int) -> str:
    if row % TYPES[name].elements == 0:
        return name
    other = FALLBACKS.get(name, FALLBACK)
    return other if row % TYPES[other].elements == 0 else LAST_RESORT
