"""One topic of a stack alone on plain upstream, with just the topics that it requires.

The whole stack, where conflicts are resolved already, is carried onto its own upstream version
with the patches of other topics left out; in memory, with the engine of the rebase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from series.decisions import Decisions
from series.model import Dropped, Series, Stack, Step, Topic
from series.rebase import Outcome, Plan, plan_rebase
from upstream.errors import UsageError
from upstream.git import Git


@dataclass(frozen=True)
class TopicStack:
    """A topic's own stack: steps of required topics first. `changed` names the patches whose diff
    is another one here than in the whole stack."""

    topic: Topic
    stack: Stack
    changed: tuple[str, ...] = ()

    @property
    def own(self) -> tuple[Step, ...]:
        """The steps of the topic itself."""
        return tuple(step for step in self.stack.steps if step.topic == self.topic.name)


@dataclass(frozen=True)
class Entangled:
    """A topic that does not apply without others, which its `requires` does not name."""

    topic: str
    missing: tuple[str, ...]
    what: str


@dataclass(frozen=True)
class Rebuilder:
    """What taking topics out of a whole stack takes; `scratch` is for this one alone."""

    git: Git
    series: Series
    whole: Stack
    decisions: Decisions
    scratch: Path

    def rebuild(self, topic: Topic) -> TopicStack | Entangled:
        """The topic alone, or what is missing for that."""
        plan = self._plan(topic, self.series.close_topics((topic.name,)))
        if plan.waiting:
            missing = self._find_missing(topic)
            return Entangled(topic.name, missing, "; ".join(map(_describe, plan.waiting)))
        changed = tuple(o.patch for o in plan.outcomes if o.fate == "changed")
        return TopicStack(topic, plan.new, changed)

    def _plan(self, topic: Topic, kept: Sequence[str]) -> Plan:
        steps = self._upto(topic)
        left_out = {
            step.patch: Dropped(step.topic, step.patch, "of another topic")
            for step in steps
            if step.topic not in kept
        }
        decisions = replace(self.decisions, landed={}, dropped=left_out)
        whole = replace(self.whole, steps=steps)
        return plan_rebase(self.git, whole, whole.version, whole.commit, decisions, self.scratch)

    def _upto(self, topic: Topic) -> tuple[Step, ...]:
        """The steps up to the topic's last one."""
        last = max(at for at, step in enumerate(self.whole.steps) if step.topic == topic.name)
        return self.whole.steps[: last + 1]

    def _find_missing(self, topic: Topic) -> tuple[str, ...]:
        """The fewest other topics with which it applies: all earlier ones do, so leave out one
        after the other."""
        kept = self.series.close_topics((topic.name,))
        steps = self._upto(topic)
        needed = list(dict.fromkeys(step.topic for step in steps if step.topic not in kept))
        for name in reversed(list(needed)):
            fewer = [other for other in needed if other != name]
            if not self._plan(topic, self.series.close_topics((topic.name, *fewer))).waiting:
                needed = fewer
        return tuple(needed)


def refuse_entangled(found: Sequence[Entangled], series: Series) -> UsageError:
    """The error for topics that lack a `requires`. A topic above another's fault shows it too, so
    the first one is told in full."""
    first = found[0]
    others = [each.topic for each in found[1:]]
    more = f"\n(also: {', '.join(others)})" if others else ""
    needs = ", ".join(f'"{name}"' for name in first.missing)
    return UsageError(
        f"topic '{first.topic}' does not apply to plain upstream with what it requires: "
        f"{first.what}.\nIt applies on top of {needs}, which its `requires` does not name{more}",
        remedy=f"add {needs} to requires of '{first.topic}' in {series.directory}/series.toml, or "
        "make its patches independent of it",
    )


def _describe(outcome: Outcome) -> str:
    if outcome.conflict is not None:
        return f"{outcome.patch} conflicts in {', '.join(outcome.conflict.paths)}"
    if outcome.loss:
        return f"{outcome.patch} would lose lines ({outcome.loss.describe()[0]})"
    return f"{outcome.patch} {outcome.reason or outcome.status}"
