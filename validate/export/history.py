"""The rounds of every exported topic, and the one transaction that moves the refs.

refs/heads/pr/TOPIC                     the branch
refs/exports/SERIES/TOPIC/vN            its round N
refs/exports/SERIES/TOPIC/record        JSON: upstream version, base and tip of each round
refs/backup/SERIES-exports/DATE/TOPIC   where a branch stood before it moved
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from series.model import Series
from series.stack import clear_locks, name_backup
from series.topic_stack import TopicStack
from upstream.git import NULL_ID, Git, RefMove
from upstream.version import parse_version
from validate.export.model import BRANCHES, Exported, History, Round


def read_history(git: Git, series: Series, alone: TopicStack) -> History:
    """The topic's rounds with the present one; the same commit as last time is no new round."""
    known = _read_rounds(git, series, alone.topic.name)
    stack = alone.stack
    now = Round(len(known) + 1, stack.version, stack.commit, stack.tip)
    is_new = not known or (known[-1].base, known[-1].tip) != (now.base, now.tip)
    rounds = (*known, now) if is_new else known
    return History(rounds, is_new, _compare(git, rounds))


def move_branches(git: Git, series: Series, exported: Sequence[Exported]) -> str | None:
    """Move branches, rounds and records together; the prefix of the backup, if any was needed."""
    clear_locks(git, (_exports_of(series), _backups_of(series), BRANCHES.rstrip("/")))
    standing = git.list_refs(BRANCHES)
    moves: list[RefMove] = []
    aside: dict[str, str] = {}
    for each in exported:
        branch, tip = BRANCHES + each.name, each.history.now.tip
        old = standing.get(branch)
        if old != tip:
            moves.append(RefMove(branch, tip, old or NULL_ID))
        if old not in (None, tip):
            aside[each.name] = str(old)
        moves += _move_round(git, series, each) if each.history.is_new else []
    backup = name_backup(git, _backups_of(series)) if aside else None
    moves += [RefMove(f"{backup}/{name}", commit, NULL_ID) for name, commit in aside.items()]
    if moves:
        git.move_refs(moves)
    return backup


def _move_round(git: Git, series: Series, each: Exported) -> list[RefMove]:
    prefix, now = f"{_exports_of(series)}/{each.name}", each.history.now
    record = [vars(one) | {"upstream": str(one.upstream)} for one in each.history.rounds]
    blob = git.write_blob(json.dumps(record, indent=1).encode())
    before = git.resolve(f"{prefix}/record") or NULL_ID
    return [
        RefMove(f"{prefix}/{now.name}", now.tip, NULL_ID),
        RefMove(f"{prefix}/record", blob, before),
    ]


def _read_rounds(git: Git, series: Series, topic: str) -> tuple[Round, ...]:
    blob = git.read_blob(f"{_exports_of(series)}/{topic}/record")
    return tuple(
        Round(one["number"], parse_version(one["upstream"]), one["base"], one["tip"])
        for one in json.loads(blob or b"[]")
    )


def _compare(git: Git, rounds: Sequence[Round]) -> str:
    if len(rounds) < 2:
        return ""
    (old, new) = ((one.base, one.tip) for one in rounds[-2:])
    return git.range_diff(old, new)


def _exports_of(series: Series) -> str:
    return f"refs/exports/{series.id}"


def _backups_of(series: Series) -> str:
    return f"refs/backup/{series.id}-exports/"
