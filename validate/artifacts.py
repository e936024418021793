"""The binaries of every step, stored once per content.

    objects/xx/<sha256>      the bytes, read-only
    steps/<key>/step.json    which files, their hashes, which target uses which
    steps/<key>/bin/...      hard links to the objects

A step folder appears by one rename, so a half-written one never counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from upstream.lab import Lab


@dataclass(frozen=True)
class Binary:
    """One file of a step: its hash and size in bytes, or for a symbolic link what it names."""

    sha256: str = ""
    size: int = 0
    link: str = ""


@dataclass(frozen=True)
class StepBinaries:
    """What a step was built into.

    `uses` names for every target the files in `folder` that it runs: itself and its libraries.
    `absent` are the targets that this version of the source does not have.
    """

    key: str
    folder: Path
    files: Mapping[str, Binary]
    uses: Mapping[str, tuple[str, ...]]
    absent: tuple[str, ...]

    def fingerprint(self, target: str) -> str:
        """One hash for all that a target runs; equal for two steps only if every byte is."""
        names = sorted(self.uses[target])
        text = "\n".join(f"{name} {self.files[name].sha256}" for name in names)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Difference:
    """A step's files against its parent's: how many are equal, which are not, which went."""

    identical: int
    changed: tuple[str, ...]
    gone: tuple[str, ...] = ()


def compare_binaries(step: StepBinaries, parent: StepBinaries) -> Difference:
    """Compare by name and content; symbolic links are left out."""
    mine = {name: file for name, file in step.files.items() if not file.link}
    theirs = {name: file for name, file in parent.files.items() if not file.link}
    changed = tuple(sorted(name for name in mine if theirs.get(name) != mine[name]))
    gone = tuple(sorted(theirs.keys() - mine.keys()))
    return Difference(len(mine) - len(changed), changed, gone)


class ArtifactStore:
    """Step folders and the objects they link to."""

    def __init__(self, lab: Lab) -> None:
        self.objects = lab.root / "objects"
        self.steps = lab.root / "steps"

    def load(self, key: str) -> StepBinaries | None:
        """A finished step whose files are all in place (seen by size and inode), or None."""
        folder = self.steps / key
        try:
            binaries = _read_step(key, folder)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        files = binaries.files.items()
        return binaries if all(self._in_place(folder / "bin" / n, f) for n, f in files) else None

    def keep(
        self,
        key: str,
        source: Path,
        uses: Mapping[str, Sequence[str]],
        absent: Sequence[str] = (),
    ) -> StepBinaries:
        """Store the files in `source` that the targets use; an older folder is replaced."""
        half = self.steps / f".half-{key}"
        shutil.rmtree(half, ignore_errors=True)
        (half / "bin").mkdir(parents=True)
        wanted = {name for names in uses.values() for name in names}
        links = dict(_find_links(source, wanted))
        real = sorted(name for name in wanted if name not in links)
        files = {name: self._store(source / name, half / "bin" / name) for name in real}
        for name, link in links.items():
            (half / "bin" / name).symlink_to(link)
            files[name] = Binary(link=link)
        used = {target: tuple(n for n in names if n in real) for target, names in uses.items()}
        kept = StepBinaries(key, self.steps / key / "bin", files, used, tuple(absent))
        _write_step(kept, half / "step.json")
        shutil.rmtree(self.steps / key, ignore_errors=True)
        half.rename(self.steps / key)
        return kept

    def _store(self, file: Path, target: Path) -> Binary:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        info = file.stat()
        kept = self.objects / digest[:2] / digest
        if not kept.exists() or kept.stat().st_size != info.st_size:
            kept.parent.mkdir(parents=True, exist_ok=True)
            half = kept.with_name(f".half-{digest}")
            shutil.copyfile(file, half)
            half.chmod(info.st_mode & 0o555)
            half.rename(kept)
        os.link(kept, target)
        return Binary(digest, info.st_size)

    def _in_place(self, path: Path, file: Binary) -> bool:
        if file.link:
            return path.is_symlink()
        try:
            mine, kept = path.stat(), (self.objects / file.sha256[:2] / file.sha256).stat()
        except FileNotFoundError:
            return False
        return mine.st_ino == kept.st_ino and mine.st_size == file.size


def _find_links(source: Path, wanted: set[str]) -> Iterator[tuple[str, str]]:
    """Symbolic links beside the wanted files that lead to one of them (libllama.so.0)."""
    for path in sorted(source.iterdir()):
        if path.is_symlink() and path.resolve().name in wanted:
            yield path.name, os.fspath(path.readlink())


def _write_step(step: StepBinaries, path: Path) -> None:
    document = {
        "files": {name: asdict(file) for name, file in step.files.items()},
        "uses": step.uses,
        "absent": step.absent,
    }
    path.write_text(json.dumps(document, indent=1, sort_keys=True))


def _read_step(key: str, folder: Path) -> StepBinaries:
    document = json.loads((folder / "step.json").read_text())
    return StepBinaries(
        key,
        folder / "bin",
        {name: Binary(**file) for name, file in document["files"].items()},
        {target: tuple(names) for target, names in document["uses"].items()},
        tuple(document["absent"]),
    )
