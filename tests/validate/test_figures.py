"""The project's own numbers: bounds, the generated table, and that the bench really measures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from validate.figures import BEGIN, END, Figure, format_figures, store_figures

ROOT = Path(__file__).resolve().parents[2]


def test_a_bound_is_kept_from_either_side() -> None:
    assert Figure("a", 2.0, "s", 2.0).met
    assert not Figure("a", 2.1, "s", 2.0).met
    assert Figure("a", 5.0, "times", 5.0, at_least=True).met
    assert not Figure("a", 4.9, "times", 5.0, at_least=True).met
    assert Figure("a", 1e9, "s").met


def test_a_missed_bound_is_said_in_the_table() -> None:
    table = format_figures([Figure("slow", 3.0, "s", 2.0), Figure("fine", 1.0, "s", 2.0)])
    slow, fine = table.splitlines()[-2:]
    assert "NOT MET" in slow
    assert "NOT MET" not in fine


def test_storing_keeps_what_was_not_measured_now(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"head\n{BEGIN}\n{END}\ntail\n")
    store_figures(page, [Figure("first", 1.0, "s", detail="one"), Figure("second", 2.0, "s")])
    store_figures(page, [Figure("first", 9.0, "s", detail="two")])
    text = page.read_text()
    assert text.startswith("head\n")
    assert text.endswith("tail\n")
    assert [text.count(f"| {name} |") for name in ("first", "second", "what")] == [1, 1, 1]
    assert "| 9 s |" in text
    assert "| 1 s |" not in text


@pytest.mark.upstream
def test_the_bench_measures_an_import(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "validate.bench", "--json", "--only", "import")
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    seconds, memory = json.loads(done.stdout)
    assert 0 < seconds["value"] < 120
    assert 10 < memory["value"] < 500
