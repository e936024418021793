"""From verdicts, builds and judged cells to the values of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from series.model import Series
from validate.build import StepBuild
from validate.cells import Speed
from validate.report_model import (
    SPEED,
    BuildReport,
    Comparison,
    Count,
    Header,
    Report,
    Skipped,
    StepReport,
    TopicReport,
)
from validate.verdict import CheckResult, StepVerdict, Verdict, worst

TIP = "tip"  # the `step` of the comparison of the whole stack with its base


@dataclass(frozen=True)
class Findings:
    """What a run found. `builds` starts with the base; `speeds` name a patch or TIP as step."""

    steps: Sequence[StepVerdict]
    builds: Sequence[StepBuild]
    speeds: Sequence[Comparison] = ()
    not_measured: Sequence[str] = ()
    pr_text: str = ""


def make_report(header: Header, series: Series, found: Findings) -> Report:
    """Sort what was found under topics and patches, and count it."""
    topics = tuple(_report_topics(series, found))
    report = Report(
        header=header,
        topics=topics,
        base=report_build(found.builds[0]),
        counts=count_cases(found),
        verdict=worst(step.verdict for step in found.steps) if found.steps else None,
        skipped=tuple(list_skipped(found)),
        tip=next((speed for speed in found.speeds if speed.step == TIP), None),
        pr_text=found.pr_text,
    )
    missing = tuple(_list_unmeasured(report)) + tuple(found.not_measured)
    return replace(report, not_measured=missing)


def report_build(step: StepBuild) -> BuildReport:
    """The part of a build that a reader needs."""
    difference = step.difference
    return BuildReport(
        state=step.state,
        tree=step.plan.tree,
        key=step.plan.key,
        seconds=step.seconds,
        identical=difference.identical if difference else 0,
        changed=difference.changed if difference else (),
        gone=difference.gone if difference else (),
        absent=step.binaries.absent if step.binaries else (),
        error=str(step.error) if step.error else "",
        log=step.log,
    )


def count_cases(found: Findings) -> tuple[Count, ...]:
    """Builds, checks and speed cells: planned, run, skipped."""
    states = [build.state for build in found.builds]
    counts = [
        Count("builds", run=len(states) - states.count("cached"), cached=states.count("cached")),
        _count_checks([check for step in found.steps for check in step.checks]),
    ]
    if any(speed.cells or speed.skipped for speed in found.speeds):
        counts.append(_count_cells(found.speeds))
    return tuple(counts)


def list_skipped(found: Findings) -> Iterator[Skipped]:
    """Everything that was planned and did not run, with the reason."""
    for step in found.steps:
        for check in step.checks:
            if check.verdict is Verdict.NOT_RUN:
                yield Skipped(f"{step.patch}: {check.check}", check.detail or "no reason was given")
    for speed in found.speeds:
        for skipped in speed.skipped:
            yield Skipped(f"{speed.step} against {speed.parent}: {skipped.what}", skipped.reason)


def _report_topics(series: Series, found: Findings) -> Iterator[TopicReport]:
    for topic in series.topics:
        steps = tuple(_report_step(series, patch, found) for patch in topic.patches)
        notes = tuple(_list_notes(series, topic.name))
        if steps or notes:
            yield TopicReport(topic.name, topic.title, steps, notes)


def _report_step(series: Series, patch: str, found: Findings) -> StepReport:
    step = next((step for step in found.steps if step.patch == patch), None)
    build = next((build for build in found.builds if build.name == patch), None)
    return StepReport(
        patch=patch,
        parent=step.parent if step else "",
        verdict=step.verdict if step else None,
        checks=step.checks if step else (),
        build=report_build(build) if build else None,
        speed=next((speed for speed in found.speeds if speed.step == patch), None),
        claims=dict(series.claim(patch).numerics),
    )


def _list_notes(series: Series, topic: str) -> Iterator[str]:
    for landed in series.landed:
        if landed.topic == topic:
            yield f"{landed.patch}: upstream has it since {landed.version} ({landed.reference})"
    for dropped in series.dropped:
        if dropped.topic == topic:
            yield f"{dropped.patch}: given up, {dropped.reason}"


def _list_unmeasured(report: Report) -> Iterator[str]:
    """What a reader could believe was measured, and was not."""
    for step in report.steps:
        if step.verdict is None:
            yield f"{step.patch} was not judged: the run ended before it."
        yield from list_unexecuted(step.patch, step.claims, report.header.backends)
    compared = [step.speed for step in report.steps if step.speed] + [report.tip]
    if not any(speed.cells for speed in compared if speed):
        yield "Speed: no cell was measured, so nothing here says that a step is not slower."


def list_unexecuted(
    patch: str, claims: Mapping[str, str], backends: Sequence[str]
) -> Iterator[str]:
    """Backends that a patch claims something about and that nothing was executed on."""
    for backend, claim in claims.items():
        if backend not in backends:
            ran = ", ".join(backends)
            yield f"{patch} claims {claim} on {backend}; this run executed on {ran} only."


def _count_checks(checks: Sequence[CheckResult]) -> Count:
    kinds = [_kind(check) for check in checks if check.check != SPEED]
    return Count("checks", **{kind: kinds.count(kind) for kind in sorted(set(kinds))})


def _kind(check: CheckResult) -> str:
    special = {
        Verdict.NOT_RUN: "skipped",
        Verdict.INVALID: "invalid",
        Verdict.IDENTICAL: "identical",
    }
    return special.get(check.verdict, "cached" if check.cached else "run")


def _count_cells(speeds: Sequence[Comparison]) -> Count:
    verdicts = [cell.verdict for speed in speeds for cell in speed.cells]
    identical, invalid = verdicts.count(Speed.IDENTICAL), verdicts.count(Speed.INVALID)
    return Count(
        "speed cells",
        run=len(verdicts) - identical - invalid,
        identical=identical,
        skipped=sum(len(speed.skipped) for speed in speeds),
        invalid=invalid,
    )
