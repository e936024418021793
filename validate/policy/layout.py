"""Rules on the layout of added lines, by upstream's own .editorconfig."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from editorconfig import get_properties

from validate.policy.branch import Branch, FileChange, Line, Patch, Tree
from validate.policy.rule import Remark, red

CONFIG = ".editorconfig"
CHECKER = ".ecrc"  # of editorconfig-checker, which upstream's CI runs


def judge_layout(branch: Branch) -> Iterator[Remark]:
    """Trailing blanks, line ends, tabs, the last line break, as the file's section asks.

    Upstream's .ecrc switches indent sizes off; where it does not, they are checked too.
    """
    sizes = not _disabled(branch.upstream).get("IndentSize", False)
    paths = {change.path for _, change in branch.changes()}
    settings = read_settings(branch.tip, paths)
    for patch, change in branch.changes():
        asked = settings[change.path]
        for line in change.added:
            for what in judge_line(line.text, asked, sizes=sizes):
                yield red(patch.place(change, line), what)
        yield from _judge_end(branch, patch, change, asked)


def _disabled(tree: Tree) -> Mapping[str, bool]:
    found: Mapping[str, bool] = json.loads(tree.text(CHECKER) or "{}").get("Disable", {})
    return found


def read_settings(tree: Tree, paths: set[str]) -> dict[str, Mapping[str, str]]:
    """What the .editorconfig files of a tree ask of each path; the library reads real files."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for path in paths:
            for parent in (folder / path).relative_to(folder).parents:
                content = tree.bytes((parent / CONFIG).as_posix())
                if content is not None:
                    (folder / parent).mkdir(parents=True, exist_ok=True)
                    (folder / parent / CONFIG).write_bytes(content)
        return {path: get_properties(str(folder / path)) for path in paths}


def judge_line(text: str, asked: Mapping[str, str], *, sizes: bool) -> Iterator[str]:
    """What is wrong with one added line."""
    bare = text.removesuffix("\r")
    if asked.get("end_of_line") == "lf" and text.endswith("\r"):
        yield "the line ends with CRLF"
    if asked.get("trim_trailing_whitespace") == "true" and bare != bare.rstrip(" \t"):
        yield "trailing blanks"
    indent = bare[: len(bare) - len(bare.lstrip(" \t"))]
    if asked.get("indent_style") == "space" and "\t" in indent:
        yield "a tab in the indentation"
    if asked.get("indent_style") == "tab" and indent.startswith(" "):
        yield "blanks in the indentation, tabs are asked"
    size = asked.get("indent_size", "")
    if sizes and size.isdigit() and indent.strip(" ") == "" and len(indent) % int(size):
        yield f"an indentation of {len(indent)}, steps of {size} are asked"


def _judge_end(
    branch: Branch, patch: Patch, change: FileChange, asked: Mapping[str, str]
) -> Iterator[Remark]:
    after, before = branch.tip.bytes(change.path), branch.base.bytes(change.path)
    ended = not before or before.endswith(b"\n")
    if not after or b"\0" in after:  # removed, or no text
        return
    if asked.get("insert_final_newline") == "true" and ended and not after.endswith(b"\n"):
        last = Line(after.count(b"\n") + 1, "")
        yield red(patch.place(change, last), "no line break at the end of the file")
