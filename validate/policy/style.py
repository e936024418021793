"""Rule on code style: clang-format with upstream's configuration, on added lines only.

Upstream wants the patterns of the code around, and clang-format "in case of doubt". So breaks of
lines and runs of blanks are left to the author, and so is a blank that the file itself writes or
leaves out more often than not. What counts is any other blank too many or too few, a brace on a
line of its own, code that clang-format would change.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from upstream import process
from upstream.errors import CommandError
from validate.policy.branch import Branch, FileChange, Line, Patch, Tree
from validate.policy.rule import Remark, red, unchecked

PROGRAM = "clang-format"
CONFIG = ".clang-format"
SECONDS = 60.0
MOST_BESIDE = 20  # files that stand for the habits around a new one
_LANGUAGE = (".c", ".cc", ".cpp", ".h", ".hpp", ".cu", ".cuh")
_VENDORED = ("vendor/",)
_CONDITION = re.compile(rb"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")
_AFTER_OPERAND = re.compile(rb"[\w)\]][*/&]$")
_TIGHT_PRODUCT = re.compile(rb"[*/][^\s*/]")
_HEAD = re.compile(rb"[A-Za-z_]")


@dataclass(frozen=True)
class Edit:
    """A change that clang-format wants: `length` bytes at `offset` become `text`."""

    offset: int
    length: int
    text: str


def judge_style(branch: Branch) -> Iterator[Remark]:
    """Added lines of C, C++ and CUDA."""
    wanted = [(p, c) for p, c in branch.changes() if is_formatted(c) and c.added]
    if not wanted:
        return
    if shutil.which(PROGRAM) is None:
        where = ", ".join(sorted({change.path for _, change in wanted}))
        yield unchecked(where, f"{PROGRAM} is not installed (pip install {PROGRAM})")
        return
    config = branch.upstream.bytes(CONFIG) or b""
    for patch, change in wanted:
        yield from _judge_change(config, Tree(branch.subject.git, patch.commit), patch, change)


def is_formatted(change: FileChange) -> bool:
    """Whether the configuration is for files of this kind."""
    return change.path.endswith(_LANGUAGE) and not change.path.startswith(_VENDORED)


def _judge_change(config: bytes, tree: Tree, patch: Patch, change: FileChange) -> Iterator[Remark]:
    content = cut_around((tree.bytes(change.path) or b"").split(b"\n"), change.added)
    try:
        edits = list_edits(config, change.path, content, change.added)
    except CommandError as error:
        yield unchecked(patch.place(change), error.failure.stderr_tail.strip().split("\n")[0])
        return
    lines: dict[int, list[Edit]] = {}
    numbers = {line.number for line in change.added}
    before = read_custom(Tree(tree.git, patch.parent), change.path)
    for edit in edits:
        if numbers.isdisjoint(_lines_of(content, edit)):
            continue  # clang-format goes on to the neighbours in a list
        if matters(content, edit) and not is_customary(before, content, edit):
            lines.setdefault(content.count(b"\n", 0, edit.offset) + 1, []).append(edit)
    for number, found in lines.items():
        yield red(patch.place(change, Line(number, "")), _describe(content, found))


def _lines_of(content: bytes, edit: Edit) -> range:
    first = content.count(b"\n", 0, edit.offset) + 1
    return range(first, first + content.count(b"\n", edit.offset, edit.offset + edit.length) + 1)


def _describe(content: bytes, edits: Sequence[Edit]) -> str:
    """Old and new text of the line in which the edits start."""
    start, text = _line_of(content, edits[0].offset)
    if any(edit.offset + edit.length > start + len(text.encode()) for edit in edits):
        return f"the brace belongs on the line '{text.strip()}'"
    return f"'{text.strip()}' should be '{apply_edits(text, start, edits).strip()}'"


def cut_around(lines: Sequence[bytes], added: Iterable[Line]) -> bytes:
    """The definitions around the added lines, all else blank: clang-format takes seconds for the
    largest files. Line numbers stay, and preprocessor conditions, so that none is open."""
    kept = {number for number, line in enumerate(lines) if _CONDITION.match(line)}
    for number in sorted(line.number - 1 for line in added):
        if number not in kept:
            kept |= set(range(_find_start(lines, number), _find_end(lines, number) + 1))
    return b"\n".join(line if number in kept else b"" for number, line in enumerate(lines))


def _find_start(lines: Sequence[bytes], number: int) -> int:
    """The first line of the definition that a line is in: at the margin, below a blank line."""
    return next(
        (n for n in range(number, 0, -1) if _HEAD.match(lines[n]) and not lines[n - 1].strip()), 0
    )


def _find_end(lines: Sequence[bytes], number: int) -> int:
    """The line that closes the definition: a brace at the margin."""
    last = len(lines) - 1
    return next((n for n in range(number, last) if lines[n].startswith(b"}")), last)


def list_edits(config: bytes, path: str, content: bytes, added: Iterable[Line]) -> list[Edit]:
    """What clang-format would change in these lines. Raises CommandError when it refuses."""
    numbers = [f"--lines={line.number}:{line.number}" for line in added]
    with TemporaryDirectory() as folder:
        style = Path(folder) / CONFIG
        style.write_bytes(config)
        command = [PROGRAM, f"--style=file:{style}", f"--assume-filename={path}"]
        command += ["--output-replacements-xml", *numbers]
        done = process.run(command, stdin=content, timeout=SECONDS)
    root = ElementTree.fromstring(done.stdout)  # noqa: S314  written by clang-format itself
    return [
        Edit(int(each.attrib["offset"]), int(each.attrib["length"]), each.text or "")
        for each in root.iter("replacement")
    ]


def matters(content: bytes, edit: Edit) -> bool:
    """Whether an edit is more than a break of a line or the alignment with its neighbours."""
    old = content[edit.offset : edit.offset + edit.length].decode("utf-8", "replace")
    if (old + edit.text).replace("\\\n", "").strip():  # a macro goes on after a backslash
        return "#include" not in old  # their order: upstream's files keep their own
    if _is_product(content, edit):
        return False
    if old.count("\n") == 1 and "\n" not in edit.text:
        return content[edit.offset + edit.length :].startswith(b"{")
    return "\n" not in old + edit.text and max(len(old), len(edit.text)) < 2


def _is_product(content: bytes, edit: Edit) -> bool:
    """Whether it would widen "a*b" or "a/b" on one side: clang-format takes such for pointers, and
    upstream writes both forms."""
    if edit.length:
        return False
    behind = content[edit.offset : edit.offset + 2]
    before = content[max(edit.offset - 2, 0) : edit.offset]
    return bool(_TIGHT_PRODUCT.match(behind) or _AFTER_OPERAND.search(before))


def read_custom(before: Tree, path: str) -> str:
    """What the file looked like; for a new one, the files beside it of the same language."""
    if text := before.text(path):
        return text
    folder = path.rpartition("/")[0]
    names = before.git.run("ls-tree", "--name-only", "-z", f"{before.commit}:{folder}").text
    beside = sorted(name for name in names.split("\0") if name.endswith(_LANGUAGE))[:MOST_BESIDE]
    return "\n".join(before.text(f"{folder}/{name}" if folder else name) for name in beside)


def is_customary(before: str, content: bytes, edit: Edit) -> bool:
    """Whether the file had more places like this one with the author's blank than with the tool's.

    A place is the kind of the character before and the two characters behind.
    """
    end = edit.offset + edit.length
    old = content[edit.offset : end].decode("utf-8", "replace")
    left = content[edit.offset - 1 : edit.offset].decode("utf-8", "replace")
    if (old + edit.text).strip():
        return False
    right = "".join(_kind(char) for char in content[end : end + 2].decode("utf-8", "replace"))
    ours, theirs = (
        len(re.findall(f"{_kind(left)}{gap}{right}", before)) for gap in (old, edit.text)
    )
    return ours > theirs


def _kind(char: str) -> str:
    return r"\w" if char.isalnum() or char == "_" else re.escape(char)


def _line_of(content: bytes, offset: int) -> tuple[int, str]:
    start = content.rfind(b"\n", 0, offset) + 1
    end = content.find(b"\n", offset)
    return start, content[start : end if end >= 0 else None].decode("utf-8", "replace")


def apply_edits(text: str, start: int, edits: Sequence[Edit]) -> str:
    """One line with its edits, made from the last one on; breaks become blanks."""
    raw = text.encode()
    for edit in sorted(edits, key=lambda edit: -edit.offset):
        at = edit.offset - start
        raw = raw[:at] + edit.text.encode() + raw[at + edit.length :]
    return re.sub(r"\s*\n\s*", " ", raw.decode("utf-8", "replace"))
