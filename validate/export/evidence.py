"""EVIDENCE.md: measured tables and nothing else, with what was not measured named.

A part of the project that measures something new adds a provider to SECTIONS: a function from what
is known of the topic to a `Section`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from validate import backend_ops, divergence, results, teeth
from validate.cells import Speed
from validate.export.model import Exported, Trial
from validate.export.template import disclose
from validate.hip.check import CHECK as HIP
from validate.isa.check import CHECK as ISA
from validate.isa.tables import format_isa_markdown
from validate.policy import Outcome
from validate.report_build import list_unexecuted
from validate.report_model import Comparison
from validate.verdict import CheckResult, StepVerdict, Verdict

NOT_ALONE = "not validated alone: exported with --no-build"


@dataclass(frozen=True)
class Section:
    """Tables under a heading, as Markdown; `missing` says what a reader could expect and was not
    measured."""

    title: str
    tables: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


EvidenceSection = Callable[[Exported, Trial], Section]


def write_evidence(exported: Exported, messages: Sequence[str]) -> str:
    """The whole file. The same branch and the same results give the same bytes."""
    parts = [f"# {exported.name}: what was measured", _identify(exported, messages)]
    if exported.trial is None:
        parts += ["## Not measured", f"* {NOT_ALONE}"]
    else:
        parts += _write_sections(exported, exported.trial)
    parts += _write_waivers(exported)
    return "\n\n".join(parts) + "\n"


def _write_sections(exported: Exported, trial: Trial) -> list[str]:
    sections = [provide(exported, trial) for provide in SECTIONS]
    parts = [
        text for each in sections if each.tables for text in (f"## {each.title}", *each.tables)
    ]
    missing = [f"* {line}" for each in sections for line in each.missing]
    parts += ["## Not measured", "\n".join(missing)] if missing else []
    return parts


def _identify(exported: Exported, messages: Sequence[str]) -> str:
    now = exported.history.now
    facts = {
        "upstream": f"{now.upstream}, commit {now.base}",
        "source": f"package {exported.snapshot}" if exported.snapshot else "git remote",
        "branch": f"{exported.branch} {now.name}, commit {now.tip}",
        "patches": ", ".join(step.patch for step in exported.alone.own),
        "on top of": ", ".join(exported.alone.topic.requires) or "plain upstream",
        "AI usage": disclose(messages) or "no Assisted-by: trailer",
    }
    if (trial := exported.trial) is not None:
        facts |= dict(trial.header.machine) | dict(trial.header.toolchain)
    return tabulate(("what", "value"), list(facts.items()))


def _write_waivers(exported: Exported) -> list[str]:
    waived = [
        (finding.rule, finding.where, finding.what, finding.source, finding.reason)
        for finding in exported.findings
        if finding.outcome is Outcome.WAIVED
    ]
    if not waived:
        return []
    header = ("rule", "where", "finding", "source", "reason of the waiver")
    return ["## Rules waived", tabulate(header, waived)]


def show_verdicts(exported: Exported, trial: Trial) -> Section:
    """Every check of every patch of the topic, against the step before it."""
    rows = [
        (step.patch, step.parent, check.check, check.verdict.value, check.detail)
        for step in _own(exported, trial)
        for check in step.checks
    ]
    failed = [build for build in trial.builds if build.error is not None]
    missing = [f"{build.name} does not build: {build.error}" for build in failed]
    for step in exported.alone.own:
        claims = exported.series.claim(step.patch).numerics
        missing += list_unexecuted(step.patch, claims, trial.header.backends)
    table = tabulate(("patch", "against", "check", "verdict", "detail"), rows)
    return Section("Checks", (table,) if rows else (), tuple(missing))


def show_numerics(exported: Exported, trial: Trial) -> Section:
    """Perplexity, KL divergence and NMSE, where the binaries differ from the parent's."""
    rows = [row for step, check in _list_checks(exported, trial) for row in _figures(step, check)]
    if rows:
        return Section("Numerics", (tabulate(("patch", "figure", "parent", "patched"), rows),))
    same = all(step.checks for step in _own(exported, trial))
    why = "the programs are byte-identical to the parent's" if same else "nothing ran"
    return Section("Numerics", missing=(f"perplexity and KL divergence: {why}",))


def _figures(step: StepVerdict, check: CheckResult) -> Iterator[tuple[str, str, str, str]]:
    facts = check.facts
    if check.check == results.CHECK and "nmse" in facts:
        yield step.patch, "NMSE of the logits", "0", f"{facts['nmse']:.3e}"
    if check.check == divergence.CHECK and "step" in facts:
        before, after = (f"{facts[arm]['perplexity']:.4f}" for arm in ("parent", "step"))
        yield step.patch, "perplexity", before, after
        for name, found in facts.get("divergence", {"all": "0 (the same logits)"}).items():
            yield step.patch, f"KL divergence: {name}", "-", _plain(found)
    if check.check == divergence.CHECK:
        for kind in ("model", "floats"):
            for name, found in facts.get(kind, {}).get("found", {}).items():
                floor = f"{facts[kind]['floor'][name]:.3g} (on its own logits)"
                yield step.patch, f"KL divergence, {kind}: {name}", floor, f"{found:.3g}"


def show_backend_ops(exported: Exported, trial: Trial) -> Section:
    """test-backend-ops: cases compared between two backends."""
    rows, missing = [], []
    for step, check in _list_checks(exported, trial):
        if check.check != backend_ops.CHECK or check.verdict is Verdict.IDENTICAL:
            continue
        runs = check.facts.get("runs", ())
        if runs and runs[0]["compared"]:
            counts = (str(runs[0]["compared"]), str(len(runs[0]["failed"])))
            device = str(check.facts["device"])
            rows.append((step.patch, device, *counts, check.verdict.value))
        else:
            missing.append(f"test-backend-ops for {step.patch}: {check.detail}")
    if not rows and not missing:
        missing = ["test-backend-ops on a second backend: no check of these patches ran it"]
    header = ("patch", "device", "cases compared", "failed", "verdict")
    tables = (tabulate(header, rows),) if rows else ()
    return Section("test-backend-ops", tables, tuple(missing))


def show_speed(exported: Exported, trial: Trial) -> Section:
    """llama-bench's tables of what the store has."""
    compared = {speed.step for speed in trial.speeds if speed.cells}
    lacking = [step.patch for step in exported.alone.own if step.patch not in compared]
    missing = tuple(
        f"speed of {patch}: no finished measurement in the store (nox -s export -- --profile quick)"
        for patch in lacking
    )
    same = list(filter(None, map(_say_identical, trial.speeds)))
    tables = tuple(filter(None, (trial.bench, "\n".join(f"* {line}" for line in same))))
    return Section("llama-bench", tables, missing)


def _say_identical(speed: Comparison) -> str:
    names = [cell.cell.name for cell in speed.cells if cell.verdict is Speed.IDENTICAL]
    said = f"{speed.step} runs the same bytes as {speed.parent}: {', '.join(names)}"
    return said if names else ""


def show_own_checks(exported: Exported, trial: Trial) -> Section:
    """What the patches' own checks measured, without the patch and with it; compiler statistics
    are such rows."""
    tables: list[str] = []
    for step, check in _list_checks(exported, trial):
        if check.check == teeth.CHECK:
            tables += _compare_rows(step.patch, check.facts)
    return Section("The patches' own checks", tuple(tables))


def show_isa(exported: Exported, trial: Trial) -> Section:
    """What the compilers say of every pipeline and kernel that a patch changes."""
    tables, missing = [], []
    for step, check in _list_checks(exported, trial):
        if check.check not in (ISA, HIP) or check.verdict is Verdict.IDENTICAL:
            continue
        if changes := check.facts.get("changes"):
            tables.append(f"{step.patch}:\n\n{format_isa_markdown(changes)}")
        else:
            missing.append(f"compiler statistics of {step.patch}: {check.detail}")
    return Section("Compiler statistics", tuple(tables), tuple(missing))


def _compare_rows(patch: str, facts: Mapping[str, Any]) -> Iterator[str]:
    arms = {"with the patch": facts.get("step"), "without": facts.get("parent")}
    for arm, document in arms.items():
        said = document if isinstance(document, dict) else {}
        rows = said.get("rows")
        if not isinstance(rows, list) or not rows or not all(isinstance(r, dict) for r in rows):
            continue
        header = tuple(dict.fromkeys(key for row in rows for key in row))
        cells = [tuple(_plain(row.get(key)) for key in header) for row in rows]
        yield f"{patch}, {said.get('check', 'check')}, {arm}:\n\n{tabulate(header, cells)}"


def _plain(value: object) -> str:
    return "-" if value is None else str(value)


# What EVIDENCE.md shows, in order.
SECTIONS: tuple[EvidenceSection, ...] = (
    show_verdicts,
    show_numerics,
    show_backend_ops,
    show_speed,
    show_own_checks,
    show_isa,
)


def tabulate(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_escape, line))} |" for line in lines)


def _escape(text: str) -> str:
    return " ".join(str(text).replace("|", "\\|").split())


def _own(exported: Exported, trial: Trial) -> list[StepVerdict]:
    names = {step.patch for step in exported.alone.own}
    return [step for step in trial.verdicts if step.patch in names]


def _list_checks(exported: Exported, trial: Trial) -> Iterator[tuple[StepVerdict, CheckResult]]:
    for step in _own(exported, trial):
        for check in step.checks:
            yield step, check
