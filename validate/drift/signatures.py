"""Functions that a patch calls, as a tree declares them.

A reader of declarations, not a compiler: it knows the forms that llama.cpp's headers and sources
use, and says nothing about a name that it does not find declared on the patch's base.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from upstream.git import Git

SOURCES = ("*.h", "*.hpp", "*.c", "*.cpp", "*.cu", "*.cuh", "*.comp", "*.glsl")
AFTER = 12  # lines that a list of parameters may take
NOT_CALLS = {
    *("if", "for", "while", "switch", "return", "sizeof", "catch", "alignof", "decltype", "delete"),
    *("static_assert", "defined", "operator", "new", "throw", "not", "and", "layout"),
    *("static_cast", "const_cast", "reinterpret_cast", "dynamic_cast"),
}
_CALL = re.compile(r"\b([A-Za-z_]\w{2,})\s*\(")
_TYPE = re.compile(r"^[\w:<>,&*~\s\[\]]*[\w>&*\]]\s*[&*]*$")
_STARTS = re.compile(r"^\s*(return|else|case|new|delete|throw|goto|co_return)\b")
# A type before the name: git leaves out the calls, of which common names have tens of thousands.
_BEFORE = r"^[^=.;(]*[[:alnum:]_>&*][[:space:]]+[*&]*"
Table = dict[str, list[str]]


def list_calls(lines: Iterable[str]) -> tuple[str, ...]:
    """Names that the lines call, each once."""
    found = (name for line in lines for name in _CALL.findall(line.split("//", 1)[0]))
    return tuple(sorted(set(found) - NOT_CALLS))


def read_signatures(git: Git, tree: str, names: Sequence[str]) -> Table:
    """Name -> the parameter lists with which the tree declares it, in one git process."""
    if not names:
        return {}
    spec = [*(f":(glob)**/{kind}" for kind in SOURCES), ":(exclude)vendor/"]
    pattern = f"{_BEFORE}({'|'.join(names)})\\("
    done = git.run("grep", "-h", "-E", f"-A{AFTER}", pattern, tree, "--", *spec, ok=(0, 1))
    wanted = set(names)
    table: dict[str, set[str]] = {}
    for chunk in done.stdout.decode("utf-8", "replace").split("\n--\n"):
        _read_chunk(chunk.split("\n"), wanted, table)
    return {name: sorted(found) for name, found in table.items()}


def _read_chunk(lines: Sequence[str], wanted: set[str], table: dict[str, set[str]]) -> None:
    for at, line in enumerate(lines):
        for match in _CALL.finditer(line):
            name = match[1]
            if name in wanted and _declares(line[: match.start()]):
                text = "\n".join((line[match.end() :], *lines[at + 1 : at + AFTER]))
                parameters = _read_parameters(text)
                if parameters is not None:
                    table.setdefault(name, set()).add(parameters)


def _declares(before: str) -> bool:
    """Whether what stands before a name is a type (or a macro's #define), not an expression."""
    if re.match(r"^\s*#\s*define\s+$", before):
        return True
    return bool(_TYPE.match(before)) and before.strip() != "" and not _STARTS.match(before)


def _read_parameters(text: str) -> str | None:
    """The text up to the closing bracket, without comments, names of defaults and white space."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    depth = 1
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            inner = re.sub(r"\s+", " ", text[:at]).strip()
            return re.sub(r"\s*([,*&()<>=])\s*", r"\1", inner)
    return None
