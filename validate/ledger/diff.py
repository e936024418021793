"""What changed between two trees, and whether a merge without conflict may have hidden it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from validate.ledger.enums import RPC_VERSIONS
from validate.ledger.model import (
    Change,
    Constant,
    Enumeration,
    HostSequence,
    Ledger,
    Pipeline,
    Severity,
    Support,
)

COUNT = "_COUNT"
NAMED = 8


def compare_ledgers(before: Ledger, after: Ledger) -> tuple[Change, ...]:
    """Every difference of facts, red ones first.

    Red is what breaks files, wires or shaders of whoever relied on the old row: an id or a
    constant that moved or went, a push order that changed, an op that is no longer supported,
    a source that can no longer be read. What is new, or changed on both sides alike, is info.
    """
    found = [
        *_compare_enums(before, after),
        *_compare_numbers(before, after),
        *_compare_constants(before, after),
        *_compare_sequences(before, after),
        *_compare_structs(before, after),
        *_compare_pipelines(before, after),
        *_compare_supports(before, after),
        *_compare_unread(before, after),
    ]
    return tuple(sorted(found, key=lambda change: change.severity != "red"))


# -- ids ------------------------------------------------------------------------------------------


def _compare_enums(before: Ledger, after: Ledger) -> Iterator[Change]:
    new = {each.name: each for each in after.enums}
    same_wire = _rpc_version(before) == _rpc_version(after)
    for old in before.enums:
        if old.name not in new:
            yield Change("red", old.name, old.name, f"{old.name} is gone from {old.source}")
            continue
        wire = old.name == "ggml_op"
        # ids of ops travel over RPC only, and the version says that they moved
        moved: Severity = "info" if wire and not same_wire else "red"
        yield from _compare_enum(old, new[old.name], moved)


def _rpc_version(ledger: Ledger) -> tuple[int, ...]:
    return tuple(number.value for number in ledger.numbers if number.name in RPC_VERSIONS)


def _compare_enum(old: Enumeration, new: Enumeration, moved: Severity) -> Iterator[Change]:
    left, right = old.table, new.table
    for name, value in left.items():
        if name not in right:
            yield Change(moved, old.name, name, f"{name} ({value}) is gone from {old.name}")
        elif right[name] != value:
            severity: Severity = "info" if name.endswith(COUNT) else moved
            text = f"{name} of {old.name} was {value}, is {right[name]}"
            yield Change(severity, old.name, name, text)
    for name, value in right.items():
        if name not in left:
            yield Change("info", old.name, name, f"{name} = {value} is new in {old.name}")


def _compare_numbers(before: Ledger, after: Ledger) -> Iterator[Change]:
    new = {(each.name, each.source): each.value for each in after.numbers}
    for old in before.numbers:
        value = new.get((old.name, old.source))
        if value is None:
            text = f"{old.name} is gone from {old.source}"
            yield Change("red", "number", old.name, text)
        elif value != old.value:
            text = f"{old.name} in {old.source} was {old.value}, is {value}"
            yield Change("info", "number", old.name, text)
    yield from _compare_wire(before, after)


def _compare_wire(before: Ledger, after: Ledger) -> Iterator[Change]:
    left, right = (each.enum("ggml_op").table.get("GGML_OP_COUNT") for each in (before, after))
    if left != right and _rpc_version(before) == _rpc_version(after):
        text = f"GGML_OP_COUNT was {left}, is {right}, and no RPC_PROTO version changed"
        yield Change("red", "number", "RPC_PROTO_PATCH_VERSION", text)


# -- specialization constants ---------------------------------------------------------------------


def _compare_constants(before: Ledger, after: Ledger) -> Iterator[Change]:
    old, new = _rows(before), _rows(after)
    for name in sorted(old.keys() | new.keys()):
        left, right = old.get(name, ()), new.get(name, ())
        if left == right:
            continue
        kept = set(left) <= set(right)
        text = f"constant {_say_rows(name, left)}, now {_say_rows('', right)}"
        yield Change("info" if kept else "red", "constant", name, text)


def _rows(ledger: Ledger) -> dict[str, tuple[str, ...]]:
    """Constants by source and name; a source has one row for each condition."""
    found: dict[str, tuple[str, ...]] = {}
    for each in ledger.constants:
        name = f"{each.source} {each.name}"
        found[name] = tuple(sorted((*found.get(name, ()), describe_constant(each))))
    return found


def _say_rows(name: str, rows: tuple[str, ...]) -> str:
    return f"{name} {' | '.join(rows) or 'absent'}".strip()


def describe_constant(constant: Constant) -> str:
    """The row in a line: `12 uint = 4 [defined(COOPMAT)]`."""
    condition = f" [{constant.condition}]" if constant.condition else ""
    default = f" = {constant.default}" if constant.default else ""
    return f"{constant.id} {constant.type}{default}{condition}"


def _compare_sequences(before: Ledger, after: Ledger) -> Iterator[Change]:
    new = {each.function: each for each in after.sequences}
    for old in before.sequences:
        if old.function not in new:
            text = f"{old.function} no longer pushes constants"
            yield Change("red", "push", old.function, text)
        elif new[old.function] != old:
            yield from _compare_sequence(old, new[old.function])
    for name in sorted(new.keys() - {each.function for each in before.sequences}):
        yield Change("info", "push", name, f"{name} pushes constants: {describe_push(new[name])}")


def _compare_sequence(old: HostSequence, new: HostSequence) -> Iterator[Change]:
    order = [push.name for push in old.pushes]
    kept = [push.name for push in new.pushes][: len(order)]
    values = [push.value for push in old.pushes], [push.value for push in new.pushes]
    swapped = values[0] != values[1] and Counter(values[0]) == Counter(values[1])
    moved = order != kept or old.base != new.base or swapped
    text = f"{old.function} pushed {describe_push(old)}, pushes {describe_push(new)}"
    yield Change("red" if moved else "info", "push", old.function, text)


def describe_push(sequence: HostSequence) -> str:
    """The row in a line: `11 ALIGNED <- aligned?1u:0u, ...`."""
    ids = (str(push.id) if push.id >= 0 else "?" for push in sequence.pushes)
    return ", ".join(
        f"{id_} {push.name} <- {push.value}" for id_, push in zip(ids, sequence.pushes, strict=True)
    )


# -- push constants -------------------------------------------------------------------------------


def _compare_structs(before: Ledger, after: Ledger) -> Iterator[Change]:
    """Sizes of both sides; whether the sides still agree is a matter of find_faults."""
    new = {each.name: each for each in after.structs}
    for old in before.structs:
        now = new.get(old.name)
        if now is None:
            yield Change("info", "struct", old.name, f"struct {old.name} is gone")
        elif (now.size, now.names) != (old.size, old.names):
            text = f"struct {old.name} had {old.size} bytes, has {now.size}"
            yield Change("info", "struct", old.name, text)
    for name in sorted(new.keys() - {each.name for each in before.structs}):
        yield Change("info", "struct", name, f"struct {name} is new ({new[name].size} bytes)")


def _compare_pipelines(before: Ledger, after: Ledger) -> Iterator[Change]:
    old, new = _by_spirv(before), _by_spirv(after)
    gone, added = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    if gone:
        yield Change("info", "pipeline", gone[0], f"pipelines gone: {_name_some(gone)}")
    if added:
        yield Change("info", "pipeline", added[0], f"pipelines new: {_name_some(added)}")
    for name in sorted(old.keys() & new.keys()):
        if _surplus(new[name]) > _surplus(old[name]):
            text = (
                f"the host passes {new[name].constants} constants for {name}, "
                f"its shader has ids up to {new[name].capacity - 1}"
            )
            yield Change("red", "pipeline", name, text)


def _name_some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _by_spirv(ledger: Ledger) -> dict[str, Pipeline]:
    return {each.spirv: each for each in ledger.pipelines}


def _surplus(pipeline: Pipeline) -> int:
    return max(0, pipeline.constants - pipeline.capacity)


# -- ops ------------------------------------------------------------------------------------------


def _compare_supports(before: Ledger, after: Ledger) -> Iterator[Change]:
    new = {(each.backend, each.op): each for each in after.supports}
    for old in before.supports:
        now = new.get((old.backend, old.op))
        name = f"{old.backend} {old.op}"
        if now is None:
            text = f"supports_op of {old.backend} has no case {old.op} any more"
            yield Change("red", "supports_op", name, text)
        elif now != old:
            yield from _compare_support(name, old, now)
    known = {(each.backend, each.op) for each in before.supports}
    for backend, op in (place for place in new if place not in known):
        text = f"supports_op of {backend} has the new case {op}"
        yield Change("info", "supports_op", f"{backend} {op}", text)


def _compare_support(name: str, old: Support, new: Support) -> Iterator[Change]:
    lost = Counter(old.inner) - Counter(new.inner)
    won = Counter(new.inner) - Counter(old.inner)
    for case in sorted(lost):
        text = f"supports_op of {old.backend}: {old.op} has lost its case {case}"
        yield Change("red", "supports_op", name, text)
    if won:
        text = f"supports_op of {old.backend}: {old.op} has the new cases {', '.join(sorted(won))}"
        yield Change("info", "supports_op", name, text)
    if not lost and not won:
        text = f"supports_op of {old.backend}: the conditions of {old.op} changed"
        yield Change("info", "supports_op", name, text)


def _compare_unread(before: Ledger, after: Ledger) -> Iterator[Change]:
    for text in after.unread:
        if text not in before.unread:
            yield Change("red", "unread", text, f"cannot be read any more: {text}")
