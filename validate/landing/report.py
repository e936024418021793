"""What `nox -s retire` says."""

from __future__ import annotations

from collections.abc import Sequence

from series.pull_request import PullRequest
from validate.landing.retire import Retired
from validate.landing.signals import Signals


def format_signals(found: Sequence[Signals]) -> str:
    """Every patch with its signs side by side."""
    return "\n".join(line for signals in found for line in _format_one(signals))


def _format_one(signals: Signals) -> list[str]:
    recorded = f", recorded as landed in {signals.recorded}" if signals.recorded else ""
    words = ", ".join(f"{sign.name} {sign.word}" for sign in signals.signs)
    lines = [f"{signals.patch} on {signals.version}{recorded}: {words}"]
    width = max(len(sign.name) for sign in signals.signs)
    lines += [f"  {sign.name:{width}}  {sign.word:3}  {sign.detail}" for sign in signals.signs]
    lines += [f"  {'upstream':{width}}  {answer.describe()}" for answer in signals.pulls]
    return [*lines, *(f"  {line}" for line in _advise(signals))]


def _advise(signals: Signals) -> list[str]:
    if signals.needed_again and signals.returned:
        return [f"REVERTED upstream in {signals.returned}: needed again"]
    if signals.needed_again:
        return [f"MISSING on {signals.version}: needed again"]
    if signals.recorded is None and signals.enough:
        return [f"drop candidate: nox -s retire -- {signals.patch}"]
    return []


def document_signals(signals: Signals) -> dict[str, object]:
    """One patch as a JSON document."""
    return {
        "topic": signals.topic,
        "patch": signals.patch,
        "version": str(signals.version),
        "before": str(signals.before) if signals.before else None,
        "recorded": str(signals.recorded) if signals.recorded else None,
        "signs": {sign.name: {"says": sign.says, "detail": sign.detail} for sign in signals.signs},
        "pull_requests": [
            {"known": isinstance(answer, PullRequest), **vars(answer), "text": answer.describe()}
            for answer in signals.pulls
        ],
        "drop_candidate": signals.recorded is None and signals.enough,
        "needed_again": signals.needed_again,
        "returned": str(signals.returned) if signals.returned else None,
    }


def format_retired(signals: Signals, retired: Retired) -> str:
    """What was written and what follows."""
    lines = [
        f"{signals.patch}: [[landed]] in {signals.version} as {retired.reference}",
        f"  evidence: {retired.evidence}",
    ]
    if retired.removed:
        return "\n".join([*lines, "  its file left patches/; git has it in the history"])
    then = f"nox -s rebase -- --onto {signals.version} --write"
    return "\n".join([*lines, f"  it stays listed until the base reaches that: {then}"])
