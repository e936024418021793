"""A landed patch whose file the series no longer has: read back from the history of its checkout.

Only reads; a series directory outside of any git checkout has no history.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

from series.landing.alone import Alone, isolate_series
from series.model import Landed, Series, Topic
from upstream.errors import CommandError, UsageError
from upstream.git import Git, open_worktree
from upstream.version import parse_version


def recall_landed(git: Git, series: Series, record: Landed, scratch: Path) -> Alone | None:
    """The patch of a record as it was last in the series; None where no history has it.

    `git` is the lab's repository: the base that the patch was made on must be in it.
    """
    found = _read_last(series.directory.resolve(), record.patch)
    if found is None:
        return None
    mail, manifest = found
    base = parse_version(str(tomllib.loads(manifest.decode())["base"]))
    commit = git.resolve(base.ref)
    if commit is None:
        return None
    folder = scratch / "recalled" / record.patch
    (folder / "patches").mkdir(parents=True, exist_ok=True)
    (folder / "patches" / record.patch).write_bytes(mail)
    topic = Topic(record.topic, record.topic, (), (record.patch,))
    old = replace(series, directory=folder, base=base, topics=(topic,))
    try:
        return isolate_series(git, old, commit, scratch)[0]
    except UsageError:  # it stood on patches that are gone with it
        return None


def _read_last(directory: Path, patch: str) -> tuple[bytes, bytes] | None:
    """The file and the series.toml beside it, from the commit before the one that removed it."""
    top = next((p for p in (directory, *directory.parents) if (p / ".git").exists()), None)
    if top is None:
        return None
    own = open_worktree(top) or Git(top / ".git")
    below = directory.relative_to(top).as_posix()
    try:
        removed = own.text("log", "-1", "--diff-filter=D", "--format=%H", "--",
                           f":(top,literal){below}/patches/{patch}")  # fmt: skip
    except CommandError:
        return None
    if not removed:
        return None
    mail = own.read_blob(f"{removed}^:{below}/patches/{patch}")
    manifest = own.read_blob(f"{removed}^:{below}/series.toml")
    return (mail, manifest) if mail and manifest else None
