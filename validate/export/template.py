"""PR.md: upstream's own template at that version, to be filled in by a person.

Upstream forbids pull request texts written by AI (AGENTS.md), so nothing is described here. Only
the disclosure of AI usage is filled in, from the `Assisted-by:` trailers of the patches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from upstream.git import Git
from upstream.version import Version

PATHS = (".github/pull_request_template.md", ".github/PULL_REQUEST_TEMPLATE.md")
# b11549 has it; for a version that has none. https://github.com/ggml-org/llama.cpp
FALLBACK = """\
<!-- {version} has no pull request template: these are the headings of b11549 -->

## Overview

## Additional information

## Requirements

- I have read and agree with the contributing guidelines
- AI usage disclosure:
"""
_DISCLOSURE = re.compile(r"^(- AI usage disclosure:)[ \t]*", re.M)
_TRAILER = re.compile(r"^Assisted-by:\s*(\S.*?)\s*$", re.M | re.I)


def write_template(git: Git, version: Version, base: str, messages: Sequence[str]) -> str:
    """The template of the upstream commit `base`; `messages` are those of the topic's commits."""
    found = (git.read_blob(f"{base}:{path}") for path in PATHS)
    raw = next((blob for blob in found if blob is not None), None)
    text = FALLBACK.format(version=version) if raw is None else raw.decode("utf-8", "replace")
    said = disclose(messages)
    if not said:
        return text
    line = f"AI usage disclosure: {said}"
    filled, count = _DISCLOSURE.subn(lambda match: f"{match[1]} {said} ", text)
    return filled if count else f"{text.rstrip()}\n\n{line}\n"


def disclose(messages: Sequence[str]) -> str:
    """ "YES, Assisted-by: NAME, ...", or "" where no trailer says so: a person has to answer."""
    names = [name for message in messages for name in _TRAILER.findall(message)]
    return f"YES, Assisted-by: {', '.join(dict.fromkeys(names))}" if names else ""
