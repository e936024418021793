"""The drift map for a terminal: symbols that tell without colour, then what needs a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from series.landing.model import State
from upstream.version import Version
from validate.drift.model import Cell, Drift, Row

COLUMNS = 13  # versions side by side
SHOWN = 6  # of upstream's lines
# symbol, colour, what it means
SYMBOLS: Mapping[State, tuple[str, str, str]] = {
    State.CLEAN: ("=", "green", "applies as it is"),
    State.OFFSET: ("~", "green", "applies at other lines"),
    State.MOVED: (">", "green", "applies, upstream renamed a file"),
    State.LANDED: ("L", "cyan", "upstream has it"),
    State.MODIFIED: ("M", "cyan", "upstream has it in other words"),
    State.PARTLY: ("P", "yellow", "upstream has some of its hunks"),
    State.SUPERSEDED: ("S", "yellow", "conflicts, and its drop-check passes on upstream"),
    State.LOSS: ("!", "red", "merges, but lines vanish"),
    State.CONFLICT: ("X", "red", "conflict"),
}
STATIC = "*"


def make_tables(drift: Drift) -> Iterator[Table]:
    """Patches down, versions across, as many tables as the versions need."""
    for at in range(0, len(drift.versions), COLUMNS):
        versions = drift.versions[at : at + COLUMNS]
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("patch", overflow="fold", min_width=20)
        for version in versions:
            table.add_column(str(version), justify="center", no_wrap=True)
        for row in drift.rows:
            symbols = [_symbol(row, cell) for cell in row.cells[at : at + COLUMNS]]
            table.add_row(row.patch.removesuffix(".patch"), *symbols)
        yield table


def _symbol(row: Row, cell: Cell) -> Text:
    symbol, colour, _ = SYMBOLS[cell.standing.state]
    symbol += STATIC if cell.static else ""
    base = "|" if cell.standing.version == row.carried.alone.base else ""
    return Text(f"{base}{symbol}{base}", style="red" if cell.static else colour)


def explain(drift: Drift) -> str:
    """The key, then what there is to say of each patch, then the sum."""
    lines = ["", *_key(drift)]
    for row in drift.rows:
        lines += ["", *explain_row(row)]
    lines += ["", *_sum_up(drift)]
    return "\n".join(lines)


def explain_row(row: Row) -> Iterator[str]:
    """What a maintainer wants to know of one patch."""
    base = row.carried.alone.base
    yield f"{row.patch} ({row.carried.alone.topic}, made on {base})"
    yield f"  risk of the next step {row.risk:.0%}, {_count_churn(row)} lines changed in its files"
    yield f"  patch-id: {row.patch_id}; hunks: {row.hunks_at_head}"
    record = row.carried.record
    if record is not None:
        yield f"  recorded as landed in {record.version}: {record.reference}"
    if row.landed_in is not None:
        yield f"  landed: {row.landed_in} is the first version that has it"
    if row.returned is not None:
        yield f"  upstream took it back: needed again in {row.returned}"
    if row.broke is not None:
        yield from _explain_break(row)
    for cell in row.cells:
        notes = (*cell.static, *cell.standing.warnings)
        yield from (f"  {cell.standing.version}: {note}" for note in notes)


def _explain_break(row: Row) -> Iterator[str]:
    broke = row.broke
    assert broke is not None
    after = f" (good in {broke.after})" if broke.after else ""
    yield f"  broke in {broke.version}{after}: {broke.reason}"
    if broke.commit is not None:
        found = broke.commit
        pull = f", PR #{found.pull}" if found.pull else ""
        yield f"    by {found.id[:12]} of {found.date}{pull}: {found.subject}"
    for cause in broke.causes:
        yield f"    {cause.describe()}"
        yield from (f"      {line}" for line in cause.upstream_lines[:SHOWN])
        more = len(cause.upstream_lines) - SHOWN
        yield from [f"      ... {more} more lines"] if more > 0 else []


def _key(drift: Drift) -> list[str]:
    seen = {cell.standing.state for row in drift.rows for cell in row.cells}
    words = [f"{s} {meaning}" for state, (s, _, meaning) in SYMBOLS.items() if state in seen]
    if any(cell.static for row in drift.rows for cell in row.cells):
        words.append(f"{STATIC} merges, but a constant, an id or a signature moved")
    return [*words, "|=| the version that the patch was made on"]


def _sum_up(drift: Drift) -> Iterator[str]:
    cost = drift.seconds / drift.cells * 1000
    size = f"{len(drift.rows)} patches x {len(drift.versions)} versions"
    yield f"{size} in {drift.seconds:.2f} s, {cost:.0f} ms a cell"
    yield say_newest(drift)
    if drift.unknown:
        names = ", ".join(map(str, drift.unknown))
        yield f"known, but not imported: {names} (--fetch)"
    yield say_head(drift)


def say_newest(drift: Drift) -> str:
    """The answer to --advance."""
    if drift.newest is None:
        return "no version takes all patches"
    return f"newest version where every patch applies or has landed: {drift.newest}"


def say_head(drift: Drift) -> str:
    """Whether the newest version is red, and with what."""
    red = drift.red
    if not red:
        return f"{drift.head}: every patch applies or has landed"
    return f"{drift.head}: red: {', '.join(row.patch for row in red)}"


def _count_churn(row: Row) -> str:
    after = _after_base(row)
    return f"{sum(after):,}" if after else "0"


def _after_base(row: Row) -> Sequence[int]:
    base: Version = row.carried.alone.base
    pairs = zip(row.cells, row.churn, strict=True)
    return [lines for cell, lines in pairs if cell.standing.version > base]
