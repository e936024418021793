"""Rules on documents that upstream generates: option tables by llama-gen-docs, docs/ops.md.

Nothing is generated here: that takes a build. What is seen is a name that is in the sources and not
in the documents, or the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from validate.ledger.text import body_of, close_of, split_arguments, strip_comments
from validate.policy.additions import added_ids
from validate.policy.branch import Branch, FileChange, Patch, Tree
from validate.policy.rule import Remark, red, unchecked

ARG = "common/arg.cpp"
GENERATOR = "examples/gen-docs/gen-docs.cpp"
OPS = "docs/ops.md"
OPS_TABLES = "docs/ops/"
COMMON = "COMMON"
_README = re.compile(r'\{\s*LLAMA_EXAMPLE_(\w+),\s*"([^"]+\.md)"')
_OPTION = re.compile(r"add_opt(?=\(common_arg\()")
_EXAMPLES = re.compile(r"\.set_(examples|excludes)(?=\()")
_SUPPORTS = re.compile(r"^[^\n;=]*supports_op\s*\([^;{]*\{", re.MULTILINE)


@dataclass(frozen=True)
class Option:
    """A command-line option of arg.cpp: its names, the programs that have it and have it not."""

    names: tuple[str, ...]
    examples: frozenset[str]
    excludes: frozenset[str]

    def documented(self, example: str) -> bool:
        """Whether the program's table lists it."""
        return example not in self.excludes and bool(self.examples & {COMMON, example})


def judge_option_docs(branch: Branch) -> Iterator[Remark]:
    """Every name that is new in arg.cpp stands in the tables of its programs, none that went."""
    if not branch.touches(ARG):
        if branch.upstream.bytes(ARG) is None:
            yield unchecked(ARG, "upstream has no such file: tell validate/policy/documents.py")
        return
    readmes = _README.findall(branch.tip.text(GENERATOR))
    before, after = read_options(branch.base.text(ARG)), read_options(branch.tip.text(ARG))
    if not readmes or not after:
        yield unchecked(ARG, f"cannot read {ARG if readmes else GENERATOR} of this version")
        return
    for example, path in readmes:
        listed = _list_documented(branch.tip.text(path))
        wanted = {n for n, option in after.items() if option.documented(example)}
        for name in sorted((wanted - before.keys()) - listed):
            yield red(path, f"{name} is not in the table: run llama-gen-docs")
        for name in sorted((before.keys() - after.keys()) & listed):
            yield red(path, f"{name} is gone but still in the table: run llama-gen-docs")


def read_options(text: str) -> Mapping[str, Option]:
    """Options by each of their names."""
    found: dict[str, Option] = {}
    text = strip_comments(text)
    for match in _OPTION.finditer(text):
        block = text[match.end() : close_of(text, match.end())]
        start = block.index("common_arg(") + len("common_arg")
        arguments = split_arguments(block[start + 1 : close_of(block, start) - 1])
        groups = [part for part in arguments if part.startswith("{")]
        names = tuple(re.findall(r'"(-[\w.-]+)"', " ".join(groups)))
        asked = {kind: _list_examples(text, block, kind) for kind in ("examples", "excludes")}
        option = Option(names, asked["examples"] or frozenset({COMMON}), asked["excludes"])
        found |= dict.fromkeys(names, option)
    return found


def _list_examples(text: str, block: str, kind: str) -> frozenset[str]:
    """The programs in the argument of set_KIND, which may be the name of a set."""
    calls = (match.end() for match in _EXAMPLES.finditer(block) if match[1] == kind)
    said = " ".join(block[start : close_of(block, start)] for start in calls)
    if named := re.fullmatch(r"\((\w+)\)", said):
        said = body_of(text, rf"\b{named[1]}\s*=") or ""
    return frozenset(re.findall(r"LLAMA_EXAMPLE_(\w+)", said))


def _list_documented(text: str) -> set[str]:
    rows = [line.split("` |")[0] for line in text.split("\n") if line.startswith("| `-")]
    return {name for row in rows for name in re.findall(r"(?<![\w-])-[\w.-]+", row)}


def judge_op_docs(branch: Branch) -> Iterator[Remark]:
    """A change of what a backend supports comes with its table and the page made from it."""
    tables = branch.touches(OPS_TABLES)
    page = branch.touches(OPS)
    if tables and not page:
        yield red(OPS, f"{OPS_TABLES} changed: run scripts/create_ops_docs.py")
    changed = sorted({each[1].path for each in branch.changes() if _supports(branch, *each)})
    changed += added_ids(branch, ("ggml_op",))
    if changed and not (tables and page):
        yield red(OPS, f"{', '.join(changed)}: what is supported changed, the tables did not")


def _supports(branch: Branch, patch: Patch, change: FileChange) -> bool:
    """Whether a line in a function named *supports_op is added or removed."""
    if not change.path.startswith("ggml/src/ggml-"):
        return False
    git = branch.subject.git
    sides = ((Tree(git, patch.commit), change.added), (Tree(git, patch.parent), change.removed))
    return any(
        line.number in numbers and line.text.strip()
        for tree, lines in sides
        for numbers in list_functions(tree, change.path)
        for line in lines
    )


def list_functions(tree: Tree, path: str) -> list[range]:
    """The line numbers of the bodies of functions whose names end with `supports_op`."""
    text = tree.text(path)
    found = []
    for match in _SUPPORTS.finditer(text):
        end = close_of(text, match.end() - 1)
        first, last = text.count("\n", 0, match.end()), text.count("\n", 0, end)
        found.append(range(first + 1, last + 2))
    return found
