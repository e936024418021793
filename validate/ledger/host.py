"""Specialization constants that the host pushes one by one, and the names its comments give them.

Three forms are known: `spec.push_back(value);  // constantID=12: NAME`, the same with only a name
in the comment, and lists with `/* 12 NAME */` before each value. Without a comment the last word
of the value (`state.KW`) is a name that the shader may know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from validate.ledger.model import HostPush, HostSequence
from validate.ledger.text import normalise, split_arguments

_PUSH = re.compile(r"\b(\w*spec\w*)\.push_back\((.*?)\);[ \t]*(?:\\\s*)?(?://[ \t]*(.*))?$")
_STATED = re.compile(r"(?:constantID\s*=\s*(\d+)\s*:\s*)?([A-Za-z_]\w*)(?:\s*=\s*(\w+))?\s*$")
_LISTED = re.compile(r"/\*\s*(\d+)\s+(\w+)\s*\*/\s*([^,}]*(?:\([^)]*\)[^,}]*)*)")
_FUNCTION = re.compile(r"^(?:static\s+)?[\w:<>]+\s+(\w+)\([^;]*\)\s*\{")
_INNER = re.compile(r"auto\s+(?:const\s*)?&?\s*(\w+)\s*=\s*\[|#\s*define\s+(\w+)")
_LIST = re.compile(r"\b(\w*spec\w*)\s*=\s*\{([^}]*)\}")
_COPY = re.compile(r"\b(\w*spec\w*)\s*=\s*(\w*spec\w*)\s*;")


def read_sequences(files: Mapping[str, str]) -> list[HostSequence]:
    """Every run of pushes on one variable, and every list with numbered comments."""
    found: list[HostSequence] = []
    for text in files.values():
        found += _read_pushes(text)
        found += _read_lists(text)
    return found


def _read_pushes(text: str) -> Iterator[HostSequence]:
    """A run ends where another function or macro begins."""
    owner = run_owner = variable = ""
    base = -1
    run: list[HostPush] = []
    lengths: dict[str, int] = {}
    for line in text.split("\n"):
        if match := _FUNCTION.search(line) or _INNER.search(line):
            owner = next(filter(None, match.groups()))
        _measure(line, lengths)
        push = _PUSH.search(line)
        if push is None:
            continue
        if (owner, push[1]) != (run_owner, variable) and run:
            yield HostSequence(run_owner, base, tuple(run))
            run = []
        if not run:
            run_owner, variable, base = owner, push[1], lengths.get(push[1], -1)
        run.append(_read_push(push[2], push[3] or ""))
    if run:
        yield HostSequence(run_owner, base, tuple(run))


def _measure(line: str, lengths: dict[str, int]) -> None:
    """Remember how long the literal list is that a variable starts as."""
    for name, values in _LIST.findall(line):
        lengths[name] = len([v for v in split_arguments(values) if v])
    for name, other in _COPY.findall(line):
        lengths[name] = lengths.get(other, -1)


def _read_push(value: str, comment: str) -> HostPush:
    stated = _STATED.match(comment.strip())
    if stated is None:
        return HostPush(_last_word(value), -1, normalise(value), False)
    shown = normalise(value) if stated[3] is None else f"{normalise(value)} stated as {stated[3]}"
    return HostPush(stated[2], int(stated[1] or -1), shown, True)


def _last_word(value: str) -> str:
    match = re.search(r"\b([A-Za-z_]\w*)\s*$", value)
    return match[1] if match else "?"


def _read_lists(text: str) -> Iterator[HostSequence]:
    owner = ""
    run: list[HostPush] = []
    for line in text.split("\n"):
        if match := _FUNCTION.search(line):
            owner = match[1]
        if match := _LISTED.search(line):
            run.append(HostPush(match[2], int(match[1]), normalise(match[3]), True))
        elif run:
            yield HostSequence(owner, 0, tuple(run))
            run = []
