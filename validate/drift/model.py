"""The drift map. Values only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from series.cause import Cause
from series.landing.alone import Alone
from series.landing.model import Fate, Standing, State
from series.model import Landed, Series
from upstream.version import Version

FRESH = (State.CLEAN, State.OFFSET, State.MOVED)  # the whole effect is still missing
NO_COMMITS = "not available: snapshots"


@dataclass(frozen=True)
class Known:
    """An upstream version in the lab; `true_commit`: the commit is upstream's own."""

    version: Version
    commit: str
    tree: str
    true_commit: bool


@dataclass(frozen=True)
class Carried:
    """A patch that the map follows: its series, the patch alone, the record that it landed."""

    series: Series
    alone: Alone
    record: Landed | None = None


@dataclass(frozen=True)
class Cell:
    """A patch on a version: how the text stands, and what is red below a clean merge."""

    standing: Standing
    static: tuple[str, ...] = ()

    @property
    def red(self) -> bool:
        """Whether the patch cannot go onto this version as it is."""
        return bool(self.static) or not (self.standing.applies or self.standing.landed)


@dataclass(frozen=True)
class Commit:
    """The upstream commit that broke a patch; `pull` is the number in its title, 0 for none."""

    id: str
    date: str
    subject: str
    pull: int


@dataclass(frozen=True)
class Break:
    """The first version after a patch's base where it is red, and what upstream changed there.

    `reason` is the cell's; `commit` is known with the git remote only.
    """

    version: Version
    after: Version | None
    reason: str
    causes: tuple[Cause, ...]
    commit: Commit | None = None


@dataclass(frozen=True)
class Row:
    """One patch over all versions. `churn[n]`: lines added and removed in its files from version
    n-1 to n. `risk`: chance that the next step hits a hunk, 0 to 1 (estimate). `returned`: the
    version where a patch that had landed is needed again. `patch_id` is that signal in words."""

    carried: Carried
    cells: tuple[Cell, ...]
    churn: tuple[int, ...]
    risk: float
    broke: Break | None = None
    returned: Version | None = None
    patch_id: str = NO_COMMITS

    @property
    def patch(self) -> str:
        return self.carried.alone.patch

    @property
    def hunks_at_head(self) -> str:
        """The signal of the hunks in words, whatever a record says."""
        kinds = Counter(hunk.fate for hunk in self.cells[-1].standing.hunks)
        counted = [f"{kinds[fate]} {fate.value}" for fate in (Fate.EXACT, Fate.MODIFIED, Fate.LEFT)]
        return f"{', '.join(counted)} on {self.cells[-1].standing.version}"

    @property
    def landed_in(self) -> Version | None:
        """The first version that has the whole patch."""
        found = (c.standing.version for c in self.cells if c.standing.landed)
        return next((v for v in found if v > self.carried.alone.base), None)

    @property
    def red_at_head(self) -> bool:
        """Whether a person has to do something before this patch is on HEAD."""
        return self.cells[-1].red or self.needed_again

    @property
    def needed_again(self) -> bool:
        """A record says that it landed, and on HEAD it applies with its full effect."""
        last = self.cells[-1].standing
        record = self.carried.record
        return record is not None and record.version <= last.version and last.state in FRESH


@dataclass(frozen=True)
class Drift:
    """The whole map; `seconds` is what working it out took, `unknown` the versions that are known
    but not imported."""

    versions: tuple[Version, ...]
    rows: tuple[Row, ...]
    seconds: float
    provider: str
    unknown: tuple[Version, ...] = ()

    @property
    def head(self) -> Version:
        return self.versions[-1]

    @property
    def cells(self) -> int:
        return len(self.versions) * len(self.rows)

    @property
    def red(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.red_at_head)

    @property
    def newest(self) -> Version | None:
        """The newest version where every patch applies or has landed."""
        columns = zip(self.versions, *(row.cells for row in self.rows), strict=True)
        good = [version for version, *cells in columns if not any(cell.red for cell in cells)]
        return good[-1] if good else None
