"""A miniature upstream: a small real git repository with build tags, and patches made on it.

It stands in for llama.cpp; the tool reads it through its real git remote (`file://`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from series.mail import FORMAT_OPTIONS
from upstream.git_settings import clean_environment

Content = bytes | str | None  # None removes the path
Files = Mapping[str, Content] | Mapping[bytes, Content] | Mapping[str | bytes, Content]
AUTHOR = "Ada L\u00f6vgren <ada@example.org> 1700000000 +0530"
COMMITTER = "Upstream <up@example.org> 1690000000 +0000"


def lines(name: str, count: int = 30, changes: Mapping[int, str] | None = None) -> str:
    """A text of numbered lines; `changes` replaces some ("" leaves the line out)."""
    changed = changes or {}
    texts = (changed.get(n, f"{name} line {n}") for n in range(1, count + 1))
    return "".join(f"{text}\n" for text in texts if text)


@dataclass(frozen=True)
class Miniature:
    """The repository of the miniature upstream."""

    path: Path

    @property
    def url(self) -> str:
        return self.path.as_uri()

    def git(self, *args: str | os.PathLike[str], stdin: bytes = b"") -> bytes:
        """Run one git command here and return what it printed."""
        return run_git(self.path, *args, stdin=stdin)

    def text(self, *args: str) -> str:
        return self.git(*args).decode().strip()

    def release(
        self,
        tag: str,
        files: Files,
        *,
        modes: Mapping[str, str] | None = None,
        renames: Mapping[str, str] | None = None,
    ) -> str:
        """A commit on the one branch of upstream, tagged; returns its id."""
        text = f"upstream {tag}\n"
        commit = self.commit("refs/heads/main", None, files, text, modes=modes, renames=renames)
        self.git("tag", tag, commit)
        return commit

    def commit(
        self,
        branch: str,
        parent: str | None,
        files: Files,
        message: str | bytes,
        *,
        author: str = AUTHOR,
        modes: Mapping[str, str] | None = None,
        renames: Mapping[str, str] | None = None,
    ) -> str:
        """Commit changes on a branch (`parent` starts it anew) without a working tree."""
        text = message.encode() if isinstance(message, str) else message
        head = f"commit {branch}\nauthor {author}\ncommitter {COMMITTER}\ndata {len(text)}\n"
        stream = [head.encode() + text + b"\n"]
        stream += [f"from {parent}\n".encode()] if parent else self._continue(branch)
        stream += [b"R %s %s\n" % (_quote(a), _quote(b)) for a, b in (renames or {}).items()]
        stream += [_entry(path, content, modes or {}) for path, content in files.items()]
        self.git("fast-import", "--quiet", "--force", stdin=b"".join(stream))
        return self.text("rev-parse", branch)

    def _continue(self, branch: str) -> list[bytes]:
        known = self.text("for-each-ref", "--format=%(refname)", branch)
        return [f"from {branch}^0\n".encode()] if known else []

    def export(self, commit: str) -> bytes:
        """The commit as a patch file, written by git itself with the project's options."""
        return self.git("format-patch", *FORMAT_OPTIONS, commit)

    def patches(self, base: str, *changes: tuple[str, Files]) -> dict[str, bytes]:
        """Patch files by name: each change is a commit on the one before, the first on `base`."""
        made: dict[str, bytes] = {}
        parent = self.text("rev-parse", f"{base}^0")
        for name, files in changes:
            subject = name.removesuffix(".patch").replace("-", " ")
            text = f"{subject}: change\n\nWhy {subject} is needed.\n"
            parent = self.commit("refs/heads/patches", parent, files, text)
            made[name] = self.export(parent)
        return made

    def apply_mails(self, base: str, mails: Iterable[Path], folder: Path, *options: str) -> str:
        """Apply mails with the real `git am` in a normal checkout; returns that checkout's tip.

        The committer is the one that the tool writes, so that equal commits have equal ids.
        """
        run_git(self.path, "worktree", "add", "--quiet", "--detach", folder, base)
        names = [os.fspath(mail) for mail in mails]
        run_git(folder, "am", "--quiet", "--committer-date-is-author-date", *options, *names)
        return run_git(folder, "rev-parse", "HEAD").decode().strip()


def create_upstream(path: Path) -> Miniature:
    """An empty miniature upstream."""
    path.mkdir(parents=True)
    run_git(path, "init", "--quiet", "--bare", "-b", "main", ".")
    return Miniature(path)


def run_git(folder: Path, *args: str | os.PathLike[str], stdin: bytes = b"") -> bytes:
    """Real git with nobody's configuration."""
    env = clean_environment()
    done = subprocess.run(
        ("git", *args), cwd=folder, env=env, input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0, f"git {args}: {done.stderr.decode()}"
    return done.stdout


def write_series(
    folder: Path, base: str, patches: Mapping[str, bytes], *, extra: str = "", topic: str = "first"
) -> Path:
    """A series directory with one topic."""
    (folder / "patches").mkdir(parents=True)
    for name, content in patches.items():
        (folder / "patches" / name).write_bytes(content)
    (folder / "series.toml").write_text(manifest(base, list(patches), extra=extra, topic=topic))
    return folder


def manifest(base: str, names: Sequence[str], *, extra: str = "", topic: str = "first") -> str:
    """The text of a series.toml with one topic and a comment in odd places."""
    listed = "".join(f'  "{name}",\n' for name in names)
    return (
        f'# The series, by hand.\nbase = "{base}"  # where it was written\n\n[[topic]]\n'
        f'name = "{topic}"\ntitle = "The first topic"\nrequires = []\n'
        f"patches = [  # in order\n{listed}]\n\n{extra}"
    )


def _entry(path: str | bytes, content: Content, modes: Mapping[str, str]) -> bytes:
    if content is None:
        return b"D %s\n" % _quote(path)
    data = content.encode() if isinstance(content, str) else content
    mode = modes.get(path, "100644") if isinstance(path, str) else "100644"
    return b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), _quote(path), len(data), data)


def _quote(path: str | bytes) -> bytes:
    raw = path.encode() if isinstance(path, str) else path
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


# Patches on b100 of the shared upstream; what becomes of each on a later version.
STEADY = ("steady.patch", {"src/gamma.c": lines("gamma", changes={10: "gamma line 10 patched"})})
OFFSET = ("offset.patch", {"src/alpha.c": lines("alpha", changes={20: "alpha line 20 patched"})})
MOVED = ("moved.patch", {"src/beta.c": lines("beta", changes={10: "beta line 10 patched"})})
CLASH = ("clash.patch", {"src/delta.c": lines("delta", changes={15: "delta line 15 patched"})})
AFTER = (
    "after.patch",
    {"src/delta.c": lines("delta", changes={15: "delta line 15 patched twice"})},
)
OWN = ("own.patch", {"src/omega.c": lines("omega", changes={3: "omega line 3 patched"})})
TAKEN = ("taken.patch", {"src/taken.c": lines("taken", changes={9: "taken line 9 with the fix"})})
HALF = (
    "half.patch",
    {
        "src/half.c": lines(
            "half",
            changes={
                5: "half line 5\nhalf: first new line",
                20: "half line 20\nhalf: second new line",
            },
        )
    },
)
