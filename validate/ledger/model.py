"""What a ledger holds: facts that upstream and patches must agree on, and no build is needed for.

Everything is strings, numbers and tuples of them, so that a ledger is stored as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

Severity = Literal["info", "red"]
T = TypeVar("T")


@dataclass(frozen=True)
class Enumeration:
    """Names with their ids. `retired` are ids that a comment in the source says were given up."""

    name: str
    source: str
    ids: tuple[tuple[str, int], ...]
    retired: tuple[tuple[str, int], ...] = ()

    @property
    def table(self) -> dict[str, int]:
        return dict(self.ids)

    @property
    def holes(self) -> tuple[int, ...]:
        """Ids below the highest dense one that no name has."""
        used = {value for _, value in self.ids if 0 <= value < 1000}
        return tuple(sorted(set(range(max(used, default=0))) - used))


@dataclass(frozen=True)
class Number:
    """A single number: an asserted count, a protocol version, the length of a table."""

    name: str
    source: str
    value: int


@dataclass(frozen=True)
class Constant:
    """A specialization constant of a shader source, under the conditions it stands under."""

    source: str
    condition: str
    name: str
    id: int
    type: str
    default: str


@dataclass(frozen=True)
class Layout:
    """The constants that a shader may have in one build: id -> name, sorted by id."""

    shader: str
    names: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class HostPush:
    """One constant that the host appends. `id` is -1 where no comment states it."""

    name: str
    id: int
    value: str
    stated: bool


@dataclass(frozen=True)
class HostSequence:
    """Constants that one function of the host appends, in order; `base`: how many precede them."""

    function: str
    base: int
    pushes: tuple[HostPush, ...]


@dataclass(frozen=True)
class Block:
    """A push-constant block of a shader in one build: bytes, and its scalars as a string of
    i (32 bit integer), f (float), l (64 bit), h (16 bit)."""

    shader: str
    size: int
    scalars: str


@dataclass(frozen=True)
class Struct:
    """A push-constant struct of the host: bytes, scalars as in Block, names of the scalars."""

    name: str
    source: str
    size: int
    scalars: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Pipeline:
    """One pipeline that the host makes: the SPIR-V it takes, the bytes it announces, and the
    blocks of every shader build that may be that SPIR-V. `constants` is the length of a literal
    list of specialization constants, -1 where it is not a literal."""

    spirv: str
    announced: str
    size: int
    shaders: tuple[str, ...]
    blocks: tuple[Block, ...]
    constants: int
    capacity: int


@dataclass(frozen=True)
class Support:
    """A case of a backend's supports_op: a hash of its conditions, the cases inside it."""

    backend: str
    op: str
    digest: str
    inner: tuple[str, ...]


@dataclass(frozen=True)
class Ledger:
    """The facts of one tree, and by name what could not be read or derived."""

    tree: str
    enums: tuple[Enumeration, ...]
    numbers: tuple[Number, ...]
    constants: tuple[Constant, ...]
    layouts: tuple[Layout, ...]
    sequences: tuple[HostSequence, ...]
    structs: tuple[Struct, ...]
    blocks: tuple[Block, ...]
    pipelines: tuple[Pipeline, ...]
    supports: tuple[Support, ...]
    unread: tuple[str, ...]

    def enum(self, name: str) -> Enumeration:
        """The enumeration of that name; KeyError when there is none."""
        for found in self.enums:
            if found.name == name:
                return found
        raise KeyError(name)


@dataclass(frozen=True)
class Fault:
    """Something inside one tree that cannot be right."""

    kind: str
    name: str
    text: str


@dataclass(frozen=True)
class Change:
    """A difference between two ledgers, in a line of text."""

    severity: Severity
    kind: str
    name: str
    text: str


def to_document(ledger: Ledger) -> dict[str, Any]:
    """A ledger for JSON."""
    return asdict(ledger)


def from_document(document: Mapping[str, Any]) -> Ledger:
    """The ledger that `to_document` stored. Raises KeyError or TypeError for anything else."""
    rows = {name: tuple(_row(make, e) for e in document[name]) for name, make in _ROWS.items()}
    return Ledger(tree=document["tree"], unread=tuple(document["unread"]), **rows)


_ROWS: Mapping[str, Callable[..., Any]] = {
    "enums": Enumeration,
    "numbers": Number,
    "constants": Constant,
    "layouts": Layout,
    "sequences": HostSequence,
    "structs": Struct,
    "blocks": Block,
    "pipelines": Pipeline,
    "supports": Support,
}
_NESTED: Mapping[str, Callable[..., object]] = {"pushes": HostPush, "blocks": Block}


def _row(make: Callable[..., T], entry: Mapping[str, object]) -> T:
    return make(**{key: _field(key, value) for key, value in entry.items()})


def _field(key: str, value: object) -> object:
    if key in _NESTED and isinstance(value, list | tuple):
        return tuple(_row(_NESTED[key], entry) for entry in value)
    return _freeze(value)


def _freeze(value: object) -> object:
    return tuple(map(_freeze, value)) if isinstance(value, list | tuple) else value
