"""What backends say they support: the cases of their supports_op functions.

A dropped case makes test-backend-ops count "not supported", which is no failure there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from validate.ledger.model import Support
from validate.ledger.sources import CPU, Files, host_files
from validate.ledger.text import body_of, close_of, digest, strip_comments

FUNCTIONS = (
    ("cpu", r"\bbool\s+ggml_backend_cpu_device_supports_op\s*\("),
    ("vulkan", r"\bbool\s+ggml_backend_vk_device_supports_op\s*\("),
)
_SWITCH = re.compile(r"\bswitch\s*\(\s*op->op\s*\)\s*(?=\{)")
_LABEL = re.compile(r"\bcase\s+(\w+)\s*:|\bdefault\s*:|[{}]")
_INNER = re.compile(r"\bcase\s+(\w+)\s*:")
OUTSIDE = "(before the cases)"
DEFAULT = "(default)"


def read_supports(files: Files) -> tuple[list[Support], list[str]]:
    """The cases of every backend, and the backends whose function could not be read."""
    found: list[Support] = []
    unread: list[str] = []
    for backend, pattern in FUNCTIONS:
        sources = {CPU: files[CPU]} if backend == "cpu" else host_files(files)
        rows = list(_read(backend, pattern, sources))
        found += rows
        unread += [] if rows else [f"supports_op of {backend}"]
    return found, unread


def _read(backend: str, pattern: str, sources: Mapping[str, str]) -> Iterator[Support]:
    for text in sources.values():
        body = body_of(strip_comments(text), pattern)
        if body is None:
            continue
        switch = _SWITCH.search(body)
        if switch is None:
            return
        end = close_of(body, switch.end())
        yield Support(backend, OUTSIDE, digest(body[: switch.start()] + body[end:]), ())
        for op, code in parse_cases(body[switch.end() + 1 : end - 1]):
            yield Support(backend, op, digest(code), tuple(_INNER.findall(code)))
        return


def parse_cases(body: str) -> Iterator[tuple[str, str]]:
    """(label, code) for the outermost labels of a switch body; labels in a row share their code."""
    labels: list[str] = []
    start = depth = 0
    for match in _LABEL.finditer(body):
        if match[0] in "{}":
            depth += 1 if match[0] == "{" else -1
        elif depth == 0:
            code = body[start : match.start()]
            if code.strip():
                yield from ((label, code) for label in labels)
                labels = []
            labels.append(match[1] or DEFAULT)
            start = match.end()
    yield from ((label, body[start:]) for label in labels)
