"""What the commands of this package print: tables for people, documents for --json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from validate.build import StepBuild
from validate.report_model import Comparison, document
from validate.step_line import cut_middle, describe_step
from validate.verdict import StepVerdict, Verdict

NAMES_SHOWN = 4
WIDTH, NAME_WIDTH = 120, 44


def tabulate_builds(steps: Sequence[StepBuild]) -> str:
    """One line a step: patch, state, seconds, files equal to the parent's, the others by name."""
    header = ("patch", "state", "seconds", "identical", "different from the parent")
    rows = [
        (step.name, step.state, f"{step.seconds:.1f}", _count_identical(step), _describe_rest(step))
        for step in steps
    ]
    return align((header, *rows))


def document_builds(steps: Sequence[StepBuild]) -> list[dict[str, object]]:
    """The same for --json, with every name, key and log."""
    return [_document_build(step) for step in steps]


def tabulate_verdicts(steps: Sequence[StepVerdict], speeds: Sequence[Comparison] = ()) -> str:
    """One line a step, at most WIDTH wide: patch, verdict, its checks and its speed in words."""
    names = [cut_middle(step.patch, NAME_WIDTH) for step in steps]
    verdicts = [step.verdict.value for step in steps]
    left = [
        max(map(len, (head, *column))) for head, column in (("patch", names), ("verdict", verdicts))
    ]
    room = WIDTH - sum(left) - 2 * len(left)
    compared = {speed.step: speed for speed in speeds}
    rows = [
        (name, verdict, describe_step(step, compared.get(step.patch), room))
        for name, verdict, step in zip(names, verdicts, steps, strict=True)
    ]
    return align((("patch", "verdict", "checks"), *rows))


def list_not_run(steps: Sequence[StepVerdict]) -> list[str]:
    """What was not run and why, in full: a row of the table has no room for it."""
    found: dict[str, list[str]] = {}
    for step in steps:
        for check in step.checks:
            if check.verdict is Verdict.NOT_RUN:
                found.setdefault(f"{check.check} not run: {check.detail}", []).append(step.patch)
    return [f"{said}\n  for {', '.join(patches)}" for said, patches in found.items()]


def align(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, one line a row; the last column is never cut or wrapped."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def document_verdicts(
    steps: Sequence[StepVerdict], speeds: Sequence[Comparison] = ()
) -> list[dict[str, object]]:
    """The same for --json, with the facts of every check and the numbers of every cell."""
    compared = {speed.step: speed for speed in speeds}
    return [
        {
            "patch": step.patch,
            "parent": step.parent,
            "verdict": step.verdict.value,
            "checks": [asdict(check) | {"verdict": check.verdict.value} for check in step.checks],
            "speed": document(compared.get(step.patch)),
        }
        for step in steps
    ]


def shorten(names: Sequence[str]) -> str:
    """The first names and how many more there are."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def _document_build(step: StepBuild) -> dict[str, object]:
    difference, binaries, error = step.difference, step.binaries, step.error
    return {
        "patch": step.name,
        "tree": step.plan.tree,
        "key": step.plan.key,
        "state": step.state,
        "seconds": round(step.seconds, 3),
        "folder": str(binaries.folder) if binaries else None,
        "absent": list(binaries.absent) if binaries else [],
        "identical": difference.identical if difference else None,
        "different": list(difference.changed) if difference else None,
        "gone": list(difference.gone) if difference else None,
        "error": {"file": error.file, "line": error.line, "message": error.message}
        if error
        else None,
        "log": str(step.log) if step.log else None,
    }


def _count_identical(step: StepBuild) -> str:
    if step.difference is None:
        return "-"
    return f"{step.difference.identical}/{step.difference.identical + len(step.difference.changed)}"


def _describe_rest(step: StepBuild) -> str:
    if step.error is not None:
        return str(step.error)
    parts = [shorten(step.difference.changed)] if step.difference else []
    if step.difference and step.difference.gone:
        parts.append(f"gone: {shorten(step.difference.gone)}")
    if step.binaries and step.binaries.absent:
        parts.append(f"absent: {', '.join(step.binaries.absent)}")
    return "; ".join(filter(None, parts))
