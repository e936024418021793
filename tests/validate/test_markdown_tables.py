"""Tables for pull requests, against what llama-bench's own printer prints.

llama-bench-printed.md was printed by `markdown_printer` of b11549: its functions, cut out of
llama-bench.cpp and compiled, on the rows of llama-bench.jsonl and on BIG.
"""

from __future__ import annotations

import json
from pathlib import Path

from sample_report import MUL_MAT, PP, TG, identical, judged

from validate.cells import Cell, Judged, Sample, Speed
from validate.markdown_tables import Spread, format_all, format_bench, format_comparison, summarise
from validate.report_model import Comparison

DATA = Path(__file__).parent.parent / "data" / "validate"
ROWS = [json.loads(line) for line in (DATA / "llama-bench.jsonl").read_text().splitlines()]
BIG = ROWS[0] | {
    "model_type": "llama 8B Q4_K - Medium",
    "model_size": 4920734272,
    "model_n_params": 8030261248,
    "backends": "Vulkan",
    "n_gpu_layers": 99,
    "flash_attn": 1,
    "n_prompt": 512,
    "n_gen": 128,
    "n_depth": 4096,
    "avg_ts": 1234.5678,
    "stddev_ts": 3.14159,
}
ALL_SORTS = (
    *("model", "size", "params", "backend", "n_gpu_layers", "n_ubatch", "flash_attn", "devices"),
    *("poll", "type_k", "no_kv_offload", "no_op_offload", "load_mode", "lazy_mode", "embeddings"),
    *("repack", "test", "t/s"),
)


def read_table(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()]


def test_is_what_llama_bench_prints() -> None:
    printed = (DATA / "llama-bench-printed.md").read_text("utf-8")
    assert f"{format_bench(ROWS)}\n\n{format_bench([BIG], ALL_SORTS)}\n" == printed


def test_a_comparison_begins_with_the_columns_of_llama_bench() -> None:
    cells = (judged(PP, Speed.SAME, 0.1, 0.8), identical(TG))
    means = {("pp512", "A"): Spread(43.1, 0.2), ("pp512", "B"): Spread(43.15, 0.3)}
    text = format_comparison(ROWS[0], Comparison("x.patch", "base", cells), means)
    header, rule, first, second = read_table(text)
    assert header[:5] == read_table(format_bench(ROWS))[0][:5]
    assert header[5:] == ["test", "t/s base", "t/s x", "change of speed", "verdict"]
    assert {len(row) for row in (header, rule, first, second)} == {10}
    assert first[5:8] == ["pp512", "43.10 \u00b1 0.20", "43.15 \u00b1 0.30"]
    assert first[8] == "+0.1 % (\u22120.7 to +0.9)"
    assert second[5:] == ["tg128", "-", "-", "same bytes", "IDENTICAL"]
    assert len({len(line) for line in text.splitlines()}) == 1  # readable as text, too


def test_operators_have_a_table_in_their_own_unit() -> None:
    cells = (judged(PP, Speed.SAME, 0.1, 0.8), judged(MUL_MAT, Speed.FASTER, 6.0, 0.8))
    first, second = format_comparison(ROWS[0], Comparison("x", "base", cells), {}).split("\n\n")
    assert "t/s x" in first
    assert "MUL_MAT" not in first
    assert "us base" in second
    assert "MUL_MAT" in second


def test_a_bar_in_a_name_does_not_break_the_table() -> None:
    cell = Judged(Cell("t", "a|b\nc", "t/s", 0.02), Speed.INVALID, reason="no device")
    text = format_comparison(ROWS[0], Comparison("x", "base", (cell,)), {})
    assert "a\\|b c" in text
    assert len(text.splitlines()) == 3


def test_no_cells_give_no_table() -> None:
    assert format_comparison(ROWS[0], Comparison("x", "base", ()), {}) == ""


def test_samples_are_put_together_by_cell_and_arm() -> None:
    samples = [Sample("pp", "A", 1, i, value, 1.0) for i, value in enumerate((10.0, 12.0))]
    samples.append(Sample("pp", "B", 1, 2, 20.0, 1.0))
    found = summarise(samples)
    assert found.keys() == {("pp", "A"), ("pp", "B")}
    assert str(found["pp", "A"]) == "11.00 \u00b1 1.41"
    assert str(found["pp", "B"]) == "20.00 \u00b1 0.00"


def test_all_comparisons_get_a_title_and_their_setup_from_the_samples() -> None:
    facts = {key: str(value) for key, value in ROWS[0].items() if not isinstance(value, list)}
    samples = [Sample("pp512", arm, 1, 0, 40.0, 1.0, facts) for arm in ("A", "B")]  # type: ignore[arg-type]
    measured = Comparison("x.patch", "base", (judged(PP, Speed.SAME, 0.1, 0.8),))
    same = Comparison("y.patch", "x.patch", (identical(PP),))
    unknown = Comparison("z.patch", "y.patch", measured.cells)
    text = format_all([measured, same, unknown], {"x.patch": samples, "y.patch": samples})
    assert text.startswith("x against base:\n\n| model ")
    assert "92.10 MiB" in text
    assert "40.00 \u00b1 0.00" in text
    assert "against x" not in text
    assert "z against" not in text
