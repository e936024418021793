"""The one module that talks to git.

Writing goes through the git binary on a bare repository that the tool owns; commits are read
through GitPython in short-lived `with` blocks (a `Repo` keeps two `git cat-file` processes alive,
https://github.com/gitpython-developers/GitPython/issues/1208).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from git import Repo

from upstream import process
from upstream.errors import EnvironmentFault
from upstream.git_settings import COMMITTER, clean_environment, network_environment
from upstream.loose import commit_body, write_object

NULL_ID = "0" * 40
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
MINIMUM = (2, 38)
_APPLY = ("apply", "--cached", "--whitespace=nowarn", "-p1")
_DIFF = ("diff-tree", "-p", "-r", "-M", "--full-index", "--no-ext-diff", "--no-textconv")
_RAW_DATE = re.compile(r"\d+ [+-]\d{4}")
# Upstream's own .gitattributes must not rewrite line ends of what we import.
IMPORT_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"


@dataclass(frozen=True)
class Person:
    """A name, an address and a date in git's raw form: seconds since 1970 and zone."""

    name: str
    email: str
    date: str

    @property
    def git_date(self) -> str:
        """The date as git reads it in any case: bare seconds before 1973 need an @."""
        return f"@{self.date}" if _RAW_DATE.fullmatch(self.date) else self.date


@dataclass(frozen=True)
class Commit:
    """What a commit object says."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    message: str

    @property
    def subject(self) -> str:
        return self.message.split("\n", 1)[0]


@dataclass(frozen=True)
class Stage:
    """One side of a conflicted path: 1 the base, 2 ours (upstream), 3 theirs (the patch)."""

    mode: str
    id: str
    stage: int
    path: str

    @property
    def index_line(self) -> bytes:
        """The line for `update-index -z --index-info`."""
        line = f"{self.mode} {self.id} {self.stage}\t{self.path}\0"
        return line.encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Merge:
    """The result of a three-way merge: a tree, the sides that are in conflict, git's remarks."""

    tree: str
    stages: tuple[Stage, ...]
    remarks: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return not self.stages and not any(r.startswith("CONFLICT") for r in self.remarks)


@dataclass(frozen=True)
class RefMove:
    """Move `ref` to `new`; `old` is what it must be before (NULL_ID: must not exist)."""

    ref: str
    new: str
    old: str | None = None


def git_version() -> tuple[int, ...]:
    """The version of the git binary, for example (2, 39, 5)."""
    words = process.run(("git", "--version"), env=clean_environment()).text.split()
    return tuple(int(part) for part in words[2].split(".")[:3] if part.isdigit())


def require_git() -> None:
    """Refuse a git without `merge-tree --write-tree`."""
    found = git_version()
    if found < MINIMUM:
        raise EnvironmentFault(
            f"git {'.'.join(map(str, found))} is too old: in-memory merges need 2.38",
            remedy="install a newer git",
        )


class Git:
    """One bare repository of ours."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    # -- running git ------------------------------------------------------------------------

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        ok: Sequence[int] = (0,),
        index: Path | None = None,
        work_tree: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> process.Completed:
        """Run one git command on this repository; `index` and `work_tree` are ours to name."""
        extra = dict(env or {})
        extra |= {} if index is None else {"GIT_INDEX_FILE": os.fspath(index)}
        command = ["git", f"--git-dir={self.directory}"]
        command += [] if work_tree is None else [f"--work-tree={work_tree}"]
        return process.run(
            (*command, *args),
            cwd=work_tree or self.directory,
            env=clean_environment(extra),
            stdin=stdin,
            ok=ok,
            timeout=timeout,
        )

    @contextmanager
    def feed(self, *args: str) -> Iterator[IO[bytes]]:
        """Run a git command on what the block writes to its standard input."""
        command = ("git", f"--git-dir={self.directory}", *args)
        with process.feed(command, cwd=self.directory, env=clean_environment()) as stream:
            yield stream

    def text(self, *args: str, stdin: bytes = b"") -> str:
        """Standard output of a git command without the last line break."""
        return self.run(*args, stdin=stdin).text.rstrip("\n")

    def create(self) -> None:
        """Make the repository if it is not there; harmless when several runs do it at once."""
        if (self.directory / "HEAD").exists():
            return
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        # `git init` fails where another one is at work, so each run makes one of its own and the
        # first to rename it wins; a killed run never leaves half a repository under the name.
        with TemporaryDirectory(prefix="new-", dir=self.directory.parent) as folder:
            fresh = Git(Path(folder) / "lab.git")
            fresh.directory.mkdir()
            fresh.run("init", "-q", "--bare", "--template=", "-b", "main", str(fresh.directory))
            (fresh.directory / "info").mkdir(exist_ok=True)
            (fresh.directory / "info" / "attributes").write_text(IMPORT_ATTRIBUTES)
            try:
                fresh.directory.rename(self.directory)
            except OSError:
                if not (self.directory / "HEAD").exists():
                    raise

    # -- reading ----------------------------------------------------------------------------

    @contextmanager
    def open(self) -> Iterator[Repo]:
        """A short-lived GitPython view, deaf to the caller's environment."""
        with Repo(self.directory) as repo:
            repo.git.update_environment(**clean_environment({"GIT_DIR": str(self.directory)}))
            yield repo

    def resolve(self, name: str) -> str | None:
        """The object id that a name stands for, or None."""
        done = self.run("rev-parse", "-q", "--verify", "--end-of-options", name, ok=(0, 1, 128))
        return done.text.strip() if done.code == 0 else None

    def tree_of(self, commit: str) -> str:
        """The tree id of a commit."""
        return self.text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")

    def read_commit(self, name: str) -> Commit:
        """Read one commit through GitPython."""
        return self.read_commits((name,))[0]

    def read_commits(self, names: Sequence[str]) -> list[Commit]:
        """Read commits through GitPython, all in one short-lived view."""
        with self.open() as repo:
            return [_from_gitpython(repo, name) for name in names]

    def walk(self, base: str, tip: str) -> list[str]:
        """Commit ids after `base` up to `tip`, oldest first, first parents only."""
        return self.text("rev-list", "--first-parent", "--reverse", f"{base}..{tip}").split()

    def list_refs(self, prefix: str) -> dict[str, str]:
        """Ref names below `prefix` with the ids they point at."""
        lines = self.text("for-each-ref", "--format=%(refname) %(objectname)", prefix).splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def read_blob(self, name: str) -> bytes | None:
        """The bytes of a blob (an id or `commit:path`), or None where there is none."""
        done = self.run("cat-file", "blob", name, ok=(0, 128))
        return done.stdout if done.code == 0 else None

    def diff(self, old: str, new: str, *options: str) -> bytes:
        """The diff between two trees or commits as git prints it."""
        return self.run(*_DIFF, "--no-color", *options, old, new).stdout

    def count_removed(self, old: str, new: str) -> dict[str, int]:
        """By path that differs between two trees, the lines that are gone (binary: 1)."""
        done = self.text("diff-tree", "-r", "-z", "--no-renames", "--numstat", old, new)
        rows = (row.split("\t") for row in done.split("\0") if row)
        return {path: int(gone) if gone.isdigit() else 1 for _, gone, path in rows}

    def diff_trees(self, pairs: Sequence[tuple[str, str]]) -> list[bytes]:
        """The diffs between pairs of tree ids, all from one process."""
        asked = [f"{old} {new}\n".encode() for old, new in pairs]
        done = self.run(*_DIFF, "--no-color", "--stdin", stdin=b"".join(asked))
        found, rest = [], done.stdout
        for line, following in zip_longest(asked, asked[1:], fillvalue=b""):
            rest = rest.removeprefix(line)
            end = rest.find(b"\n" + following) + 1 if following else len(rest)
            end = 0 if following and rest.startswith(following) else end
            found.append(rest[:end])
            rest = rest[end:]
        return found

    def range_diff(self, old: tuple[str, str], new: tuple[str, str]) -> str:
        """How two stacks, each (base, tip), differ patch by patch, as `git range-diff` says it."""
        ranges = (f"{base}..{tip}" for base, tip in (old, new))
        return self.text("range-diff", "--no-color", "--no-ext-diff", *ranges)

    # -- writing objects ----------------------------------------------------------------------

    def write_blob(self, content: bytes) -> str:
        """Store bytes and return the blob's id."""
        return write_object(self.directory, "blob", content)

    def write_commit(self, tree: str, parents: Sequence[str], author: Person, message: str) -> str:
        """Store a commit. The committer's date is the author's: same input, same id."""
        who = f"{author.name} <{author.email}>"
        body = commit_body(tree, parents, who, COMMITTER, author.date, message)
        if body is not None:
            return write_object(self.directory, "commit", body)
        return self._commit_tree(tree, parents, author, message)

    def _commit_tree(self, tree: str, parents: Sequence[str], author: Person, message: str) -> str:
        env = {
            "GIT_AUTHOR_NAME": author.name,
            "GIT_AUTHOR_EMAIL": author.email,
            "GIT_AUTHOR_DATE": author.git_date,
            "GIT_COMMITTER_DATE": author.git_date,
        }
        options = [word for parent in parents for word in ("-p", parent)]
        text = message.encode("utf-8", "surrogateescape")
        return self.run("commit-tree", *options, tree, stdin=text, env=env).text.strip()

    def merge(self, ours: str, theirs: str) -> Merge:
        """Three-way merge of two commits in memory, base = their merge base."""
        done = self.run(
            "merge-tree",
            "--write-tree",
            "-z",
            "--messages",
            "--allow-unrelated-histories",
            ours,
            theirs,
            ok=(0, 1),
        )
        return _parse_merge(done.stdout)

    def edit_tree(
        self, tree: str, entries: Sequence[Stage], scratch: Path, diff: bytes = b""
    ) -> str:
        """Replace paths of a tree (id NULL_ID removes one), then apply a diff strictly: no fuzz,
        no partial apply. Returns the new tree; raises CommandError when the diff does not apply."""
        index = scratch / "edit.index"
        index.unlink(missing_ok=True)
        self.run("read-tree", tree, index=index)
        try:
            if entries:
                lines = b"".join(entry.index_line for entry in entries)
                self.run("update-index", "-z", "--index-info", stdin=lines, index=index)
            if diff:
                self.run(*_APPLY, "-", stdin=diff, index=index)
            return self.run("write-tree", index=index).text.strip()
        finally:
            index.unlink(missing_ok=True)

    # -- refs and working trees ---------------------------------------------------------------

    def move_refs(self, moves: Sequence[RefMove]) -> None:
        """Move all refs or none (`git update-ref --stdin`)."""
        lines = ["start"]
        lines += [f"update {m.ref} {m.new}" + (f" {m.old}" if m.old else "") for m in moves]
        script = "\n".join([*lines, "prepare", "commit", ""])
        self.run("update-ref", "--stdin", stdin=script.encode())

    def check_out(self, tree: str, folder: Path, index: Path) -> None:
        """Make a folder of ours hold exactly `tree`; only files that differ are written."""
        folder.mkdir(parents=True, exist_ok=True)
        self.run("read-tree", "--reset", "-u", tree, index=index, work_tree=folder)

    def fetch(self, url: str, refspecs: Sequence[str], timeout: float) -> process.Completed:
        """Fetch from the network with the user's proxy and certificate settings.

        Refs that git refuses (of a shallow remote) are a warning on its stderr, not an error.
        """
        return self.run(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-gc",
            "--end-of-options",
            url,
            *refspecs,
            env=network_environment(),
            timeout=timeout,
        )

    def list_remote(self, url: str, pattern: str, timeout: float) -> dict[str, str]:
        """Refs of a remote that match a pattern, with their ids."""
        done = self.run(
            "ls-remote",
            "--refs",
            "--end-of-options",
            url,
            pattern,
            env=network_environment(),
            timeout=timeout,
        )
        pairs = (line.split("\t", 1) for line in done.text.splitlines() if "\t" in line)
        return {ref: commit for commit, ref in pairs}


def open_worktree(worktree: Path) -> Git | None:
    """Git on the administrative folder of a linked worktree; None where there is none."""
    pointer = worktree / ".git"
    text = pointer.read_text("utf-8").strip() if pointer.is_file() else ""
    found = re.fullmatch(r"gitdir: (.+)", text)
    return Git(Path(found[1])) if found else None


def _from_gitpython(repo: Repo, name: str) -> Commit:
    found = repo.commit(name)
    zone = found.author_tz_offset
    sign = "-" if zone > 0 else "+"
    offset = f"{sign}{abs(zone) // 3600:02d}{abs(zone) % 3600 // 60:02d}"
    author = Person(
        found.author.name or "", found.author.email or "", f"{found.authored_date} {offset}"
    )
    message = found.message
    text = message if isinstance(message, str) else message.decode("utf-8", "surrogateescape")
    return Commit(
        found.hexsha, found.tree.hexsha, tuple(p.hexsha for p in found.parents), author, text
    )


def _parse_merge(output: bytes) -> Merge:
    """Read `merge-tree -z`: tree, conflicted stages, an empty field, then messages."""
    fields = output.decode("utf-8", "surrogateescape").split("\0")
    blank = fields.index("", 1)
    stages = []
    for field in fields[1:blank]:
        info, path = field.split("\t", 1)
        mode, blob, stage = info.split(" ")
        stages.append(Stage(mode, blob, int(stage), path))
    return Merge(fields[0].strip(), tuple(stages), tuple(_parse_remarks(fields[blank + 1 :])))


def _parse_remarks(fields: Sequence[str]) -> Iterator[str]:
    """Messages are groups: number of paths, the paths, a short type, the text."""
    at = 0
    while at < len(fields) and fields[at].strip():
        at += int(fields[at]) + 1
        kind, text = fields[at], fields[at + 1]
        if kind != "Auto-merging":
            yield text.strip()
        at += 2
