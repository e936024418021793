"""The signs that upstream has a patch. Values, and those that need only text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from series.landing.model import Fate
from series.pull_request import Answer, PullRequests, list_references
from upstream.version import Version
from validate.drift.model import NO_COMMITS, Cell, Known, Row

NEEDED = 2  # signs that must agree before a record is written without a reason


@dataclass(frozen=True)
class Sign:
    """One sign in words; `says` is whether upstream has the patch, None: it says nothing."""

    name: str
    says: bool | None
    detail: str

    @property
    def word(self) -> str:
        return {True: "yes", False: "no", None: "-"}[self.says]


@dataclass(frozen=True)
class Signals:
    """A patch on one version: its three signs, what upstream says about its pull requests.

    `before` is the version before the landing, where the drop-check must fail (None: there is none
    at hand). `needed_again`: a record says that it landed, and on this version it is missing;
    `returned` is the version that took it out, where known.
    """

    topic: str
    patch: str
    version: Version
    before: Version | None
    recorded: Version | None
    signs: tuple[Sign, ...]
    pulls: tuple[Answer, ...]
    needed_again: bool = False
    returned: Version | None = None

    @property
    def agreeing(self) -> tuple[Sign, ...]:
        """The signs that say that upstream has it."""
        return tuple(sign for sign in self.signs if sign.says)

    @property
    def enough(self) -> bool:
        """Whether two signs agree and the patch's own check does not contradict them."""
        refuted = any(s.name == DROP_CHECK and s.says is False for s in self.signs)
        return len(self.agreeing) >= NEEDED and not refuted


PATCH_ID, HUNKS, DROP_CHECK = "patch-id", "hunks", "drop-check"


def read_signs(row: Row, cell: Cell, version: Known) -> tuple[Sign, Sign]:
    """Patch-id and hunks of one patch on one version."""
    return _read_patch_id(row, cell, version), _read_hunks(cell)


def _read_patch_id(row: Row, cell: Cell, version: Known) -> Sign:
    if row.patch_id == NO_COMMITS:
        base = row.carried.alone.base
        none = f"no commits of upstream are at hand between {base} and {version.version}"
        return Sign(PATCH_ID, None, none if version.true_commit else NO_COMMITS)
    if cell.standing.same_patch_id:
        return Sign(PATCH_ID, True, row.patch_id)
    return Sign(PATCH_ID, False, row.patch_id)


def _read_hunks(cell: Cell) -> Sign:
    fates = cell.standing.hunks
    if not fates:
        return Sign(HUNKS, None, "it has no hunks of text")
    counts = Counter(fate.fate for fate in fates)
    parts = [f"{counts[fate]} {fate.value}" for fate in Fate if counts[fate]]
    left = [f"{f.path} hunk {f.number}" for f in fates if f.fate is Fate.LEFT]
    some = f" ({', '.join(left)})" if left and len(left) < len(fates) else ""
    return Sign(HUNKS, not left, f"{', '.join(parts)} of {len(fates)}{some}")


def find_before(row: Row, known: Sequence[Known], version: Version) -> Known | None:
    """The version before the landing: before the record's, else before the first with the whole
    patch, else the patch's base; the newest older one where that is not older than `version`."""
    record = row.carried.record
    limit = record.version if record and record.version <= version else row.landed_in
    if limit is None or limit > version:
        base = row.carried.alone.base
        limit = version
        if base < version:
            return next((each for each in known if each.version == base), None)
    older = [each for each in known if each.version < limit]
    return older[-1] if older else None


def look_up_pulls(row: Row, lookups: PullRequests, also: str) -> tuple[Answer, ...]:
    """What upstream says about every pull request that the patch, its record or `also` names."""
    texts = list_references(row.carried.alone.commit.message, row.carried.record)
    texts = tuple(dict.fromkeys((*texts, *filter(None, (also.strip(),)))))
    return tuple(lookups.look_up(text) for text in texts)
