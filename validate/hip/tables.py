"""The HIP half alone, for people and for --json; rows are those of `nox -s isa`."""

from __future__ import annotations

from upstream.errors import ExitCode
from validate.hip.run import HipRun, HipStep, list_few
from validate.isa.judge import exit_code
from validate.isa.tables import document_change, format_changes


def hip_exit_code(run: HipRun) -> ExitCode:
    """1 the gate refuses a step, 4 a file has no numbers, 0 else (also where nothing changed)."""
    return exit_code(run.judged)


def format_hip(run: HipRun) -> str:
    """Steps that change a file, and their worst kernels."""
    if run.compiler is None:
        return run.summary
    files = "\n".join(_format_files(step) for step in run.steps if step.files)
    head = f"HIP: compiled by {run.compiler.version} for {run.compiler.device}"
    head += "; nothing was executed"
    return "\n\n".join((head, files, format_changes(run.judged)))


def document_hip(run: HipRun) -> dict[str, object]:
    """Everything; `cases` (files of steps) 0 means that nothing was judged."""
    fields = ("name", "device", "version", "fingerprint")
    compiler = {key: getattr(run.compiler, key) for key in fields} if run.compiler else None
    return {
        "compiler": compiler,
        "cases": sum(len(step.files) for step in run.steps),
        "steps": [_document_step(step) for step in run.steps],
    }


def _document_step(step: HipStep) -> dict[str, object]:
    found = step.changes
    counts = {key: getattr(found, key) for key in ("same", "new", "gone")}
    changes = [document_change(change) for change in found.changes]
    head = {"step": found.step, "parent": found.parent, "files": list(step.files)}
    return head | counts | {"changes": changes}


def _format_files(step: HipStep) -> str:
    return f"{step.changes.step} against {step.changes.parent}: {list_few(step.files)}"
