"""READY, or what is missing for it: a green gate, a trial alone, and a person's sign-off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from series.signoff import SignOff
from series.topic_stack import TopicStack
from upstream.errors import ExitCode
from validate.export.model import Readiness, Trial
from validate.policy import Finding, Outcome, judge_gate
from validate.policy.judge import REMINDERS
from validate.speed_stack import TIP
from validate.verdict import EXIT_CODES, StepVerdict, Verdict, worst


def judge_readiness(
    alone: TopicStack, trial: Trial | None, findings: Sequence[Finding], signoffs: Sequence[SignOff]
) -> Readiness:
    """All reasons why a person should not send this branch yet, none when it is READY."""
    failures = [*_judge_gate(findings), *(_judge_trial(alone, trial) if trial else ())]
    reasons = [] if trial else ["not validated alone (--no-build)"]
    reasons += _list_unchecked(findings)
    reasons += _judge_signoffs(alone, signoffs)
    return Readiness((*failures, *reasons), bool(failures))


def _judge_gate(findings: Sequence[Finding]) -> Iterator[str]:
    red = dict.fromkeys(f.rule for f in findings if f.outcome is Outcome.RED)
    if red:
        yield f"the policy gate is red: {', '.join(red)}"


def _list_unchecked(findings: Sequence[Finding]) -> Iterator[str]:
    """What a person or GitHub alone knows does not hold the gate up; the rest does."""
    if judge_gate(findings) is Outcome.GREEN:
        return
    rules = [finding.rule for finding in findings if is_unchecked(finding)]
    if rules:
        yield f"the policy gate did not check: {', '.join(dict.fromkeys(rules))}"


def is_unchecked(finding: Finding) -> bool:
    """Whether the gate waits for this rule."""
    return finding.outcome is Outcome.NOT_CHECKED and finding.rule not in REMINDERS


def _judge_trial(alone: TopicStack, trial: Trial) -> Iterator[str]:
    failed = [build for build in trial.builds if build.state == "failed"]
    yield from (f"{build.name} does not build alone: {build.error}" for build in failed)
    judged = {step.patch: step for step in trial.verdicts}
    for name in [step.patch for step in alone.own]:
        if name not in [build.name for build in failed]:
            yield from _judge_step(name, judged.get(name))
    if TIP in judged:
        yield from _judge_step(TIP, judged[TIP])


def _judge_step(name: str, step: StepVerdict | None) -> Iterator[str]:
    """A no, an invalid measurement, nothing at all; a check that lacks its environment is told as
    evidence."""
    checks = step.checks if step else ()
    if all(check.verdict is Verdict.INFORMATION for check in checks):
        yield f"{name} was not judged: no check ran"
        return
    found = worst(check.verdict for check in checks)
    if EXIT_CODES.get(found, ExitCode.OK) not in (ExitCode.OK, ExitCode.ENVIRONMENT):
        bad = [check.check for check in checks if check.verdict in EXIT_CODES]
        yield f"{name} is {found.value}: {', '.join(bad)}"


def _judge_signoffs(alone: TopicStack, signoffs: Sequence[SignOff]) -> Iterator[str]:
    mine = [each for each in signoffs if each.topic == alone.topic.name]
    if any(each.commit == alone.stack.tip for each in mine):
        return
    if not mine:
        yield "no sign-off of a person in signoff.toml"
    for each in mine:
        yield (
            f"the sign-off of {each.name} ({each.date}) is VOID: it is for {each.commit[:12]}, "
            f"the branch is {alone.stack.tip[:12]}"
        )
