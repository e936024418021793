"""Every rule on one branch, and what the waivers of series.toml make of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from series.model import Waiver
from upstream.errors import InvalidMeasurement, UsageError
from validate.policy.branch import Branch, read_branch
from validate.policy.model import Evidence, Finding, Lookup, Outcome, Subject
from validate.policy.rule import Remark, Rule, find_source, green, unchecked
from validate.policy.table import RULES

REMINDERS = frozenset(rule.name for rule in RULES if rule.reminder)


def judge_topic(
    subject: Subject, evidence: Evidence, lookup: Lookup | None = None
) -> tuple[Finding, ...]:
    """All findings of a branch, in the order of the rules, at least one a rule.

    `lookup` None: what only GitHub knows is "not checked: offline". Raises UsageError for a waiver
    of an unknown rule, InvalidMeasurement for a topic without patches.
    """
    check_waivers(subject.waivers)
    branch = read_branch(subject, evidence, lookup)
    waivers = {w.rule: w for w in subject.waivers if w.topic == subject.topic.name}
    return tuple(
        finding for rule in RULES for finding in _judge(branch, rule, waivers.get(rule.name))
    )


def judge_gate(findings: Sequence[Finding]) -> Outcome:
    """RED when one finding is, NOT_CHECKED when what the machine can check was not, else GREEN.

    Raises InvalidMeasurement when there is no finding at all.
    """
    if not findings:
        raise InvalidMeasurement("the policy gate has no finding", remedy="judge a topic first")
    found = {f.outcome for f in findings if f.rule not in REMINDERS or f.outcome is Outcome.RED}
    bad = (outcome for outcome in (Outcome.RED, Outcome.NOT_CHECKED) if outcome in found)
    return next(bad, Outcome.GREEN)


def check_waivers(waivers: Iterable[Waiver]) -> None:
    """Refuse a waiver of a rule that there is not, or two of one rule for one topic."""
    known, seen = [rule.name for rule in RULES], set()
    for waiver in waivers:
        if waiver.rule not in known:
            raise UsageError(
                f"series.toml: the waiver for topic '{waiver.topic}' names the unknown rule "
                f"'{waiver.rule}'",
                remedy=f"name one of: {', '.join(known)}",
            )
        if (waiver.topic, waiver.rule) in seen:
            raise UsageError(
                f"series.toml: '{waiver.rule}' is waived twice for topic '{waiver.topic}'",
                remedy="keep one of the two in series.toml",
            )
        seen.add((waiver.topic, waiver.rule))


def _judge(branch: Branch, rule: Rule, waiver: Waiver | None) -> Iterator[Finding]:
    version, place = branch.subject.version, find_source(branch.upstream, rule.sentences)
    source = f"{place} at {version}" if place else ""
    findings = [
        Finding(rule.name, remark.outcome, remark.where, remark.what, source)
        for remark in _ask(branch, rule, place)
    ]
    if waiver is None:
        yield from findings
        return
    waived = [_waive(finding, waiver) for finding in findings]
    yield from waived
    if waived == findings:
        what = "the waiver in series.toml matches nothing: remove it"
        yield Finding(rule.name, Outcome.RED, waiver.topic, what, source, waiver.reason)


def _ask(branch: Branch, rule: Rule, place: str) -> list[Remark]:
    """A rule that upstream dropped is not applied; that it did is worth a look."""
    name = branch.subject.topic.name
    if not place:
        paths = " and ".join(dict.fromkeys(sentence.path for sentence in rule.sentences))
        return [
            unchecked(name, f"the rule's sentence is gone from {paths} at {branch.subject.version}")
        ]
    try:
        return list(rule.judge(branch)) or [green(name, rule.holds)]
    except ValueError as error:  # upstream's files have another form than the rule knows
        return [unchecked(name, f"the rule cannot read {branch.subject.version}: {error}")]


def _waive(finding: Finding, waiver: Waiver) -> Finding:
    if finding.outcome is Outcome.GREEN:
        return finding
    return replace(finding, outcome=Outcome.WAIVED, reason=waiver.reason)
