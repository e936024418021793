"""Tables for the text of a pull request, in llama-bench's own columns: maintainers read those.

Source: `markdown_printer` in tools/llama-bench/llama-bench.cpp of llama.cpp (b11549): field names,
their short forms, widths, and how sizes, parameters and tests are written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from validate.cells import Arm, Judged, Sample, Speed
from validate.forest import say_effect
from validate.report_model import Comparison

Row = Mapping[str, Any]  # one line of `llama-bench -o jsonl`
Means = Mapping[tuple[str, Arm], "Spread"]
FIELDS = ("model", "size", "params", "backend", "n_threads", "test", "t/s")
SETUP = ("model", "size", "params", "backend", "n_threads")
SHORT = {
    "n_gpu_layers": "ngl",
    "split_mode": "sm",
    "n_threads": "threads",
    "no_kv_offload": "nkvo",
    "flash_attn": "fa",
    "load_mode": "lm",
    "embeddings": "embd",
    "no_op_offload": "nopo",
    "no_host": "noh",
    "repack": "rpk",
    "devices": "dev",
    "tensor_split": "ts",
    "tensor_buft_overrides": "ot",
    "fit_target": "fitt",
    "fit_min_ctx": "fitc",
}
# Negative: text, to the left. What is not named is as wide as its name, at least 10.
WIDTHS = {
    "model": -30,
    "size": 10,
    "params": 10,
    "n_gpu_layers": 3,
    "n_threads": 7,
    "n_batch": 7,
    "n_ubatch": 8,
    "type_k": 6,
    "type_v": 6,
    "split_mode": 6,
    "load_mode": 10,
    "flash_attn": 3,
    "devices": -12,
    "no_op_offload": 4,
    "no_host": 4,
    "repack": 3,
    "test": 15,
    "t/s": 20,
}
NUMBERS = (
    *("n_cpu_moe", "poll", "main_gpu", "cpu_strict", "no_kv_offload", "embeddings"),
    *("fit_target", "fit_min_ctx"),
)
MIB, GIB = 1024**2, 1024**3


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of an arm's samples (0 for a single one)."""

    mean: float
    deviation: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} \u00b1 {self.deviation:.2f}"


def format_bench(rows: Sequence[Row], fields: Sequence[str] = FIELDS) -> str:
    """What `llama-bench -o md` prints for these rows, without the line on the build."""
    widths = [_width(field) for field in fields]
    lines = [[SHORT.get(field, field) for field in fields]]
    lines += [[_value(field, row) for field in fields] for row in rows]
    return _format(widths, lines)


def format_comparison(setup: Row, comparison: Comparison, means: Means) -> str:
    """llama-bench's columns, then both arms, the change with its interval, and the verdict.

    `setup` is any row of the run. Operators of test-backend-ops, in us, get a table of their own.
    """
    tables = []
    for unit in ("t/s", "us"):
        cells = [cell for cell in comparison.cells if cell.cell.unit == unit]
        fields = SETUP if unit == "t/s" else ("backend",)
        if cells:
            tables.append(_compare(setup, comparison, means, cells, fields))
    return "\n\n".join(tables)


def format_all(comparisons: Sequence[Comparison], samples: Mapping[str, Sequence[Sample]]) -> str:
    """A titled table for every comparison that was measured; `samples` by the name of its step.

    The facts of llama-bench's samples are its rows, so they say what the columns show.
    """
    parts = []
    for comparison in comparisons:
        found = samples.get(comparison.step, ())
        setup = next((each.facts for each in found if "model_type" in each.facts), None)
        measured = any(cell.verdict is not Speed.IDENTICAL for cell in comparison.cells)
        if setup is not None and measured:
            title = f"{_name_arm(comparison.step)} against {_name_arm(comparison.parent)}"
            parts.append(f"{title}:\n\n{format_comparison(setup, comparison, summarise(found))}")
    return "\n\n".join(parts)


def summarise(samples: Sequence[Sample]) -> dict[tuple[str, Arm], Spread]:
    """Mean and deviation of every cell and arm."""
    values: dict[tuple[str, Arm], list[float]] = defaultdict(list)
    for sample in samples:
        values[sample.cell, sample.arm].append(sample.value)
    return {
        key: Spread(fmean(found), stdev(found) if len(found) > 1 else 0.0)
        for key, found in values.items()
    }


def _compare(
    setup: Row,
    comparison: Comparison,
    means: Means,
    cells: Sequence[Judged],
    fields: Sequence[str],
) -> str:
    unit = cells[0].cell.unit
    before, after = (_name_arm(name) for name in (comparison.parent, comparison.step))
    header = [SHORT.get(field, field) for field in fields]
    header += ["test", f"{unit} {before}", f"{unit} {after}", "change of speed", "verdict"]
    lines = [header]
    for cell in cells:
        arms = (_show(means.get((cell.cell.name, arm))) for arm in ("A", "B"))
        line = [_value(field, setup) for field in fields]
        lines.append([*line, cell.cell.name, *arms, _change(cell), cell.verdict.value])
    widths = [_width(field) for field in fields]
    widths += [15, max(20, len(header[-4])), max(20, len(header[-3])), 24, -12]
    return _format(widths, lines)


def _format(widths: Sequence[int], lines: Sequence[Sequence[str]]) -> str:
    rule = [f"{'-' * (abs(width) - 1)}{':' if width > 0 else '-'}" for width in widths]
    rows = [
        [_pad(_escape(text), width) for text, width in zip(line, widths, strict=True)]
        for line in lines
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))


def _pad(text: str, width: int) -> str:
    return text.rjust(width) if width > 0 else text.ljust(-width)


def _escape(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _width(field: str) -> int:
    width = max(len(field), 10)
    return WIDTHS.get(field, width if field in NUMBERS else -width)


def _value(field: str, row: Row) -> str:
    match field:
        case "model":
            return str(row["model_type"])
        case "size":
            size = int(row["model_size"])
            return f"{size / MIB:.2f} MiB" if size < GIB else f"{size / GIB:.2f} GiB"
        case "params":
            number = int(row["model_n_params"])
            return f"{number / 1e6:.2f} M" if number < 1e9 else f"{number / 1e9:.2f} B"
        case "backend":
            return str(row["backends"])
        case "test":
            return name_test(row)
        case "t/s":
            return str(Spread(row["avg_ts"], row["stddev_ts"]))
    value = row[field]
    return str(int(value)) if isinstance(value, bool) else str(value)


def name_test(row: Row) -> str:
    """`pp512`, `tg128 @ d4096`, `pp512+tg128`."""
    prompt, generated, depth = row["n_prompt"], row["n_gen"], row["n_depth"]
    if bool(prompt) is bool(generated):
        name = f"pp{prompt}+tg{generated}"
    else:
        name = f"pp{prompt}" if prompt else f"tg{generated}"
    return f"{name} @ d{depth}" if depth else name


def _show(spread: Spread | None) -> str:
    return str(spread) if spread else "-"


def _change(cell: Judged) -> str:
    return say_effect(cell) if cell.verdict is not Speed.IDENTICAL else "same bytes"


def _name_arm(name: str) -> str:
    return name.removesuffix(".patch")
