"""Command lines of llama.cpp's three benchmarks, and what their output means.

Sources (b11549): tools/llama-bench/llama-bench.cpp, tools/batched-bench/batched-bench.cpp,
tests/test-backend-ops.cpp. Readers raise InvalidMeasurement for output that measured nothing:
all three programs may exit 0 then.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from upstream.errors import InvalidMeasurement
from validate.guards import Facts, Placement, Probe, require_as_asked

BENCH = "llama-bench"
BATCHED = "llama-batched-bench"
OPS = "test-backend-ops"
# Of a row of llama-bench: what the numbers are, not under which circumstances they came about.
NUMBERS = frozenset(
    ("test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns", "samples_ts")
)
_OFFLOADED = re.compile(r"offloaded (\d+/\d+) layers")
# b11549 says it of every graph, b10566 once: `sched_reserve: graph splits = 1`.
_SPLITS = re.compile(r"graph(?:[^:\n]*: nodes = \S+,)? splits = ([^,\n]+)")
_PATH = re.compile(
    r"^ggml_(?:vulkan|cuda|metal|sycl)\w*: *\d+ = .*|^  Device \d+: .*", re.MULTILINE
)
_DEVICE = re.compile(r"^  (\S+): ", re.MULTILINE)


@dataclass(frozen=True)
class Reading:
    """One number of one process: tokens/s or us, the seconds it took to measure, facts."""

    value: float
    seconds: float
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """What one process measured, by case, and the cases that it skipped with its reasons."""

    cases: Mapping[str, Reading]
    skipped: Mapping[str, str] = field(default_factory=dict)


Reader = Callable[[str], Table]
PlacedReader = Callable[[str, Placement], Table]
Given = TypeVar("Given")
Made = TypeVar("Made")


def bench_arguments(
    model: str, placement: Placement, prompt: int, generate: int, depths: Sequence[int]
) -> tuple[str, ...]:
    """llama-bench: prompt and generation at every depth, each measured once.

    Cache types, batch sizes and polling are the defaults of b11549, written out.
    """
    sizes = ("-p", str(prompt), "-n", str(generate), "-d", ",".join(map(str, depths)))
    return ("-m", model, *sizes, "-r", "1", *bench_settings(placement), "-o", "jsonl")


def probe_arguments(model: str, placement: Placement) -> tuple[str, ...]:
    """llama-bench: one token, told in detail on stderr."""
    sizes = ("-p", "1", "-n", "0", "-r", "1", "--no-warmup", "-v")
    return ("-m", model, *sizes, *bench_settings(placement), "-o", "jsonl")


def bench_settings(
    placement: Placement, ubatches: Sequence[int] = (512,), *, flash: bool = False
) -> tuple[str, ...]:
    """What llama-bench is told beside model and sizes; several micro-batches run in turn."""
    where = ("-dev", placement.device, "-ngl", str(placement.layers), "-t", str(placement.threads))
    memory = ("-fa", str(int(flash)), "-lm", "mmap", "-ctk", "f16", "-ctv", "f16")
    batch = ("-b", "2048", "-ub", ",".join(map(str, ubatches)))
    return (*where, *memory, *batch, "-nopo", "0", "--poll", "50", "--prio", "0")


def bench_settings_reported(placement: Placement) -> dict[str, str]:
    """The same settings as llama-bench reports them in a row."""
    return {
        "devices": placement.device,
        "n_gpu_layers": str(placement.layers),
        "n_threads": str(placement.threads),
        "flash_attn": "0",
        "load_mode": "mmap",
        "type_k": "f16",
        "type_v": "f16",
        "n_batch": "2048",
        "n_ubatch": "512",
    }


def name_test(prompt: int, generate: int, depth: int) -> str:
    """As llama-bench writes it in its own table: pp32, tg8 @ d256."""
    name = f"pp{prompt}" * bool(prompt) + "+" * bool(prompt and generate)
    name += f"tg{generate}" * bool(generate)
    return f"{name} @ d{depth}" if depth else name


def read_bench(output: str, placement: Placement) -> Table:
    """The rows of `llama-bench -r 1 -o jsonl` in tokens/s."""
    cases: dict[str, Reading] = {}
    for row in read_rows(BENCH, output):
        name, reading = convert_row(BENCH, row, _read_bench_row)
        require_as_asked(BENCH, reading.facts, bench_settings_reported(placement))
        add_case(BENCH, cases, name, reading)
    return Table(cases)


def _read_bench_row(row: Mapping[str, Any]) -> tuple[str, Reading]:
    prompt, generate = int(row["n_prompt"]), int(row["n_gen"])
    (nanoseconds,) = row["samples_ns"]
    seconds = float(nanoseconds) / 1e9
    facts = {key: say_fact(value) for key, value in row.items() if key not in NUMBERS}
    if facts["build_commit"].endswith("-dirty"):
        raise ValueError("a build of an edited source")
    name = name_test(prompt, generate, int(row["n_depth"]))
    return name, Reading((prompt + generate) / seconds, seconds, facts)


def batched_arguments(
    model: str, placement: Placement, prompt: int, generate: int, parallel: Sequence[int]
) -> tuple[str, ...]:
    """llama-batched-bench: one grid of parallel sequences."""
    context = max(parallel) * (prompt + generate)
    context = max(512, -(-context // 256) * 256)
    sizes = ("-npp", str(prompt), "-ntg", str(generate), "-npl", ",".join(map(str, parallel)))
    threads = ("-t", str(placement.threads), "-tb", str(placement.threads), "--poll", "50")
    where = ("-dev", placement.device, "-ngl", str(placement.layers), "-fit", "off")
    memory = ("-c", str(context), "-b", "2048", "-ub", "512", "-fa", "off", "-lm", "mmap")
    return ("-m", model, *sizes, *threads, *where, *memory, "--output-format", "jsonl")


def name_batched(prompt: int, generate: int, parallel: int) -> tuple[str, str]:
    """The two cells of a row: prompts and generation of `parallel` sequences."""
    return f"batched pp{prompt} x{parallel}", f"batched tg{generate} x{parallel}"


def read_batched(output: str, placement: Placement) -> Table:
    """The rows of `llama-batched-bench --output-format jsonl` in tokens/s."""
    asked = {
        "n_gpu_layers": str(placement.layers),
        "n_threads": str(placement.threads),
        "n_threads_batch": str(placement.threads),
        "flash_attn": "0",
    }
    cases: dict[str, Reading] = {}
    for row in read_rows(BATCHED, output):
        for name, reading in convert_row(BATCHED, row, _read_batched_row):
            require_as_asked(BATCHED, reading.facts, asked)
            add_case(BATCHED, cases, name, reading)
    return Table(cases)


def _read_batched_row(row: Mapping[str, Any]) -> list[tuple[str, Reading]]:
    names = name_batched(int(row["pp"]), int(row["tg"]), int(row["pl"]))
    asked = ("n_kv_max", "n_batch", "n_ubatch", "flash_attn", "is_pp_shared", "n_gpu_layers")
    facts = {key: say_fact(row[key]) for key in (*asked, "n_threads", "n_threads_batch")}
    return [
        (name, Reading(float(row[f"speed_{kind}"]), float(row[f"t_{kind}"]), facts))
        for name, kind in zip(names, ("pp", "tg"), strict=True)
    ]


def ops_arguments(
    placement: Placement, ops: Sequence[str], parameters: str = ""
) -> tuple[str, ...]:
    """test-backend-ops perf on some operators; SQL, because its other formats leave numbers out."""
    where = ("-b", placement.backend, "-o", ",".join(ops))
    only = ("-p", parameters) if parameters else ()
    return ("perf", *where, *only, "--output", "sql")


def read_ops(output: str, placement: Placement) -> Table:
    """The rows of `test-backend-ops perf --output sql` in microseconds; unsupported is skipped."""
    cases: dict[str, Reading] = {}
    skipped: dict[str, str] = {}
    for row in _load_sql(output):
        name, reading, reason = convert_row(OPS, row, lambda row: _read_op_row(row, placement))
        if reading is None:
            skipped[name] = reason
        else:
            add_case(OPS, cases, name, reading)
    return Table(cases, skipped)


def _read_op_row(row: Mapping[str, Any], placement: Placement) -> tuple[str, Reading | None, str]:
    """A case with its reading, or without one and the reason."""
    name = f"{row['op_name']}({row['op_params']})"
    if row["backend_name"] != placement.backend or row["test_mode"] != "perf":
        raise ValueError(f"ran {row['test_mode']} on {row['backend_name']}")
    if str(row["supported"]) != "1":
        return name, None, str(row["error_message"] or "not supported")
    microseconds, runs = float(row["time_us"]), int(row["n_runs"])
    keys = ("backend_name", "device_description", "backend_reg_name", "build_commit")
    facts = {key: str(row[key]) for key in keys}
    return name, Reading(microseconds, microseconds * runs / 1e6, facts), ""


def read_probe(devices: str, said: str) -> Probe:
    """What `--list-devices` printed and what a run with -v said on stderr."""
    offloaded = _OFFLOADED.search(said)
    return Probe(
        devices=tuple(name for name in _DEVICE.findall(devices) if name != "(none)"),
        splits=tuple(_SPLITS.findall(said)),
        offloaded=offloaded[1] if offloaded else "",
        paths=tuple(line.strip() for line in _PATH.findall(said)),
    )


def _load_sql(output: str) -> list[dict[str, Any]]:
    """Let SQLite read it. Values are quoted without escapes, so that a quote in one is an error."""
    base = sqlite3.connect(":memory:")
    base.row_factory = sqlite3.Row
    base.set_authorizer(_allow)
    try:
        base.executescript(output)
        rows = base.execute("SELECT * FROM test_backend_ops").fetchall()
        return [dict(row) for row in rows]
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise InvalidMeasurement(f"{OPS} printed what is no SQL: {error}") from error
    finally:
        base.close()


def _allow(action: int, *_: str | None) -> int:
    """Nothing that a benchmark prints may open a file."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def read_rows(tool: str, output: str) -> list[dict[str, Any]]:
    """The lines of JSON among what a program printed. Raises InvalidMeasurement for a torn one."""
    rows = []
    for line in output.splitlines():
        if line.startswith("{"):
            row: dict[str, Any] = convert_row(tool, line, json.loads)
            rows.append(row)
    return rows


def convert_row(tool: str, row: Given, convert: Callable[[Given], Made]) -> Made:
    """Read a row; one of another form is no measurement."""
    try:
        return convert(row)
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        text = " ".join(str(row).split())[:200]
        raise InvalidMeasurement(
            f"{tool} printed a row of another form ({type(error).__name__}: {error}): {text}"
        ) from error


def add_case(tool: str, cases: dict[str, Reading], name: str, reading: Reading) -> None:
    """Take a reading. Raises InvalidMeasurement for a second one of a case, or for no number."""
    if name in cases:
        raise InvalidMeasurement(f"{tool} measured {name} twice in one process")
    if not (0 < reading.value < math.inf and 0 < reading.seconds < math.inf):
        raise InvalidMeasurement(f"{tool} measured nothing in {name}: {reading.value}")
    cases[name] = reading


def say_fact(value: object) -> str:
    """A value of a row as facts hold it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
