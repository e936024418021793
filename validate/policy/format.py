"""Findings as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from validate.policy.judge import judge_gate
from validate.policy.model import Finding, Outcome

NO_SOURCE = "upstream has no such sentence"


def format_findings(findings: Sequence[Finding]) -> list[str]:
    """One line a finding: outcome, rule, place, words, the rule's source, the waiver's reason."""
    width = max((len(finding.rule) for finding in findings), default=0)
    return [_format(finding, width) for finding in findings]


def _format(finding: Finding, width: int) -> str:
    outcome = f"{finding.outcome.value:<11}"
    reason = f" (waived: {finding.reason})" if finding.outcome is Outcome.WAIVED else ""
    what = " ".join(finding.what.split())
    source = finding.source or NO_SOURCE
    return f"{outcome}  {finding.rule:<{width}}  {finding.where}: {what}{reason}  [{source}]"


def summarise(findings: Sequence[Finding]) -> str:
    """The gate in a few words: "policy gate RED: 2 RED, 1 not checked, 20 green"."""
    counts = Counter(finding.outcome for finding in findings)
    order = (Outcome.RED, Outcome.NOT_CHECKED, Outcome.WAIVED, Outcome.GREEN)
    parts = [f"{counts[outcome]} {outcome.value}" for outcome in order if counts[outcome]]
    return f"policy gate {judge_gate(findings).value}: {', '.join(parts)}"


def to_documents(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """The findings for --json, keys as the fields of `Finding`."""
    return [vars(finding) | {"outcome": finding.outcome.value} for finding in findings]
