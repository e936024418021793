"""Working out the drift map: versions side by side in threads, patches one after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from series.decisions import load_acknowledged
from series.landing.classify import classify_patches
from series.landing.ground import Ground
from series.landing.model import Standing, State
from series.resolutions import load_resolutions
from upstream.git import Git
from upstream.version import Version
from validate.drift.breaks import find_break, find_patch_id
from validate.drift.churn import Churn, measure_churn
from validate.drift.model import FRESH, NO_COMMITS, Carried, Cell, Drift, Known, Row
from validate.drift.static import StaticBook


def survey(
    git: Git,
    carried: Sequence[Carried],
    known: Sequence[Known],
    static: StaticBook | None = None,
    *,
    provider: str = "",
    unknown: Sequence[Version] = (),
) -> Drift:
    """The map of all patches on all versions (ascending, at least one of each).

    `static` checks what text does not show; None leaves that out.
    """
    started = time.monotonic()
    judge = _judge_column(git, carried, static)
    with ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 1)) as pool:
        churn = pool.submit(measure_churn, git, carried, known)
        columns = list(pool.map(judge, known))
        rows = pool.map(
            lambda n: _make_row(git, carried[n], [c[n] for c in columns], known, churn.result()),
            range(len(carried)),
        )
        made = tuple(rows)
    seconds = time.monotonic() - started
    versions = tuple(each.version for each in known)
    return Drift(versions, made, seconds, provider, tuple(unknown))


def _judge_column(
    git: Git, carried: Sequence[Carried], static: StaticBook | None
) -> Callable[[Known], list[Cell]]:
    accepted = {
        (entry.patch, entry.loss): entry
        for folder in dict.fromkeys(each.series.directory for each in carried)
        for entry in load_acknowledged(folder)
    }
    memory = _load_memory(carried)
    alone = [each.alone for each in carried]

    def judge(version: Known) -> list[Cell]:
        ground = Ground(git, version.version, version.tree)
        found = classify_patches(alone, ground, accepted)
        standings = [_explain(s, c, memory) for s, c in zip(found, carried, strict=True)]
        return [
            Cell(s, static.judge(c, version.tree) if static and s.applies else ())
            for s, c in zip(standings, carried, strict=True)
        ]

    return judge


def _load_memory(carried: Sequence[Carried]) -> Mapping[tuple[str, str], str]:
    folders = list(dict.fromkeys(each.series.directory for each in carried))
    return {key: found.file_name for key, found in load_resolutions(folders).items()}


def _explain(
    standing: Standing, carried: Carried, memory: Mapping[tuple[str, str], str]
) -> Standing:
    """Add what the series knows: a record that it landed, a stored resolution."""
    record = carried.record
    if record is not None and record.version <= standing.version:
        if standing.state in FRESH:
            note = f"recorded as landed in {record.version}, but applies whole: needed again"
            return replace(standing, detail=_join(note, standing.detail))
        if not standing.landed:
            note = f"recorded: {record.reference} in {record.version}"
            return replace(standing, state=State.LANDED, detail=_join(note, standing.detail))
    file = memory.get((standing.patch, standing.key), "") if standing.key else ""
    if not file:
        return standing
    note = f"resolutions/{file} is stored for this conflict"
    return replace(standing, resolution=file, detail=_join(standing.detail, note))


def _make_row(
    git: Git, carried: Carried, cells: Sequence[Cell], known: Sequence[Known], churn: Churn
) -> Row:
    broke = find_break(git, carried, cells, known)
    signal, commit = find_patch_id(git, carried, known)
    if commit:
        cells = [_mark_id(git, cell, commit, each) for cell, each in zip(cells, known, strict=True)]
    lines, risk = churn.of(carried.alone)
    returned = find_return(carried, cells)
    return Row(carried, tuple(cells), lines, risk, broke, returned, signal or NO_COMMITS)


def _mark_id(git: Git, cell: Cell, commit: str, known: Known) -> Cell:
    if not known.true_commit:
        return cell
    done = git.run("merge-base", "--is-ancestor", commit, known.commit, ok=(0, 1))
    if done.code != 0:
        return cell
    return replace(cell, standing=replace(cell.standing, same_patch_id=commit))


def find_return(carried: Carried, cells: Sequence[Cell]) -> Version | None:
    """The version where upstream no longer has a patch that it had before: it was reverted."""
    had = False
    for cell in cells:
        standing = cell.standing
        if standing.version <= carried.alone.base:
            continue
        if had and standing.state in FRESH:
            return standing.version
        had = had or standing.landed
    return None


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
