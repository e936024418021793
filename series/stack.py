"""From patch files to commits, and the refs that remember a stack.

A stack is three refs that move together: `base`, `tip` and `record` (a JSON blob that says which
commit is which patch). Objects are made first; refs move once, at the end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from series.mail import Mail, blames_input, read_mail
from series.manifest import digest_series
from series.model import Series, Stack, Step
from upstream.errors import CommandError, UsageError
from upstream.git import NULL_ID, Git, RefMove
from upstream.lab import Lab
from upstream.version import Version, parse_version

PARTS = ("base", "tip", "record")
STALE_SECONDS = 10.0


@contextmanager
def scratch_folder(lab: Lab) -> Iterator[Path]:
    """A folder for the files of one command."""
    with TemporaryDirectory(dir=lab.scratch, prefix="series-") as folder:
        yield Path(folder)


def read_patches(git: Git, series: Series, scratch: Path) -> list[tuple[str, Mail]]:
    """All mails of a series with their topics, in order; every one is checked first."""
    return [
        (topic.name, read_mail(git, series.directory / "patches" / patch, scratch))
        for topic, patch in series.order()
    ]


def apply_series(git: Git, series: Series, version: Version, commit: str, scratch: Path) -> Stack:
    """Apply all patches strictly, as `git am` would, without a working tree.

    Raises UsageError naming the first patch that does not apply and why.
    """
    parent, tree = commit, git.tree_of(commit)
    steps: list[Step] = []
    for topic, mail in read_patches(git, series, scratch):
        tree = _apply(git, mail, tree, version, scratch)
        parent = git.write_commit(tree, (parent,), mail.author, mail.message)
        steps.append(Step(topic, mail.path.name, parent, tree))
    return Stack(version, commit, git.tree_of(commit), tuple(steps))


def _apply(git: Git, mail: Mail, tree: str, version: Version, scratch: Path) -> str:
    try:
        new = git.edit_tree(tree, (), scratch, mail.diff)
    except CommandError as error:
        if not blames_input(error):
            raise
        raise UsageError(
            f"{mail.path} does not apply to {version}:\n{_indent(error.failure.stderr_tail)}",
            remedy="name the version it was made on as 'base' in series.toml, or mend the patch",
        ) from error
    if new == tree:
        raise UsageError(
            f"{mail.path} changes nothing on {version}",
            remedy="record it as [[landed]] or remove it from series.toml",
        )
    return new


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines())


def clear_ref_locks(git: Git, series: Series) -> None:
    """Remove git's locks on our refs that a machine left when it went down; for the holder of the
    series' lock. A young one may be of a git that outlived its killed parent."""
    clear_locks(git, (refs_of(series), _backups_of(series)))


def clear_locks(git: Git, prefixes: Sequence[str]) -> None:
    """Remove git's locks on refs below these prefixes that nobody can hold any more."""
    for prefix in prefixes:
        for path in (git.directory / prefix).rglob("*.lock"):
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink(missing_ok=True)


def refs_of(series: Series) -> str:
    """The prefix of a series' refs."""
    return f"refs/series/{series.id}"


def load_stack(git: Git, series: Series) -> Stack | None:
    """The recorded stack of a series, or None when there is none or the files changed since."""
    blob = git.read_blob(f"{refs_of(series)}/record")
    if blob is None:
        return None
    record = json.loads(blob)
    if record["digest"] != digest_series(series):
        return None
    steps = tuple(Step(**step) for step in record["steps"])
    return Stack(parse_version(record["version"]), record["commit"], record["tree"], steps)


def save_stack(git: Git, series: Series, stack: Stack) -> str | None:
    """Move the stack's refs in one transaction; returns the dated backup's prefix, if any."""
    record = json.dumps(_record(series, stack), indent=1).encode()
    new = {"base": stack.commit, "tip": stack.tip, "record": git.write_blob(record)}
    prefix = refs_of(series)
    old = git.list_refs(prefix)
    if old == {f"{prefix}/{part}": new[part] for part in PARTS}:
        return None
    backup = name_backup(git, _backups_of(series))
    moves = [RefMove(f"{prefix}/{p}", new[p], old.get(f"{prefix}/{p}", NULL_ID)) for p in PARTS]
    moves += [RefMove(ref.replace(prefix, backup), commit, NULL_ID) for ref, commit in old.items()]
    git.move_refs(moves)
    return backup if old else None


def name_backup(git: Git, folder: str) -> str:
    """A dated prefix below `folder`/ that holds nothing yet: two runs in one second keep both
    backups."""
    stamp = f"{folder}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    taken = {ref.rsplit("/", 1)[0] for ref in git.list_refs(folder)}
    numbered = (f"{stamp}-{number}" for number in count(2))
    return next(name for name in (stamp, *islice(numbered, len(taken) + 1)) if name not in taken)


def _backups_of(series: Series) -> str:
    return f"refs/backup/{series.id}/"


def restore_stack(git: Git, series: Series, backup: str) -> str:
    """Bring a backup's refs back, in one transaction; the name of the present ones' backup."""
    prefix, aside = refs_of(series), name_backup(git, _backups_of(series))
    kept = git.list_refs(_backups_of(series))
    if not {f"{backup}/{part}" for part in PARTS} <= kept.keys():
        known = sorted({ref.rsplit("/", 1)[0] for ref in kept})
        raise UsageError(
            f"there is no backup {backup} of this series",
            remedy=f"name one of: {', '.join(known) or '(there is none yet)'}",
        )
    now = git.list_refs(prefix)
    moves = [RefMove(f"{prefix}/{part}", kept[f"{backup}/{part}"]) for part in PARTS]
    moves += [RefMove(ref.replace(prefix, aside), commit, NULL_ID) for ref, commit in now.items()]
    git.move_refs(moves)
    return aside


def _record(series: Series, stack: Stack) -> dict[str, object]:
    return {
        "digest": digest_series(series),
        "version": str(stack.version),
        "commit": stack.commit,
        "tree": stack.tree,
        "steps": [vars(step) for step in stack.steps],
    }
