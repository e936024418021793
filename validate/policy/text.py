"""Rules on the text of added lines: ASCII, and comments that are short and not wrapped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from validate.policy.branch import Branch, FileChange, Line, Patch
from validate.policy.rule import Remark, red

COMMENT_LINES = 4
WRAPPED_FROM = 60  # columns of comment text: what ends earlier was not cut at a fixed width
DEFAULT_COLUMNS = 120
# Generated tables with signs, code of others, and text whose language is not ours to choose.
FOREIGN = ("docs/ops", "vendor/", "models/templates/", "tools/ui/", "licenses/")
_SLASHES = (
    ".c", ".cc", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".m", ".mm", ".metal", ".comp", ".glsl",
    ".cl", ".wgsl", ".js", ".ts",
)  # fmt: skip
_HASHES = (".py", ".sh", ".cmake", ".yml", ".yaml", ".toml")
_LIMIT = re.compile(r"^ColumnLimit:\s*(\d+)", re.MULTILINE)


def judge_ascii(branch: Branch) -> Iterator[Remark]:
    """No character above 127 in added lines and in messages (names in trailers may have them)."""
    for patch in branch.patches:
        for text in (patch.subject, *patch.body):
            if found := _show_foreign(text):
                yield red(patch.name, f"{found} in the message")
    for patch, change in branch.changes():
        for line in () if change.path.startswith(FOREIGN) else change.added:
            if found := _show_foreign(line.text):
                yield red(patch.place(change, line), found)


def _show_foreign(text: str) -> str:
    found = sorted({char for char in text if ord(char) > 127})
    return f"not ASCII: {', '.join(f'U+{ord(char):04X}' for char in found)}" if found else ""


def judge_comment_length(branch: Branch) -> Iterator[Remark]:
    """Blocks of few lines, none wider than the column limit of .clang-format."""
    found = _LIMIT.search(branch.upstream.text(".clang-format"))
    columns = int(found[1]) if found else DEFAULT_COLUMNS
    for patch, block in _list_blocks(branch):
        change, lines = block
        if len(lines) > COMMENT_LINES:
            what = f"a comment of {len(lines)} lines, at most {COMMENT_LINES}"
            yield red(patch.place(change, lines[0]), what)
        for line in lines:
            if len(line.text) > columns:
                what = f"a comment of {len(line.text)} columns, {columns} fit: say less"
                yield red(patch.place(change, line), what)


def judge_comment_wrap(branch: Branch) -> Iterator[Remark]:
    """A long line that goes on in the next one was cut at a fixed width."""
    for patch, (change, lines) in _list_blocks(branch):
        for line, following in pairwise(lines):
            first, second = _words_of(line.text), _words_of(following.text)
            ends = first.endswith((".", ":", ";", "!", "?"))
            if len(first) >= WRAPPED_FROM and not ends and re.match("[a-z(]", second):
                what = "a sentence of a comment is split over lines: one line, or say less"
                yield red(patch.place(change, line), what)


def _words_of(text: str) -> str:
    return text.strip().lstrip("/#*").removesuffix("*/").strip()


def _list_blocks(branch: Branch) -> Iterator[tuple[Patch, tuple[FileChange, list[Line]]]]:
    for patch, change in branch.changes():
        if not change.path.startswith(FOREIGN):
            for block in list_comments(change):
                yield patch, (change, block)


def list_comments(change: FileChange) -> list[list[Line]]:
    """Runs of added lines, one below the other, that hold nothing but a comment."""
    blocks: list[list[Line]] = []
    inside = False
    for line in change.added:
        joined = bool(blocks) and blocks[-1][-1].number == line.number - 1
        inside = inside and joined
        comment, inside = _is_comment(change.path, line.text.strip(), inside=inside)
        if comment and joined:
            blocks[-1].append(line)
        elif comment:
            blocks.append([line])
    return blocks


def _is_comment(path: str, text: str, *, inside: bool) -> tuple[bool, bool]:
    """Whether a line is a comment, and whether a block comment goes on after it."""
    suffix, name = PurePosixPath(path).suffix, PurePosixPath(path).name
    if suffix in _SLASHES:
        if inside or text.startswith("/*"):
            return True, "*/" not in text
        return text.startswith("//"), False
    hashes = suffix in _HASHES or name in ("CMakeLists.txt", "Makefile")
    return hashes and text.startswith("#") and not text.startswith("#!"), False
