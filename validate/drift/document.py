"""The drift map as one JSON document: docs/how-to/read-the-drift-map.md."""

from __future__ import annotations

from typing import Any

from series.landing.model import HunkFate
from validate.drift.model import Break, Cell, Drift, Row

Document = dict[str, Any]


def drift_document(drift: Drift) -> Document:
    """All of the map; versions and enumerations as words."""
    return {
        "head": str(drift.head),
        "provider": drift.provider,
        "versions": [str(version) for version in drift.versions],
        "not_imported": [str(version) for version in drift.unknown],
        "newest": str(drift.newest) if drift.newest else None,
        "red": [row.patch for row in drift.red],
        "cells": drift.cells,
        "seconds": round(drift.seconds, 3),
        "seconds_per_cell": round(drift.seconds / drift.cells, 4),
        "patches": [_row(row) for row in drift.rows],
    }


def _row(row: Row) -> Document:
    record = row.carried.record
    return {
        "series": str(row.carried.series.directory),
        "topic": row.carried.alone.topic,
        "patch": row.patch,
        "base": str(row.carried.alone.base),
        "red": row.red_at_head,
        "broke": _break(row.broke) if row.broke else None,
        "landed": str(row.landed_in) if row.landed_in else None,
        "recorded": str(record.version) if record else None,
        "returned": str(row.returned) if row.returned else None,
        "patch_id": row.patch_id,
        "hunks": row.hunks_at_head,
        "risk": row.risk,
        "churn": list(row.churn),
        "cells": [_cell(cell) for cell in row.cells],
    }


def _cell(cell: Cell) -> Document:
    standing = cell.standing
    return {
        "version": str(standing.version),
        "state": standing.state.value,
        "red": cell.red,
        "detail": standing.detail,
        "resolution": standing.resolution or None,
        "same_patch_id": standing.same_patch_id or None,
        "static": list(cell.static),
        "warnings": list(standing.warnings),
        "hunks": [_hunk(fate) for fate in standing.hunks],
    }


def _hunk(fate: HunkFate) -> Document:
    return {**vars(fate), "fate": fate.fate.value, "share": round(fate.share, 3)}


def _break(broke: Break) -> Document:
    return {
        "version": str(broke.version),
        "after": str(broke.after) if broke.after else None,
        "reason": broke.reason,
        "commit": vars(broke.commit) if broke.commit else None,
        "causes": [{"path": c.path, "lines": list(c.upstream_lines)} for c in broke.causes],
    }
