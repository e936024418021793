"""Which cases of test-backend-ops are worth their minutes on a driver in software.

All cases of an operation take an hour there. Cases go into groups of equal operation, type and
columns (1, 2-4, 5-8, more: other shaders), and the groups are served in turn, those of the types
and columns that the patch touches first, until the limit is reached. A group gives its smallest
case, then its largest, then those between them.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from upstream.git import Git
from validate.touched import MATRIX, add_fused, derive_ops, read_places

LIMIT = 24  # at 10 to 40 s for a pipeline that was never compiled, minutes for a step
WORK = 4e7  # multiplications, or values, in one case: more takes a minute of lavapipe's time
VECTOR, MATRICES = ("1", "2-4", "5-8"), ("more",)
# Where a patch names no type: one of each kind of shader source.
TYPICAL = frozenset({"f32", "f16", "q4_0", "q8_0", "q4_k", "iq3_s"})
ACTIVATIONS = frozenset({"f32", "f16", "q8_1"})
FLOATS = frozenset({"f32", "f16"})
HOST = ("ggml/src/ggml-vulkan/", "ggml/include/ggml-vulkan.h")
CASES_OF_UPSTREAM = "tests/test-backend-ops.cpp"
SHADERS = re.compile(r".*/vulkan-shaders/.*\.(?:comp|glsl)$")
INTEGER_DOT = re.compile(r"/(?:mul_mat_vecq|mul_mmq|quantize_q8_1)\w*\.(?:comp|glsl)$")
# Other backends: what changes there can't change what this one computes.
ELSEWHERE = re.compile(r"ggml/(?:src/ggml-(?!vulkan|base|backend|alloc|quants|common)\w+/|.*\.md$)")
# Words in the changed lines and functions of the host code, and what they are about.
WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"flash_attn|\bfa_|FLASH_ATTN", ("FLASH_ATTN_EXT",)),
    (r"mul_mat|matmul|mul_mm|mmvq?\b|mul_mat_vec|dequant_mul|quantize_q8_1", MATRIX),
    (r"soft_?max", ("SOFT_MAX",)),
    (r"rope", ("ROPE",)),
    (r"get_rows", ("GET_ROWS",)),
    (r"set_rows", ("SET_ROWS",)),
    (r"cpy|copy_(?:to|from)_quant", ("CPY", "SET_ROWS")),
    (r"rms_norm", ("RMS_NORM",)),
    (r"ssm_(?:scan|conv)", ("SSM_SCAN", "SSM_CONV")),
    (r"conv2?d|im2col", ("CONV_2D", "IM2COL")),
)
# The same for columns; what names neither or both is about all.
COLUMN_WORDS = (
    (re.compile(r"mul_mat_vec|mat_vec|mmvq"), VECTOR),
    (re.compile(r"mul_mm|matmul|warptile|coopmat"), MATRICES),
)
_TYPES = re.compile(
    r"(?<![a-z0-9])(f16|f32|bf16|i?q\d_(?:xxs|xs|nl|[0-9ksm])(?:_rocmfp[4x](?:_fast)?)?"
    r"|tq\d_0|mxfp4|nvfp4)(?![a-z0-9])",
    re.IGNORECASE,
)
_FIELD = re.compile(r"(\w+)=(\[[^\]]*\]|[^,]*)")
_CHANGED = re.compile(r"^[+-](?![+-]{2} )", re.MULTILINE)


@dataclass(frozen=True)
class Interest:
    """What a patch touches: operations (all when `anything`), and types and columns it names."""

    ops: tuple[str, ...] = ()
    types: frozenset[str] = frozenset()
    columns: tuple[str, ...] = ()
    anything: bool = False
    files: tuple[str, ...] = ()

    @property
    def integer_dot(self) -> bool:
        """Whether it changes a shader of the integer dot product (q8_1)."""
        return any(INTEGER_DOT.search(name) for name in self.files)

    @property
    def only_integer_dot(self) -> bool:
        """Whether all shaders that it changes are such ones."""
        shaders = [name for name in self.files if SHADERS.match(name)]
        return bool(shaders) and all(INTEGER_DOT.search(name) for name in shaders)

    @property
    def kinds(self) -> frozenset[str]:
        """The types whose cases go first: those that it names, else one of each kind."""
        return self.types or (TYPICAL - FLOATS if self.only_integer_dot else TYPICAL)

    @property
    def nothing(self) -> bool:
        """Whether no Vulkan device could compute otherwise, nor be looked at otherwise."""
        return not self.files


@dataclass(frozen=True)
class Choice:
    """The cases to run, in the order of their worth, and why the others are not run."""

    planned: int
    cases: tuple[str, ...]
    skipped: Mapping[str, int]

    def describe(self) -> str:
        """`planned 900, run 120, skipped 780 (700 over the limit of 120, 80 too large)`."""
        reasons = ", ".join(f"{count} {why}" for why, count in self.skipped.items() if count)
        rest = f" ({reasons})" if reasons else ""
        left = sum(self.skipped.values())
        return f"planned {self.planned}, run {len(self.cases)}, skipped {left}{rest}"


def find_interest(git: Git, parent: str, step: str) -> Interest:
    """What the difference between two trees means for Vulkan."""
    return read_interest(git.diff(parent, step, "-U0").decode("utf-8", "replace"))


def read_interest(diff: str) -> Interest:
    """The same from a diff with no context.

    A host file in which no word tells what it is about counts as all operations, unless the other
    files of the patch name some.
    """
    places = {name: heads for name, heads in read_places(diff).items() if is_relevant(name)}
    ops: set[str] = set()
    unknown = False
    for name, heads in places.items():
        known = derive_ops({name: heads})
        ops |= {*known.ops} if not known.unknown else {*add_fused({*_guess_ops(name, diff)})}
        unknown |= bool(known.unknown)
    # What tests name is in the cases that they add, which come first.
    text = "\n".join(_read_changes(diff, places.keys() - {CASES_OF_UPSTREAM}))
    types = frozenset(found.lower() for found in _TYPES.findall(text)) - {"q8_1"}  # no weights
    return Interest(
        ops=tuple(sorted(ops)),
        types=types - ACTIVATIONS or types,
        columns=_find_columns(text),
        anything=unknown and not ops,
        files=tuple(sorted(places)),
    )


def _find_columns(text: str) -> tuple[str, ...]:
    found = [columns for words, columns in COLUMN_WORDS if words.search(text)]
    return found[0] if len(found) == 1 else ()


def is_relevant(path: str) -> bool:
    """Whether a file can change what a Vulkan device computes, or the cases that look at it."""
    if path == CASES_OF_UPSTREAM or path.startswith(HOST):
        return True
    return path.startswith("ggml/") and not ELSEWHERE.match(path)


def choose_cases(
    supported: Mapping[str, bool],
    interest: Interest,
    *,
    added: Collection[str] = (),
    limit: int = LIMIT,
    work: float = WORK,
) -> Choice:
    """Choose among the cases that the device knows; those that the step adds come first."""
    mine = [name for name in supported if _is_of(name, interest) or name in added]
    usable = [name for name in mine if supported[name]]
    small = [name for name in usable if estimate_work(name) <= work]
    order = [*(name for name in small if name in added), *_in_turn(small, interest)]
    cases = tuple(dict.fromkeys(order))[:limit]
    skipped = {
        "not supported by device and CPU": len(mine) - len(usable),
        "too large": len(usable) - len(small),
        f"over the limit of {limit}": len(small) - len(cases),
    }
    return Choice(len(mine), cases, skipped)


def estimate_work(case: str) -> float:
    """Multiplications of a matrix product, else the values of its tensor; 0 where none is known."""
    fields = read_fields(case)
    sizes = [_number(fields.get(name, "")) for name in ("m", "n", "k")]
    if all(sizes):
        batch = _product(fields.get("bs", "[1]")) * _product(fields.get("nr", "[1]"))
        return math.prod(sizes) * batch
    attention = [_number(fields.get(name, "")) for name in ("hsk", "nh", "kv", "nb")]
    if all(attention):
        return math.prod(attention) * _product(fields.get("nr23", "[1]"))
    return _product(fields.get("ne", fields.get("ne_a", "[0]")))


def read_fields(case: str) -> dict[str, str]:
    """`MUL_MAT(type_a=q4_0,n=1)` as {"type_a": "q4_0", "n": "1"}."""
    return dict(_FIELD.findall(case.partition("(")[2].rstrip(")")))


def _in_turn(cases: Sequence[str], interest: Interest) -> list[str]:
    """One case of each group after the other: the touched types and columns, then the others."""
    groups: defaultdict[tuple[bool, str, str, str], list[str]] = defaultdict(list)
    for case in sorted(cases, key=lambda name: (estimate_work(name), name)):
        groups[_group(case, interest)].append(case)
    turns = [
        (other, turn, rank, case)
        for rank, ((other, *_), mine) in enumerate(sorted(groups.items()))
        for turn, case in enumerate(_spread(mine))
    ]
    return [case for *_, case in sorted(turns)]


def _group(case: str, interest: Interest) -> tuple[bool, str, str, str]:
    kind, columns = read_type(case), read_columns(case)
    wanted = not kind or kind in interest.kinds
    fits = not columns or not interest.columns or columns in interest.columns
    return not (wanted and fits), case.partition("(")[0], kind, columns


def read_type(case: str) -> str:
    """The type whose shader a case runs, in small letters; "" where it has none."""
    fields = read_fields(case)
    return (fields.get("type_a") or fields.get("type_K") or fields.get("type") or "").lower()


def read_columns(case: str) -> str:
    """How many columns a matrix product has, as one of VECTOR or MATRICES; "" for another case."""
    fields = read_fields(case)
    number = int(_number(fields.get("n", fields.get("nb", ""))))
    bounds = {1: "1", 4: "2-4", 8: "5-8"}
    return next(
        (name for most, name in bounds.items() if 0 < number <= most), "more" * (number > 8)
    )


def _spread(cases: Sequence[str]) -> Iterator[str]:
    """The first, the last, the middle, the middles of both halves and so on."""
    yield from dict.fromkeys((*cases[:1], *cases[-1:]))
    spans = deque([(0, len(cases) - 1)])
    while spans:
        low, high = spans.popleft()
        if high - low > 1:
            middle = (low + high) // 2
            yield cases[middle]
            spans += [(low, middle), (middle, high)]


def _is_of(case: str, interest: Interest) -> bool:
    return interest.anything or case.partition("(")[0] in interest.ops


def _guess_ops(path: str, diff: str) -> Iterator[str]:
    """The operations that a host file's changed lines and functions name."""
    if path.startswith(HOST):
        text = "\n".join(_read_changes(diff, (path,)))
        for words, ops in WORDS:
            if re.search(words, text):
                yield from ops


def _read_changes(diff: str, names: Iterable[str]) -> Iterator[str]:
    """Names, heads of functions and changed lines of the wanted files."""
    wanted = {*names}
    for part in re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE):
        if wanted & read_places(part).keys():
            lines = part.splitlines()
            yield lines[0]
            yield from (line for line in lines if _CHANGED.match(line) or line.startswith("@@"))


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d+", text) else 0.0


def _product(text: str) -> float:
    return math.prod(float(number) for number in re.findall(r"\d+", text))
