"""Rules on commit messages: the subject's form, length, who is named in the trailers.

Upstream says "concise" without a number; the numbers here are git's and ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from validate.policy.branch import Branch
from validate.policy.rule import Remark, red, unchecked

SUBJECT_COLUMNS = 72  # where GitHub cuts a subject off
BODY_COLUMNS = 80
BODY_LINES = 12
_SUBJECT = re.compile(r"[^\s:](?:[^:]*[^\s:])? : \S.*")
_ASSISTANTS = re.compile(
    r"\b(claude|anthropic|copilot|cursor|codex|chatgpt|gpt-?\d|openai|gemini|devin|aider|qwen|"
    r"deepseek|grok|windsurf|cline|bot)\b",
    re.IGNORECASE,
)


def judge_subject(branch: Branch) -> Iterator[Remark]:
    """`module : title`, no period at the end, not cut off by GitHub."""
    for patch in branch.patches:
        subject = patch.subject
        if not _SUBJECT.fullmatch(subject):
            yield red(patch.name, f"'{subject}' is not 'module : title' (a blank on both sides)")
        if subject.endswith("."):
            yield red(patch.name, f"'{subject}' ends with a period")
        if len(subject) > SUBJECT_COLUMNS:
            yield red(patch.name, f"the subject has {len(subject)} columns, {SUBJECT_COLUMNS} fit")


def judge_body(branch: Branch) -> Iterator[Remark]:
    """A few wrapped lines; an address may be as long as it is."""
    for patch in branch.patches:
        wide = [line for line in patch.body if len(line) > BODY_COLUMNS and "://" not in line]
        for line in wide:
            yield red(patch.name, f"{len(line)} columns, {BODY_COLUMNS} fit: '{line[:40]}...'")
        if len(patch.body) > BODY_LINES:
            yield red(patch.name, f"{len(patch.body)} lines of message, at most {BODY_LINES}")


def judge_disclosure(branch: Branch) -> Iterator[Remark]:
    """The template's disclosure line is made from this trailer."""
    for patch in branch.patches:
        if all(key.lower() != "assisted-by" for key, _ in patch.trailers):
            elsewhere = re.search("^assisted-by:", patch.message, re.IGNORECASE | re.MULTILINE)
            where = ", the line stands outside of the last paragraph" if elsewhere else ""
            yield red(patch.name, f"no 'Assisted-by:' trailer{where}")


def judge_coauthors(branch: Branch) -> Iterator[Remark]:
    """A co-author is a person."""
    for patch in branch.patches:
        for line in patch.message.split("\n"):
            key, _, name = line.strip().partition(":")
            if key.lower() == "co-authored-by" and _ASSISTANTS.search(name):
                yield red(patch.name, f"'{line.strip()}' names an assistant: use 'Assisted-by:'")


def judge_author(branch: Branch) -> Iterator[Remark]:
    """Nothing in a commit shows who chose its words."""
    names = ", ".join(patch.name for patch in branch.patches)
    yield unchecked(names, "a person has to write the commit message and the description anew")
