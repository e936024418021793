"""All signs of a patch on one upstream version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from series.model import Landed, Series
from series.pull_request import PullRequests
from validate.drift.model import FRESH, Known, Row
from validate.landing.drop_check import NOT_ASKED, Kennel, check_drop
from validate.landing.signals import (
    DROP_CHECK,
    HUNKS,
    PATCH_ID,
    Sign,
    Signals,
    find_before,
    look_up_pulls,
    read_signs,
)

GONE = "not available: no history has its file"


@dataclass(frozen=True)
class Court:
    """What judging takes: the versions at hand, ascending, up to the one in question; without a
    kennel no drop-check runs."""

    series: Series
    known: Sequence[Known]
    lookups: PullRequests
    kennel: Kennel | None = None

    @property
    def version(self) -> Known:
        return self.known[-1]

    def check(self, patch: str, before: Known | None) -> Sign:
        """The drop-check where it was asked for."""
        if self.kennel is None and self.series.claim(patch).check:
            return Sign(DROP_CHECK, None, NOT_ASKED)
        if self.kennel is None:
            return Sign(DROP_CHECK, None, "not run: the patch has no check")
        return check_drop(self.kennel, self.series, patch, self.version, before)


def judge_row(court: Court, row: Row, reference: str = "") -> Signals:
    """A patch whose file is at hand; `reference` is looked up beside those that it names."""
    record, version = row.carried.record, court.version.version
    recorded = record.version if record is not None and record.version <= version else None
    before = find_before(row, court.known, version)
    cell = row.cells[-1]
    drop = court.check(row.patch, before)
    whole = cell.standing.state in FRESH
    gone = recorded is not None and (drop.says is False or (drop.says is None and whole))
    return Signals(
        topic=row.carried.alone.topic,
        patch=row.patch,
        version=version,
        before=before.version if before else None,
        recorded=recorded,
        signs=(*read_signs(row, cell, court.version), drop),
        pulls=look_up_pulls(row, court.lookups, reference),
        needed_again=gone,
        returned=row.returned if gone else None,
    )


def judge_record(court: Court, record: Landed) -> Signals:
    """A record whose file no history has: only its check can say that upstream took it back."""
    older = [each for each in court.known if each.version < record.version]
    before = older[-1] if older else None
    drop = court.check(record.patch, before)
    return Signals(
        topic=record.topic,
        patch=record.patch,
        version=court.version.version,
        before=before.version if before else None,
        recorded=record.version,
        signs=(Sign(PATCH_ID, None, GONE), Sign(HUNKS, None, GONE), drop),
        pulls=(court.lookups.look_up(record.reference),),
        needed_again=drop.says is False,
    )


def judge_all(court: Court, rows: Sequence[Row]) -> list[Signals]:
    """Every patch, then the records that have no row."""
    found = [judge_row(court, row) for row in rows]
    named = {row.patch for row in rows}
    lost = [r for r in court.series.landed if r.patch not in named]
    return found + [judge_record(court, r) for r in lost if r.version <= court.version.version]
