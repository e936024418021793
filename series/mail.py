"""Patch files: one `git format-patch` mail each, read strictly and written so that it reads back.

The mail is split by git (`mailinfo`), never by a diff parser: unidiff misreads diff-like lines in
a commit message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.utils import mktime_tz, parsedate_tz
from pathlib import Path

from upstream.errors import CommandError, UsageError
from upstream.git import Git, Person

FORMAT_OPTIONS = (
    "--stdout", "-1", "-M", "--binary", "--full-index", "--zero-commit", "--no-signature",
    "--no-numbered", "--subject-prefix=PATCH", "--no-attach", "--no-thread", "--no-cover-letter",
    "--no-base", "--no-to", "--no-cc", "--no-add-header", "--encode-email-headers",
    "--stat=72", "--summary", "--src-prefix=a/", "--dst-prefix=b/", "--no-notes", "--no-signoff",
)  # fmt: skip
# What git's mailinfo takes for the start of the diff (patchbreak() in git's mailinfo.c).
_BREAK = re.compile(rb"^(---( \S|[ \t\r\f\v]*$)|diff -|Index: )", re.M)
# What git's mailsplit takes for the start of another mail (is_from_line() in git's mailsplit.c).
_FROM = re.compile(rb"^From .*\d.\d\d:\d\d[ \t]*(\d+)", re.M)
_FIELDS = ("Author", "Email", "Subject", "Date")
_NAMED = re.compile(rb"^(?:---|\+\+\+|rename from|rename to|copy from|copy to) (.+)$", re.M)
_TOTALS = re.compile(
    rb"^ (\d+) files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?$", re.M
)


@dataclass(frozen=True)
class Mail:
    """A patch file taken apart."""

    path: Path
    author: Person
    message: str
    diff: bytes
    paths: tuple[str, ...]

    @property
    def subject(self) -> str:
        return self.message.split("\n", 1)[0]


def read_mail(git: Git, path: Path, scratch: Path) -> Mail:
    """Read and check one patch file; UsageError says what is wrong and in which line."""
    raw = _read(path)
    _check_envelope(path, raw)
    body = _decode_body(path, raw)
    stat = _check_break(path, body)
    info, message, diff = split_mail(git, path, raw, scratch)
    paths = list_paths(git, path, diff)
    check_totals(git, path, stat, diff)
    author = Person(info["Author"], info["Email"], read_date(path, info["Date"]))
    return Mail(path, author, tidy_message(f"{info['Subject']}\n\n{message}"), diff, paths)


def write_mail(git: Git, commit: str, path: Path, scratch: Path) -> bytes:
    """The mail of a commit. Refuses a commit that would not read back as itself."""
    content = git.run("format-patch", *FORMAT_OPTIONS, commit).stdout
    probe = scratch / path.name
    probe.write_bytes(content)
    found, wanted = read_mail(git, probe, scratch), git.read_commit(commit)
    probe.unlink()
    for what, got, want in (
        ("message", found.message, wanted.message),
        ("author's name", found.author.name, wanted.author.name),
        ("author's address", found.author.email, wanted.author.email),
        ("author's date", found.author.date, wanted.author.date),
    ):
        if got != want:
            raise UsageError(
                f"{path}: the {what} of {commit[:12]} does not survive a mail: "
                f"{want!r} would be read as {got!r}",
                remedy=f"reword the commit ({what}), then run the same command again",
            )
    return content


def refuse(path: Path, what: str) -> UsageError:
    """The error for a patch file that cannot be used."""
    return UsageError(f"{path}: {what}", remedy=f"mend {path}, or export it again with git")


def blames_input(error: CommandError) -> bool:
    """Whether git failed for what it was given, not for a signal or a full disk."""
    said = error.failure.stderr_tail
    faults = ("No space left", "File too large", "quota exceeded", "Read-only file system")
    return error.failure.code > 0 and not any(fault in said for fault in faults)


def tidy_message(text: str) -> str:
    """What `git stripspace` does, which `git am` runs on every message."""
    lines = [line.rstrip(" \t\r") for line in text.split("\n")]
    kept = [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
    return "\n".join(kept).strip("\n") + "\n"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise refuse(path, "the file is named in series.toml but does not exist") from error


def _check_envelope(path: Path, raw: bytes) -> None:
    first = raw.split(b"\n", 1)[0]
    if not raw.strip():
        raise refuse(path, "the file is empty")
    if first.endswith(b"\r"):
        raise refuse(path, "line ends are CRLF: a mail client or core.autocrlf rewrote the file")
    if not first.startswith(b"From "):
        raise refuse(path, "line 1 is no 'From ' line: not a git format-patch mail")
    starts = [found.start() for found in _FROM.finditer(raw) if int(found[1]) > 90]
    if starts and starts[-1] > 0:
        number = raw.count(b"\n", 0, next(start for start in starts if start)) + 1
        raise refuse(
            path, f"line {number} starts another mail for git; one patch a file (a 'From ' line)"
        )


def _decode_body(path: Path, raw: bytes) -> bytes:
    mail = message_from_bytes(raw)
    for header in ("From", "Date", "Subject"):
        if mail[header] is None:
            raise refuse(path, f"the header '{header}:' is missing")
    if mail.is_multipart():
        raise refuse(path, "is a mail with attachments; export it again without --attach")
    body = mail.get_payload(decode=True)
    assert isinstance(body, bytes)
    return body


def _check_break(path: Path, body: bytes) -> bytes:
    """The message must end at a lone `---`; else `git am` cuts it where we do not see it.

    Returns what stands between that line and the diff: the diffstat.
    """
    found = _BREAK.search(body)
    if found is None:
        raise refuse(path, "has no diff")
    number = body.count(b"\n", 0, found.start()) + 1
    line = body[found.start() :].split(b"\n", 1)[0].decode("utf-8", "replace")
    if line.rstrip("\r") != "---":
        raise refuse(
            path,
            f"line {number} of the message looks like a diff: {line!r}; git am "
            "would end the message there: indent it by a blank",
        )
    return _read_between(path, body[found.end() :], number)


def _read_between(path: Path, rest: bytes, number: int) -> bytes:
    """Between `---` and the diff only a diffstat may stand: git am drops anything else."""
    lines = rest.split(b"\n")
    for offset, line in enumerate(lines):
        if line.startswith(b"diff --git "):
            return b"\n".join(lines[:offset])
        if line and not line.startswith(b" "):
            text = line.decode("utf-8", "replace")
            raise refuse(
                path,
                f"line {number + offset} of the body, {text!r}, stands between "
                "'---' and the diff; git am would lose it",
            )
    raise refuse(path, "has no diff (an empty patch)")


def split_mail(
    git: Git, path: Path, raw: bytes, scratch: Path, needed: Sequence[str] = _FIELDS
) -> tuple[dict[str, str], str, bytes]:
    """Take a mail apart with git's mailinfo: its headers, the text below the subject, the rest.

    The rest begins where git sees the diff. UsageError names a header of `needed` that is missing.
    """
    message, diff = scratch / f"{path.name}.msg", scratch / f"{path.name}.diff"
    try:
        done = git.run(
            "mailinfo", "--encoding=UTF-8", "--no-scissors", str(message), str(diff), stdin=raw
        )
        info = dict(line.split(": ", 1) for line in done.text.splitlines() if ": " in line)
        for field in needed:
            if not info.get(field):
                raise refuse(path, f"git found no {field.lower()} in the mail's headers")
        text = message.read_bytes().decode("utf-8", "surrogateescape")
        return info, text, diff.read_bytes()
    except CommandError as error:
        if not blames_input(error):
            raise
        raise refuse(path, f"git cannot read the mail: {error.failure.stderr_tail}") from error
    finally:
        message.unlink(missing_ok=True)
        diff.unlink(missing_ok=True)


def read_date(path: Path, text: str) -> str:
    """The author's date in git's raw form."""
    found = parsedate_tz(text)
    if found is None:
        raise refuse(path, f"the header 'Date: {text}' is no date")
    offset = found[9] or 0
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 3600:02d}{abs(offset) % 3600 // 60:02d}"
    return f"{mktime_tz(found)} {zone}"


def list_paths(git: Git, path: Path, diff: bytes, strip: int = 1) -> tuple[str, ...]:
    """The paths that the diff touches, both sides of renames, each checked to stay in the tree."""
    numbers = _apply_dry(git, path, diff, "--numstat", strip)
    paths = [field.rsplit("\t", 1)[-1] for field in numbers.split("\0") if field]
    headers = (name for header in _headers(diff) for name in _NAMED.findall(header))
    named = [header.decode("utf-8", "surrogateescape").rstrip() for header in headers]
    for name in (*paths, *(_strip_prefix(text) for text in named)):
        _check_path(path, name)
    return tuple(dict.fromkeys(paths))


def _headers(diff: bytes) -> list[bytes]:
    """The header of each file in a diff: a removed line `-- ../x` looks like one in a hunk."""
    files = re.split(rb"^(?=diff --git )", diff, flags=re.M)[1:]
    return [
        re.split(rb"^(?:@@ |GIT binary patch)", file, maxsplit=1, flags=re.M)[0] for file in files
    ]


def _strip_prefix(text: str) -> str:
    return text[2:] if text[:2] in ("a/", "b/") else "" if text == "/dev/null" else text


def _check_path(path: Path, name: str) -> None:
    parts = name.strip('"').split("/")
    if name.startswith("/") or ".." in parts:
        raise refuse(path, f"touches {name!r}, which is outside the tree")
    if any(part.lower() in (".git", "git~1") for part in parts):
        raise refuse(path, f"touches {name!r}, which is inside a .git folder")


def _apply_dry(git: Git, path: Path, diff: bytes, option: str, strip: int = 1) -> str:
    try:
        return git.run("apply", option, "-z", f"-p{strip}", "-", stdin=diff).text
    except CommandError as error:
        if not blames_input(error):
            raise
        said = error.failure.stderr_tail.strip()
        if "invalid path" in said:
            raise refuse(path, f"names a path outside the tree: {said}") from error
        raise refuse(path, f"the diff is damaged or cut off: {said}") from error


def check_totals(git: Git, path: Path, stat: bytes, diff: bytes) -> None:
    """Compare with the diffstat of the mail: a mail cut between two hunks is still a valid diff."""
    found = _TOTALS.search(stat)
    if found is None:
        return
    files, plus, minus = (int(n or 0) for n in found.groups())
    rows = [row.split("\t") for row in _apply_dry(git, path, diff, "--numstat").split("\0") if row]
    text = [row for row in rows if row[0] != "-"]
    # A file that becomes a symlink is two files in the diff, one in the diffstat.
    has = (
        len({row[2] for row in rows}),
        sum(int(r[0]) for r in text),
        sum(int(r[1]) for r in text),
    )
    if has != (files, plus, minus):
        raise refuse(
            path,
            f"the mail says {files} files, +{plus} -{minus}, its diff has "
            f"{has[0]} files, +{has[1]} -{has[2]}: it was cut off or edited",
        )
