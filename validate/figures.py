"""The project's own numbers: what was measured, in which unit, against which limit."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upstream.git import git_version

BEGIN, END = "<!-- figures: nox -s bench -- --write -->", "<!-- end of figures -->"


@dataclass(frozen=True)
class Figure:
    """One number. `limit` is an upper bound, or a lower one when `at_least`; None: no bound."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False
    detail: str = ""

    @property
    def met(self) -> bool:
        """Whether the number keeps its bound."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def bound(self) -> str:
        """The bound as text."""
        if self.limit is None:
            return "-"
        return f"{'>=' if self.at_least else '<='} {self.limit:g} {self.unit}"


def describe_machine() -> str:
    """Processor count and model, system, Python, git: what a figure depends on."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    models = [line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line]
    model = models[0] if models else platform.processor() or "unknown processor"
    git = ".".join(map(str, git_version()))
    return (
        f"{os.cpu_count()} x {model}, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, git {git}"
    )


def format_figures(figures: Sequence[Figure]) -> str:
    """A Markdown table, one figure a row."""
    rows = ["| what | measured | bound | | how |", "|---|---:|---:|---|---|"]
    rows += [
        f"| {f.name} | {f.value:.3g} {f.unit} | {f.bound} | {'met' if f.met else 'NOT MET'} "
        f"| {f.detail} |"
        for f in figures
    ]
    return "\n".join(rows)


def store_figures(path: Path, figures: Sequence[Figure]) -> None:
    """Replace the generated part of a document; rows that were not measured now are kept."""
    text = path.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    old, _, after = rest.partition(END)
    fresh = {figure.name for figure in figures}
    kept = [line for line in old.splitlines() if _row_name(line) not in {*fresh, ""}]
    stamp = f"{time.strftime('%Y-%m-%d')}, {describe_machine()}"
    table = format_figures(
        [
            Figure(f.name, f.value, f.unit, f.limit, f.at_least, f"{f.detail}; {stamp}")
            for f in figures
        ]
    )
    path.write_text(f"{before}{BEGIN}\n" + "\n".join([table, *kept]) + f"\n{END}{after}", "utf-8")


def _row_name(line: str) -> str:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    is_row = line.startswith("|") and len(cells) == 5 and cells[0] not in ("what", "---")
    return cells[0] if is_row else ""
