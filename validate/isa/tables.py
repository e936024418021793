"""The outcome for people, for --json, and for pull requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from validate.isa.banks import WIDTHS, conflict, stride_of
from validate.isa.cliffs import Cliff, count_halvings, find_cliffs, list_waves
from validate.isa.judge import TIP, Change, StepChanges, Word, count_spills
from validate.isa.run import IsaRun, Scan, Scope
from validate.isa.statistics import Numbers
from validate.isa.variants import Subject, Variant
from validate.report import align

SHOWN = 12  # changed pipelines of a step in the table for people; --json has all
ORDER = list(Word)
LEFT_OUT = (
    "left out: changed mat-vecs of several subgroups, which ggml-vulkan runs on Intel and NVIDIA "
    "only; they too: nox -s isa -- --mat-vec"
)
MODELLED = ("instructions", "inverse_throughput")  # only RADV says them
Rows = list[tuple[str, ...]]
MARKDOWN_KEYS = ("vgprs", "spilled_vgprs", "scratch", "lds", "waves", "inverse_throughput")
MARKDOWN_HEAD = (
    *("pipeline", "verdict", "VGPRs", "spilled VGPRs", "scratch", "LDS", "waves"),
    *("inverse throughput", "note"),
)
CLIFF_HEAD = (
    *("compiler", "occupancy cliff at the tip", "columns", "waves", "cost of a row"),
    *("added column / median", "with half the rows"),
)
HEAD = ("pipeline", "verdict", "VGPRs", "spilled", "LDS", "waves", "instructions", "inv. thr.", "")


def format_run(run: IsaRun) -> str:
    """Steps, their worst pipelines, totals, and what is not in them."""
    parts = [_format_head(run), format_changes(run.steps), align(_total_rows(run))]
    parts += [align(rows)] if len(rows := list_cliffs(run.scans)) > 1 else []
    return "\n\n".join((*parts, _format_rest(run)))


def format_changes(steps: Sequence[StepChanges]) -> str:
    """A table of steps, then one for each with its worst pipelines and kernels."""
    parts = [_format_step(step) for step in steps if step.changes]
    return "\n\n".join((align(_step_rows(steps)), *parts))


def format_isa_markdown(changes: Sequence[Mapping[str, Any]]) -> str:
    """Changed pipelines as Markdown tables, one a compiler; empty when there are none.

    `changes` are what `document_change` makes: a run's, or the facts "changes" of the checks "isa"
    and "hip".
    """
    parts = []
    for compiler in dict.fromkeys(str(change["compiler"]) for change in changes):
        rows = [change for change in changes if change["compiler"] == compiler]
        lines = [MARKDOWN_HEAD, ("---",) * len(MARKDOWN_HEAD), *map(_markdown_cells, rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"{compiler} (compiled, nothing executed):\n\n{table}\n")
    return "\n".join(parts)


def list_changes(run: IsaRun, patches: Iterable[str]) -> list[dict[str, object]]:
    """The changed pipelines of some patches, the worst first."""
    wanted = set(patches)
    changes = [change for step in run.steps if step.step in wanted for change in step.changes]
    return [document_change(change) for change in _worst_first(changes)]


def document_run(run: IsaRun) -> dict[str, object]:
    """Everything, for --json."""
    return {
        "upstream": run.upstream,
        "scope": run.scope.value,
        "glslc": run.glslc,
        "compilers": [_document_compiler(run, each.name) for each in run.compilers],
        "steps": [_document_step(step) for step in run.steps],
        "totals": [document_scan(scan) for scan in run.scans],
        "not used by this device": list(run.idle),
        "extensions that glslc lacks": list(run.off),
        "hip": run.hip,
    }


def document_scan(scan: Scan) -> dict[str, object]:
    """The totals of a tree under a compiler, and every pipeline that spills."""
    return {
        "tree": scan.tree,
        "compiler": scan.compiler,
        "recorded": scan.recorded,
        "compiled": len(scan.numbers),
        "spilled": _spills(scan.numbers),
        "mat-vec": _count(scan.numbers, ("mat-vec", "mat-vec id")),
        "float mat-vec, f32, one subgroup": _count_small(scan.numbers),
        "the same with 2 and 4 rows": {
            "compiled": len(scan.swept),
            "spilled": _spills(scan.swept),
            "spilled at 4 to 8 columns": _spills(
                {each: numbers for each, numbers in scan.swept.items() if each.columns >= 4}
            ),
        },
        "spilling": {
            variant.label: count_spills(numbers)
            for variant, numbers in {**scan.numbers, **scan.swept}.items()
            if count_spills(numbers)
        },
        "waves by columns": list_waves(scan.numbers),
        "columns that halve the waves": count_halvings(scan.numbers),
        "cliffs": [_document_cliff(each) for each in find_cliffs(scan.numbers, scan.halved)],
    }


def describe_banks(variant: Subject) -> str:
    """The stride of a coopmat tile and the bank conflict factor by width of a load."""
    stride = stride_of(variant)
    if stride is None:
        return ""
    factors = {width: conflict(stride, width) for width in WIDTHS}
    words = [f"{width} {factor or 'unaligned'}" for width, factor in factors.items()]
    return f"stride {stride}: {', '.join(words)}"


def list_cliffs(scans: Iterable[Scan]) -> Rows:
    """The occupancy cliffs of the tip, a row each below a head."""
    rows: Rows = [CLIFF_HEAD]
    for scan in scans:
        if scan.tree == TIP:
            found = find_cliffs(scan.numbers, scan.halved)
            rows += [(scan.compiler, *_cliff_cells(each)) for each in found]
    return rows


def _cliff_cells(cliff: Cliff) -> tuple[str, ...]:
    costs = [f"{cost:.0f}" for cost in cliff.costs]
    lever = "-" if cliff.halved is None else f"{cliff.halved:.2f}"
    shown = (_say(cliff.waves), _say(costs), f"{cliff.steepness:.1f}", lever)
    return (cliff.label, cliff.columns, *shown)


def _document_cliff(cliff: Cliff) -> dict[str, object]:
    columns = cliff.before.columns, cliff.after.columns
    return {
        "pipeline": cliff.label,
        "columns": columns,
        "rows": (cliff.before.rows, cliff.after.rows),
        "waves": cliff.waves,
        "cost of a row": cliff.costs,
        "steepness": cliff.steepness,
        "cost with half the rows": cliff.halved,
    }


def _format_head(run: IsaRun) -> str:
    names = " and ".join(each.name for each in run.compilers)
    return f"{run.upstream}, compiled by {names}, {run.glslc}; nothing was executed"


def _step_rows(steps: Sequence[StepChanges]) -> Rows:
    rows: Rows = [("step", "against", "verdict", "same", "changed", "new", "gone", "left out")]
    for step in steps:
        pairs = {id(change.pair) for change in step.changes}
        changed = len(pairs) - step.new - step.gone
        counts = map(str, (step.same, changed, step.new, step.gone, step.left))
        word = step.word.value if step.changes else "left out" if step.left else "same"
        rows.append((step.step, step.parent, word, *counts))
    return rows


def _worst_first(changes: Sequence[Change]) -> list[Change]:
    def rank(change: Change) -> tuple[int, int, float]:
        return (-ORDER.index(change.word), -change.spilled, -(change.worse or 0.0))

    return sorted(changes, key=rank)


def _change_rows(step: StepChanges) -> Rows:
    rows: Rows = [("compiler", *HEAD)]
    ranked = _worst_first(step.changes)
    rows += [(change.compiler, *_cells(change)) for change in ranked[:SHOWN]]
    return rows


def _format_step(step: StepChanges) -> str:
    hidden = len(step.changes) - SHOWN
    rest = f"\nand {hidden} less bad ones (--json has all)" if hidden > 0 else ""
    return f"{step.step}\n{align(_change_rows(step))}{rest}"


def _cells(change: Change) -> tuple[str, ...]:
    variant = change.pair.variant
    keys = ("vgprs", "", "lds", "waves", "instructions", "inverse_throughput")
    cells = [_arrow(change, key) if key else _spill_arrow(change) for key in keys]
    notes = [change.reason, _describe_scratch(change), _describe_loads(change)]
    notes.append(describe_banks(variant))
    return (variant.label, change.word.value, *cells, "; ".join(filter(None, notes)))


def _arrow(change: Change, key: str) -> str:
    return _say([_value(each, key) for each in _sides(change)])


def _value(numbers: Numbers | None, key: str) -> object:
    if numbers is None or numbers.error:
        return "-"
    return getattr(numbers, key) or ("-" if key in MODELLED else 0)


def _describe_scratch(change: Change) -> str:
    before, after = (each.scratch if each else 0 for each in _sides(change))
    return "" if before == after else f"scratch {before} -> {after}"


def _spill_arrow(change: Change) -> str:
    return _say([count_spills(each) if each and not each.error else "-" for each in _sides(change)])


def _sides(change: Change) -> tuple[Numbers | None, Numbers | None]:
    return change.before, change.after


def _say(values: Sequence[object]) -> str:
    return str(values[0]) if values[0] == values[1] else f"{values[0]} -> {values[1]}"


def _describe_loads(change: Change) -> str:
    before, after = (each.loads if each else {} for each in _sides(change))
    if before == after:
        return ""
    texts = [
        " ".join(f"{kind} {count}" for kind, count in each.items()) for each in (before, after)
    ]
    return f"LDS loads {texts[0] or 'none'} -> {texts[1] or 'none'}"


def _total_rows(run: IsaRun) -> Rows:
    rows: Rows = [("tree", "compiler", "compiled", "spilled registers", "mat-vec", "2 and 4 rows")]
    for scan in run.scans:
        compiled = f"{len(scan.numbers)} of {scan.recorded}"
        found = _count(scan.numbers, ("mat-vec", "mat-vec id"))
        vectors = f"{found['spilled']} in {found['compiled']}"
        swept = f"{_spills(scan.swept)} in {len(scan.swept)}" if scan.swept else "not compiled"
        total = str(_spills(scan.numbers)) if scan.numbers else "-"
        rows.append((scan.tree, scan.compiler, compiled, total, vectors, swept))
    return rows


def _format_rest(run: IsaRun) -> str:
    lines = [
        f"not derived: {len(run.idle)} generated shaders that this device's host code sets up "
        "nowhere (--json names them)"
    ]
    if run.hip:
        lines.insert(0, run.hip)
    if run.off:
        lines.append(f"not generated, glslc lacks: {', '.join(run.off)}")
    if any(step.left for step in run.steps):
        lines.append(LEFT_OUT)
    if run.scope is not Scope.ALL:
        lines.append("totals are over what was compiled; all of it: nox -s isa -- --all")
    return "\n".join(lines)


def _spills(numbers: Mapping[Variant, Numbers]) -> int:
    return sum(count_spills(each) for each in numbers.values())


def _count(numbers: Mapping[Variant, Numbers], families: Sequence[str]) -> dict[str, int]:
    chosen = {each: found for each, found in numbers.items() if each.family in families}
    return {"compiled": len(chosen), "spilled": _spills(chosen)}


def _count_small(numbers: Mapping[Variant, Numbers]) -> dict[str, int]:
    chosen = {v: found for v, found in numbers.items() if v.small and v.input == "f32"}
    return {"compiled": len(chosen), "spilled": _spills(chosen)}


def _document_compiler(run: IsaRun, name: str) -> dict[str, object]:
    compiler = next(each for each in run.compilers if each.name == name)
    fields = ("name", "device", "version", "fingerprint")
    return {key: getattr(compiler, key) for key in fields} | {"place": str(compiler.place.top)}


def _document_step(step: StepChanges) -> dict[str, object]:
    counts = {"same": step.same, "new": step.new, "gone": step.gone, "left out": step.left}
    changes = [document_change(change) for change in _worst_first(step.changes)]
    return {"step": step.step, "parent": step.parent, **counts, "changes": changes}


def document_change(change: Change) -> dict[str, object]:
    """One changed pipeline with all numbers of both sides."""
    variant = change.pair.variant
    return {
        "compiler": change.compiler,
        "pipeline": variant.label,
        "family": variant.family,
        "shader": variant.shader,
        "verdict": change.word.value,
        "reason": change.reason,
        "worse": change.worse,
        "spec": [
            list(each.spec) if each else None for each in (change.pair.before, change.pair.after)
        ],
        "before": asdict(change.before) | {"loads": change.before.loads} if change.before else None,
        "after": asdict(change.after) | {"loads": change.after.loads} if change.after else None,
        "banks": describe_banks(variant),
    }


def _markdown_cells(change: Mapping[str, Any]) -> tuple[str, ...]:
    before, after = change["before"] or {}, change["after"] or {}
    cells = [
        _say(
            [
                side.get(key) or ("-" if key in MODELLED or not side else 0)
                for side in (before, after)
            ]
        )
        for key in MARKDOWN_KEYS
    ]
    note = "; ".join(filter(None, (change["reason"], change["banks"])))
    texts = (change["pipeline"], change["verdict"], *cells, note)
    return tuple(" ".join(text.replace("|", "/").split()) for text in texts)
