"""What cannot be right inside one tree, whoever wrote it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from validate.ledger.enums import SHADER_ENUM, TWINS
from validate.ledger.model import (
    Enumeration,
    Fault,
    HostPush,
    HostSequence,
    Layout,
    Ledger,
    Pipeline,
    Struct,
)

COUNT = "_COUNT"
NAMES_TO_JUDGE = 3  # unstated names by which a run of pushes is recognised


def find_faults(ledger: Ledger) -> tuple[Fault, ...]:
    """Every contradiction inside a ledger."""
    found = [fault for each in ledger.enums for fault in _judge_enum(each)]
    for c_name, prefix, python_name in TWINS:
        found += _compare_twins(ledger.enum(c_name), prefix, ledger.enum(python_name))
    found += _judge_shader_ids(ledger)
    found += _judge_numbers(ledger)
    found += [fault for layout in ledger.layouts for fault in _judge_layout(layout)]
    found += [fault for each in ledger.sequences for fault in _judge_sequence(each, ledger.layouts)]
    structs = {struct.name: struct for struct in ledger.structs}
    found += [fault for each in ledger.pipelines for fault in _judge_pipeline(each, structs)]
    return tuple(dict.fromkeys(found))


# -- ids ------------------------------------------------------------------------------------------


def _judge_enum(each: Enumeration) -> Iterator[Fault]:
    """Two names of one id, an id that was given up before, a count that is too low."""
    names: dict[int, str] = {}
    for name, value in each.ids:
        if name.endswith(COUNT):
            highest = max((v for n, v in each.ids if n != name), default=-1)
            if value <= highest:
                yield Fault(each.name, name, f"{name} = {value}, but id {highest} is in use")
        elif value in names:
            yield Fault(each.name, name, f"{name} and {names[value]} both have id {value}")
        else:
            names[value] = name
    for name, value in each.retired:
        if value in names and names[value] != name:
            text = f"{names[value]} takes id {value}, which old files use for {name}"
            yield Fault(each.name, names[value], text)


def _compare_twins(mine: Enumeration, prefix: str, other: Enumeration) -> Iterator[Fault]:
    """What C and gguf-py say differently."""
    c_ids = {n.removeprefix(prefix): v for n, v in mine.ids if not n.endswith(COUNT)}
    python_ids = other.table
    for name in sorted(c_ids.keys() | python_ids.keys()):
        left, right = c_ids.get(name), python_ids.get(name)
        if left != right:
            text = f"{name} is {_say(left)} in {mine.source} and {_say(right)} in {other.source}"
            yield Fault(mine.name, name, text)


def _say(value: int | None) -> str:
    return "absent" if value is None else str(value)


def _judge_shader_ids(ledger: Ledger) -> Iterator[Fault]:
    types = ledger.enum("ggml_type").table
    for each in ledger.enums:
        for name, value in each.ids if each.name == SHADER_ENUM else ():
            if types.get(name) != value:
                text = f"{name} is {value} in {each.source} and {_say(types.get(name))} in ggml.h"
                yield Fault(each.name, name, text)


def _judge_numbers(ledger: Ledger) -> Iterator[Fault]:
    """Asserted counts and op tables against the enumerations."""
    counts = {n: v for each in ledger.enums for n, v in each.ids if n.endswith(COUNT)}
    for number in ledger.numbers:
        name = "GGML_OP_COUNT" if number.name.startswith("entries") else _asserted(number.name)
        if name in counts and counts[name] != number.value:
            text = f"{number.name} in {number.source} is {number.value}, {name} is {counts[name]}"
            yield Fault("count", number.name, text)


def _asserted(name: str) -> str:
    return name.split()[1] if name.startswith("static_assert") else ""


# -- specialization constants ---------------------------------------------------------------------


def _judge_layout(layout: Layout) -> Iterator[Fault]:
    """One id twice, or one name twice, in a single build of a shader.

    `local_size_x_id` names the constant that the size of a group shares, so it is no rival.
    """
    own = [row for row in layout.names if not row[1].startswith("local_size_")]
    ids = Counter(id_ for id_, _ in own)
    names = Counter(name for _, name in own)
    for id_ in (id_ for id_, count in ids.items() if count > 1):
        rivals = " and ".join(name for other, name in own if other == id_)
        yield Fault("constant", layout.shader, f"{layout.shader}: {rivals} both have id {id_}")
    for name in (name for name, count in names.items() if count > 1):
        text = f"{layout.shader}: {name} has several ids in one build"
        yield Fault("constant", layout.shader, text)


def _judge_sequence(sequence: HostSequence, layouts: Sequence[Layout]) -> Iterator[Fault]:
    """A run of pushes has to fit at least one layout of one shader, as a whole."""
    yield from _judge_statements(sequence)
    candidates = [layout for layout in layouts if _knows(sequence, layout)]
    if not candidates:
        for push in sequence.pushes:
            if push.stated and not _known_name(push.name, layouts):
                text = f"{sequence.function} pushes {push.name}, which no shader has"
                yield Fault("push", sequence.function, text)
        return
    problems = [_misfit(sequence, layout) for layout in candidates]
    if all(problems):
        nearest = min(filter(None, problems), key=lambda lines: len(lines))
        text = f"{sequence.function} fits no shader; nearest: {'; '.join(nearest)}"
        yield Fault("push", sequence.function, text)


def _known_name(name: str, layouts: Sequence[Layout]) -> bool:
    return any(name == other for layout in layouts for _, other in layout.names)


def _judge_statements(sequence: HostSequence) -> Iterator[Fault]:
    """Ids that comments state have to ascend by one, and stated values have to be pushed."""
    stated = [(at, push) for at, push in enumerate(sequence.pushes) if push.id >= 0]
    for (at, push), (later_at, later) in pairwise(stated):
        if later.id - push.id != later_at - at:
            text = (
                f"{sequence.function} pushes {later.name} as {later.id} "
                f"after {push.name} as {push.id}"
            )
            yield Fault("push", sequence.function, text)
    for push in sequence.pushes:
        value, _, said = push.value.partition(" stated as ")
        if said and _plain(value) is not None and _plain(value) != _plain(said):
            text = f"{sequence.function} pushes {value} for {push.name}, the comment says {said}"
            yield Fault("push", sequence.function, text)


def _plain(value: str) -> int | None:
    words = {"true": 1, "false": 0}
    text = value.rstrip("uU")
    return int(text) if text.isdigit() else words.get(value)


def _knows(sequence: HostSequence, layout: Layout) -> bool:
    """Whether a layout has the names: all that comments state, or several that values suggest."""
    names = [name for _, name in layout.names]
    stated = [push for push in sequence.pushes if push.stated]
    found = [push for push in sequence.pushes if _find(push, names)]
    if stated:
        return all(push.name in names for push in stated)
    return len(found) >= NAMES_TO_JUDGE and len(found) == len(sequence.pushes)


def _find(push: HostPush, names: Sequence[str]) -> str | None:
    """The constant that a push is: its name, or the name behind a prefix (`conv2d_WM`)."""
    if push.name in names:
        return push.name
    if push.stated:
        return None
    return next((name for name in names if push.name.endswith(f"_{name}")), None)


def _misfit(sequence: HostSequence, layout: Layout) -> list[str]:
    """Where a run of pushes does not meet a layout; [] when it fits."""
    ids = {name: id_ for id_, name in layout.names}
    first = _first_id(sequence, ids)
    problems = []
    for at, push in enumerate(sequence.pushes):
        name = _find(push, list(ids))
        here = push.id if push.id >= 0 else first + at
        if name is not None and ids[name] != here:
            problems.append(f"{name} is pushed as {here}, {layout.shader} has it as {ids[name]}")
    return problems


def _first_id(sequence: HostSequence, ids: dict[str, int]) -> int:
    """How many constants precede the run: known, stated, or what most names imply."""
    if sequence.base >= 0:
        return sequence.base
    implied = [
        (push.id if push.id >= 0 else ids[name]) - at
        for at, push in enumerate(sequence.pushes)
        if (name := _find(push, list(ids))) is not None
    ]
    return Counter(implied).most_common(1)[0][0] if implied else 0


# -- push constants -------------------------------------------------------------------------------


def _judge_pipeline(pipeline: Pipeline, structs: dict[str, Struct]) -> Iterator[Fault]:
    """The host has to announce the bytes that the shader reads, in the shader's order of types.

    A struct may be longer than the block: shaders share structs. Where several builds of a shader
    are possible, one of them has to have exactly the announced bytes.
    """
    for shader in pipeline.shaders:
        blocks = [block for block in pipeline.blocks if block.shader == shader]
        sizes = sorted({block.size for block in blocks})
        if not sizes:
            continue
        if pipeline.size not in sizes and pipeline.size < sizes[-1]:
            text = (
                f"{shader} reads {sizes[-1]} bytes of push constants, the host announces "
                f"{pipeline.size} ({pipeline.announced})"
            )
            yield Fault("push constants", f"{shader} {pipeline.announced}", text)
    struct = structs.get(pipeline.announced.removeprefix("sizeof(").removesuffix(")"))
    if struct is None:
        return
    for block in pipeline.blocks:
        if block.size <= pipeline.size and not struct.scalars.startswith(block.scalars):
            text = (
                f"{block.shader} and {struct.name} disagree about the type of scalar "
                f"{_first_difference(block.scalars, struct.scalars)}"
            )
            yield Fault("push constants", f"{block.shader} {struct.name}", text)


def _first_difference(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))
