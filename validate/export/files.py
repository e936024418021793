"""The folder of an exported topic, written all of it or not at all.

PR.md          upstream's template, for a person; once edited it is never written again
EVIDENCE.md    what was measured
policy.txt     every finding of the policy gate, and what is missing for READY
range-diff.txt against the round before
patches/       one mail a patch, and `series`, their order
TOPIC.bundle   the branch for another machine
export.json    what this is, written last: round, commits, hashes of the files
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from series.decisions import write_file
from series.mail import write_mail
from upstream.git import Git
from validate.export.evidence import write_evidence
from validate.export.model import BRANCHES, Exported, Files
from validate.export.report import format_policy
from validate.export.template import write_template

DRAFT = "PR.md"
INDEX = "export.json"
STAGED = ".staged"


def make_files(git: Git, exported: Exported, output: Path, scratch: Path) -> Files:
    """Everything that belongs into the topic's folder."""
    folder, stack, now = output / exported.name, exported.alone.stack, exported.history.now
    messages = [commit.message for commit in git.read_commits([s.commit for s in stack.steps])]
    own = messages[len(messages) - len(exported.alone.own) :]
    content = {
        DRAFT: write_template(git, now.upstream, now.base, own).encode("utf-8", "surrogateescape"),
        "EVIDENCE.md": write_evidence(exported, own).encode("utf-8", "surrogateescape"),
        "policy.txt": format_policy(exported).encode("utf-8", "surrogateescape"),
        "patches/series": "".join(f"{step.patch}\n" for step in stack.steps).encode(),
    }
    if exported.history.range_diff:
        text = f"{exported.history.range_diff}\n"
        content["range-diff.txt"] = text.encode("utf-8", "surrogateescape")
    content |= _keep_or_make(git, exported, folder, scratch)
    content[INDEX] = _describe(exported, content)
    known = _read_index(folder).get("files", {})
    return Files(folder, content, tuple(name for name in known if name not in content))


def stage_files(output: Path, found: Sequence[Files]) -> None:
    """Write what is new beside the folders, flushed to disk: a full disk shows here, where nothing
    was moved yet."""
    staged = output / STAGED
    shutil.rmtree(staged, ignore_errors=True)
    try:
        for files in found:
            for name in _list_changed(files):
                write_file(staged / files.folder.name / name, files.content[name])
    except OSError:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def install_files(output: Path, found: Sequence[Files]) -> bool:
    """Move the staged files in, each by one rename, the index last; True when any was moved."""
    staged, moved = output / STAGED, False
    for files in found:
        changed = _list_changed(files)
        for name in sorted(changed, key=lambda each: each == INDEX):
            target = files.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            (staged / files.folder.name / name).replace(target)
            moved = True
        for name in files.stale:
            (files.folder / name).unlink(missing_ok=True)
    shutil.rmtree(staged, ignore_errors=True)
    return moved


def _keep_or_make(git: Git, exported: Exported, folder: Path, scratch: Path) -> dict[str, bytes]:
    """Mails and bundle: those of the same commits are there already, unless somebody changed them.

    A pack of the same commits need not have the same bytes when objects were packed meanwhile.
    """
    names = [f"patches/{step.patch}" for step in exported.alone.stack.steps]
    names.append(f"{exported.name}.bundle")
    kept = _read_kept(exported, folder, names)
    if kept is not None:
        return kept
    steps, now = exported.alone.stack.steps, exported.history.now
    made = {
        f"patches/{step.patch}": write_mail(git, step.commit, Path(step.patch), scratch)
        for step in steps
    }
    return made | {names[-1]: make_bundle(git, BRANCHES + exported.name, now.base, now.tip)}


def make_bundle(git: Git, ref: str, base: str, tip: str) -> bytes:
    """A bundle (gitformat-bundle(5), version 2) that gives `tip` as `ref` to who has `base`.

    `git bundle create` wants the ref to exist, and a ref moves only when all is written.
    """
    # One thread: the choice of deltas, and so the bytes, must not depend on timing.
    options = ("--quiet", "--revs", "--thin", "--stdout", "--threads=1", "--delta-base-offset")
    pack = git.run("pack-objects", *options, stdin=f"{tip}\n^{base}\n".encode()).stdout
    return f"# v2 git bundle\n-{base} upstream\n{tip} {ref}\n\n".encode() + pack


def _read_kept(exported: Exported, folder: Path, names: Iterable[str]) -> dict[str, bytes] | None:
    index, now = _read_index(folder), exported.history.now
    if (index.get("base"), index.get("commit")) != (now.base, now.tip):
        return None
    found = {name: _read(folder / name) for name in names}
    known = index.get("files", {})
    kept = {name: content for name, content in found.items() if content is not None}
    same = all(_hash(content) == known.get(name) for name, content in kept.items())
    return kept if same and len(kept) == len(found) else None


def _describe(exported: Exported, content: dict[str, bytes]) -> bytes:
    now = exported.history.now
    document = {
        "topic": exported.name,
        "branch": exported.branch,
        "round": now.number,
        "upstream": str(now.upstream),
        "base": now.base,
        "commit": now.tip,
        "requires": list(exported.alone.topic.requires),
        "patches": [step.patch for step in exported.alone.stack.steps],
        "files": {name: _hash(content[name]) for name in sorted(content)},
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def _list_changed(files: Files) -> list[str]:
    """Files that are not there with these bytes; a draft that a person edited stays theirs."""
    changed = [n for n, content in files.content.items() if _read(files.folder / n) != content]
    return [name for name in changed if name != DRAFT or not is_edited(files.folder)]


def is_edited(folder: Path) -> bool:
    """Whether a person wrote in the draft."""
    draft = _read(folder / DRAFT)
    return draft is not None and _hash(draft) != _read_index(folder).get("files", {}).get(DRAFT)


def _read_index(folder: Path) -> dict[str, Any]:
    try:
        index = json.loads((folder / INDEX).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return index if isinstance(index, dict) else {}


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
