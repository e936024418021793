"""A pipeline as the host code sets it up, what it is for, and its counterpart in another tree."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

# By the names that ggml-vulkan gives its shaders; the first that fits counts.
FAMILIES = (
    ("mat-vec id", re.compile(r"mul_mat_vec_id_")),
    ("mat-vec", re.compile(r"mul_mat_vec_")),
    ("matmul id", re.compile(r"matmul_id_")),
    ("matmul", re.compile(r"matmul_")),
    ("attention", re.compile(r"flash_attn_")),
    ("norm", re.compile(r"rms_norm_")),
    ("delta net", re.compile(r"gated_delta_net_")),
)
FAMILY_NAMES = tuple(name for name, _ in FAMILIES)
PATTERNS = tuple(fits.pattern for _, fits in FAMILIES)
_MAT_VEC = re.compile(
    r"mul_mat_vec_(?:id_)?(?P<type>.+?)_(?P<input>f32|f16|q8_1)_f32(?P<rest>\w*)$"
)
ROWS_SWEPT = (2, 4)  # upstream uses 1, 2, 4 and 8 by device and type; these two on RDNA and GCN
ROLE_WG, ROLE_ROWS, ROLE_COLUMNS = 0, 1, 2  # specialization constants of every mat-vec shader


@dataclass(frozen=True)
class Variant:
    """One pipeline: `source` stands for the shader's text, defines and compiler.

    spec: specialization constants from id 0 on; push: bytes of push constants; subgroup: the
    required size or 0; full: full subgroups are required; robust: bounds are checked.
    """

    pipeline: str
    shader: str
    source: str
    spec: tuple[int, ...]
    bindings: int
    push: int
    subgroup: int
    full: bool
    robust: bool

    @property
    def family(self) -> str:
        return next((name for name, fits in FAMILIES if fits.match(self.shader)), "other")

    @property
    def type(self) -> str:
        """The type of a mat-vec's weights, `q4_k`; empty for other families."""
        found = _MAT_VEC.match(self.shader)
        return found["type"] if found else ""

    @property
    def input(self) -> str:
        """The type of a mat-vec's activations: f32, f16, q8_1."""
        found = _MAT_VEC.match(self.shader)
        return found["input"] if found else ""

    @property
    def columns(self) -> int:
        """The columns of a mat-vec, 0 for other families."""
        known = self.family == "mat-vec" and bool(self.type) and len(self.spec) > ROLE_COLUMNS
        return self.spec[ROLE_COLUMNS] if known else 0

    @property
    def rows(self) -> int:
        """The rows of a mat-vec that one workgroup computes, 0 for other families."""
        return self.spec[ROLE_ROWS] if self.columns else 0

    @property
    def small(self) -> bool:
        """Whether it is the mat-vec of one subgroup that reduces without shared memory."""
        return bool(self.columns) and self.shader.endswith("_subgroup_no_shmem")

    @property
    def large(self) -> bool:
        """Whether it is a mat-vec of several subgroups: ggml-vulkan runs it on Intel and NVIDIA."""
        vector = self.family in ("mat-vec", "mat-vec id") and bool(self.spec)
        return vector and self.spec[ROLE_WG] > self.subgroup > 0

    @property
    def label(self) -> str:
        """What people call it."""
        if self.columns:
            wg, rows, columns = self.spec[:3]
            return f"{self.pipeline} wg {wg} rows {rows} cols {columns}"
        return f"{self.pipeline} ({' '.join(map(str, self.spec))})"

    @property
    def role(self) -> tuple[object, ...]:
        """What it does whatever its constants: the rows of a mat-vec are the host's choice."""
        if self.columns:
            return (self.pipeline, self.spec[ROLE_WG], self.spec[ROLE_COLUMNS])
        return (self.pipeline,)

    @property
    def text(self) -> str:
        """All fields, as text: the key of what is known about it."""
        return json.dumps(asdict(self))

    def with_rows(self, rows: int) -> Variant:
        """The same mat-vec with another number of rows."""
        return replace(self, spec=(self.spec[0], rows, *self.spec[2:]))


class Subject(Protocol):
    """What a compiler is asked about: a pipeline, or a HIP kernel."""

    @property
    def label(self) -> str: ...

    @property
    def family(self) -> str: ...

    @property
    def shader(self) -> str: ...

    @property
    def spec(self) -> tuple[int, ...]: ...


class Comparison(Protocol):
    """A subject of a step and its counterpart; None where there is none."""

    @property
    def before(self) -> Subject | None: ...

    @property
    def after(self) -> Subject | None: ...

    @property
    def variant(self) -> Subject: ...


@dataclass(frozen=True)
class Pair:
    """A pipeline of a step and its counterpart; None where there is none."""

    before: Variant | None
    after: Variant | None

    @property
    def variant(self) -> Variant:
        found = self.after or self.before
        assert found is not None
        return found


def read_variant(entry: dict[str, Any]) -> Variant:
    """The inverse of dataclasses.asdict."""
    return Variant(**entry | {"spec": tuple(entry["spec"])})


def is_judged(shader: str) -> bool:
    """Whether a shader belongs to one of the families."""
    return any(fits.match(shader) for _, fits in FAMILIES)


def pair_variants(before: Sequence[Variant], after: Sequence[Variant]) -> list[Pair]:
    """The pipelines that differ. Equal ones are left out, the others go together by their role.

    Several of one role (flash attention, tiles) go together in the order in which they are set up.
    """
    common = set(before) & set(after)
    old, new = _group(before, common), _group(after, common)
    pairs = []
    for role in dict.fromkeys([*new, *old]):
        left, right = old[role], new[role]
        for number in range(max(len(left), len(right))):
            pairs.append(Pair(_at(left, number), _at(right, number)))
    return pairs


def sweep_rows(variants: Iterable[Variant]) -> list[Variant]:
    """The float mat-vecs of one subgroup with f32 activations, with 2 and with 4 rows each."""
    chosen = [each for each in variants if each.small and each.input == "f32"]
    swept = [each.with_rows(rows) for each in chosen for rows in ROWS_SWEPT]
    return list(dict.fromkeys(swept))


def halve_rows(variants: Iterable[Variant]) -> dict[Variant, Variant]:
    """The same mat-vecs as in `sweep_rows`, each with its half of the rows, where it has one."""
    chosen = [each for each in variants if each.small and each.input == "f32"]
    return {each: each.with_rows(each.rows // 2) for each in chosen if each.rows > 1}


def _group(
    variants: Sequence[Variant], common: set[Variant]
) -> defaultdict[tuple[object, ...], list[Variant]]:
    groups: defaultdict[tuple[object, ...], list[Variant]] = defaultdict(list)
    for each in variants:
        if each not in common:
            groups[each.role].append(each)
    return groups


def _at(variants: Sequence[Variant], number: int) -> Variant | None:
    return variants[number] if number < len(variants) else None
