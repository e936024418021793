"""Rules on what only GitHub knows; each lookup is read-only, and "not checked" without one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upstream.errors import LabError
from validate.policy.branch import Branch
from validate.policy.model import Search
from validate.policy.rule import Remark, green, red, unchecked

OFFLINE = "not checked: offline"
WORDS = 4  # GitHub wants all of them in a pull request: more find nothing
_COMMON_WORDS = ("support", "allow", "instead", "implementations", "should")


def judge_existing(branch: Branch) -> Iterator[Remark]:
    """No open pull request has the same words in it."""
    for patch in branch.patches:
        words = choose_words(patch.subject)
        found = _ask(branch, f"is:pr is:open {' '.join(words)}")
        if isinstance(found, str):
            yield unchecked(patch.name, f"{found}; search for: {' '.join(words)}")
        elif found.total:
            titles = "; ".join(found.titles[:3])
            what = f"{found.total} open pull requests with {' '.join(words)}: {titles}"
            yield red(patch.name, f"{what}. Read them, then waive this with what they are")
        else:
            yield green(patch.name, f"no open pull request with {' '.join(words)}")


def choose_words(subject: str) -> list[str]:
    """The longest words of a subject, in its order."""
    words = [w for w in re.findall(r"\w{4,}", subject.lower()) if w not in _COMMON_WORDS]
    longest = sorted(dict.fromkeys(words), key=len, reverse=True)[:WORDS]
    return [word for word in dict.fromkeys(words) if word in longest]


def judge_newcomer(branch: Branch) -> Iterator[Remark]:
    """Somebody with no merged pull request has no open one."""
    name, author = branch.subject.topic.name, branch.subject.author
    if branch.lookup is not None and not author:
        yield unchecked(name, "no GitHub login is known")
        return
    merged = _ask(branch, f"is:pr is:merged author:{author}")
    opened = _ask(branch, f"is:pr is:open author:{author}")
    if isinstance(merged, str) or isinstance(opened, str):
        said = merged if isinstance(merged, str) else str(opened)
        yield unchecked(name, f"{said}; new contributors have one open pull request at most")
    elif opened.total and not merged.total:
        titles = "; ".join(opened.titles[:3])
        yield red(name, f"{author} is new and has {opened.total} open: {titles}")


def _ask(branch: Branch, query: str) -> Search | str:
    """The answer, or why there is none."""
    if branch.lookup is None:
        return OFFLINE
    try:
        return branch.lookup(query)
    except LabError as error:
        return f"not checked: {error.what}"
