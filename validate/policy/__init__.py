"""Upstream's own rules for contributions, judged on the branch of one topic.

`judge_topic` gives one finding or more a rule, each with the sentence of upstream that it comes
from. Rules, how they are checked and what they cannot see: docs/reference/policy.md.
"""

from validate.policy.judge import judge_gate, judge_topic
from validate.policy.model import Evidence, Finding, Lookup, Measured, Outcome, Search, Subject

__all__ = [
    "Evidence",
    "Finding",
    "Lookup",
    "Measured",
    "Outcome",
    "Search",
    "Subject",
    "judge_gate",
    "judge_topic",
]
