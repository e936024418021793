"""Function-like macros of the host code, expanded as text where they are used.

Pipelines are made through macros that are defined, used and undefined in turn. Both branches of
every conditional are taken: pipelines of all builds are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from validate.ledger.text import close_of, split_arguments

DEPTH = 12
_DEFINE = re.compile(r"\s*#\s*define\s+(\w+)\(([^)]*)\)(.*)", re.DOTALL)
_UNDEF = re.compile(r"\s*#\s*undef\s+(\w+)")
_DIRECTIVE = re.compile(r"\s*#")


@dataclass(frozen=True)
class Macro:
    """Parameters and the text that stands for an invocation."""

    parameters: tuple[str, ...]
    body: str

    def apply(self, arguments: list[str]) -> str:
        """The body with the arguments in it: `#x` quoted, `a ## b` joined."""
        given = dict(zip(self.parameters, arguments, strict=False))
        text = re.sub(
            r"(?<!#)#\s*(\w+)", lambda m: f'"{given[m[1]]}"' if m[1] in given else m[0], self.body
        )
        words = "|".join(map(re.escape, filter(None, self.parameters)))
        if words:
            text = re.sub(rf"\b(?:{words})\b", lambda m: given.get(m[0], ""), text)
        return re.sub(r"\s*##\s*", "", text)


def expand(text: str) -> str:
    """Comment-free text with every invocation of a known macro replaced; directives are gone."""
    known: dict[str, Macro] = {}
    out: list[str] = []
    for line, code in _chunks(text):
        if match := _DEFINE.match(line):
            names = tuple(p.strip() for p in match[2].split(","))
            known[match[1]] = Macro(names, match[3])
        elif match := _UNDEF.match(line):
            known.pop(match[1], None)
        elif code:
            out.append(_replace(line, known, DEPTH))
    return "\n".join(out)


def _chunks(text: str) -> Iterator[tuple[str, bool]]:
    """Directives with their continuation lines, and the code between them in one piece."""
    code: list[str] = []
    for line in text.replace("\\\n", "\x01").split("\n"):
        if _DIRECTIVE.match(line):
            yield "\n".join(code), True
            code = []
            yield line.replace("\x01", "\n"), False
        else:
            code.append(line.replace("\x01", "\n"))
    yield "\n".join(code), True


def _replace(text: str, known: dict[str, Macro], depth: int) -> str:
    if not known or depth == 0:
        return text
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, known))})\s*\(")
    out, at = [], 0
    while match := pattern.search(text, at):
        end = close_of(text, match.end() - 1)
        arguments = split_arguments(text[match.end() : end - 1])
        out.append(text[at : match.start()])
        out.append(_replace(known[match[1]].apply(arguments), known, depth - 1))
        at = end
    return "".join([*out, text[at:]])
