"""What a rule is: the sentence of upstream that it comes from, and how a branch is judged by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from validate.policy.branch import Branch, Tree
from validate.policy.model import Outcome

CONTRIBUTING = "CONTRIBUTING.md"
AGENTS = "AGENTS.md"
REVIEW = "skills/code-review/SKILL.md"


@dataclass(frozen=True)
class Sentence:
    """Words that stand in one line of a file of upstream."""

    path: str
    words: str


@dataclass(frozen=True)
class Remark:
    """What a rule has to say about one place."""

    outcome: Outcome
    where: str
    what: str


Judge = Callable[[Branch], Iterable[Remark]]


@dataclass(frozen=True)
class Rule:
    """`sentences`: the first one that upstream has is the source. `judge` gives no remark when
    nothing is wrong; then `holds` is said. `reminder`: only a person or GitHub knows, so that what
    is not checked does not hold the gate up."""

    name: str
    sentences: tuple[Sentence, ...]
    judge: Judge
    holds: str
    reminder: bool = False


def red(where: str, what: str) -> Remark:
    """The rule is broken here."""
    return Remark(Outcome.RED, where, what)


def green(where: str, what: str) -> Remark:
    """The rule holds here, in other words than the rule's own."""
    return Remark(Outcome.GREEN, where, what)


def unchecked(where: str, why: str) -> Remark:
    """Whether the rule holds is not known."""
    return Remark(Outcome.NOT_CHECKED, where, why)


def find_source(upstream: Tree, sentences: Iterable[Sentence]) -> str:
    """`path:line` of the first sentence that upstream's files hold, "" when none does."""
    for sentence in sentences:
        lines = upstream.text(sentence.path).split("\n")
        for number, line in enumerate(lines, 1):
            if sentence.words in line:
                return f"{sentence.path}:{number}"
    return ""
