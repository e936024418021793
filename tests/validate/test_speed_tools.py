"""What llama.cpp's benchmarks print: captured output of b11549, and made-up output that lies.

tests/data/validate holds what the programs printed; the command lines are those of speed_tools.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.errors import InvalidMeasurement
from upstream.process import Completed
from validate import speed_tools
from validate.guards import Placement
from validate.instructions import read_callgrind, read_perf
from validate.speed_tools import read_batched, read_bench, read_ops, read_probe

DATA = Path(__file__).parent.parent / "data" / "validate"
CPU = Placement()
BENCH = (DATA / "llama-bench-depths.jsonl").read_text()
BATCHED = (DATA / "llama-batched-bench.jsonl").read_text()
OPS = (DATA / "test-backend-ops-perf.sql").read_text()


def finished(*, code: int = 0, stderr: str = "") -> Completed:
    """A process that ended."""
    return Completed(("counter",), code, b"", stderr.encode(), 1.0)


def edit(text: str, **changes: object) -> str:
    """The first row of JSON with other values."""
    return json.dumps(json.loads(text.splitlines()[0]) | changes)


def test_the_captured_bench() -> None:
    table = read_bench(BENCH, CPU)
    assert list(table.cases) == ["pp32", "tg8", "pp32 @ d64", "tg8 @ d64"]
    first = json.loads(BENCH.splitlines()[0])
    reading = table.cases["pp32"]
    assert reading.value == pytest.approx(first["avg_ts"], rel=1e-4)
    assert reading.facts["cpu_info"] == first["cpu_info"]
    assert reading.facts["load_mode"] == "mmap"
    assert not {"avg_ns", "test_time", "samples_ns"} & set(reading.facts)


def test_the_captured_batched_bench() -> None:
    table = read_batched(BATCHED, CPU)
    assert list(table.cases) == [
        "batched pp16 x1",
        "batched tg4 x1",
        "batched pp16 x2",
        "batched tg4 x2",
    ]
    assert table.cases["batched pp16 x1"].value == json.loads(BATCHED.splitlines()[0])["speed_pp"]


def test_the_captured_operators() -> None:
    table = read_ops(OPS, CPU)
    assert len(table.cases) == OPS.count("INSERT INTO")
    assert all(name.startswith("ADD(type=") for name in table.cases)
    reading = next(iter(table.cases.values()))
    assert reading.value > 0
    assert reading.seconds >= 1  # each case runs for a second at least
    assert reading.facts["backend_name"] == "CPU"


def test_the_captured_probe_of_a_cpu() -> None:
    probe = read_probe(
        "Available devices:\n  (none)\n", (DATA / "llama-bench-verbose.txt").read_text()
    )
    assert probe.devices == ()
    assert set(probe.splits) == {"1"}
    assert probe.offloaded == ""


def test_the_graph_splits_as_b10566_says_them() -> None:
    said = "sched_reserve: graph nodes  = 98\nsched_reserve: graph splits = {}\n"
    assert read_probe("", said.format("1")).splits == ("1",)
    assert read_probe("", said.format("2 (with bs=512), 1 (with bs=1)")).splits == (
        "2 (with bs=512)",
    )


def test_the_probe_of_a_gpu() -> None:
    """Made up from the format strings of ggml-vulkan.cpp and llama-model.cpp (b11549)."""
    path = "ggml_vulkan: 0 = AMD (RADV) | uma: 1 | int dot: 1 | matrix cores: KHR_coopmat"
    said = f"{path}\nload_tensors: offloaded 31/31 layers to GPU\n"
    listed = "Available devices:\n  Vulkan0: AMD (RADV) (1 MiB, 1 MiB free)\n"
    probe = read_probe(listed, said)
    assert probe.devices == ("Vulkan0",)
    assert probe.offloaded == "31/31"
    assert probe.paths == (path,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{nonsense\n", "another form"),
        ('{"n_prompt": 32}\n', "another form"),
        (edit(BENCH, samples_ns=[]), "another form"),
        (edit(BENCH, samples_ns=[1, 2]), "another form"),
        (edit(BENCH, samples_ns=[0]), "another form"),
        (edit(BENCH, samples_ns=[-5]), "measured nothing"),
        (edit(BENCH, samples_ns=[float("inf")]), "measured nothing"),
        (edit(BENCH, build_commit="abc-dirty"), "edited source"),
        (edit(BENCH, devices="auto"), "devices is auto"),
        (edit(BENCH, n_gpu_layers=-1), "n_gpu_layers is -1"),
        (edit(BENCH, flash_attn=-1), "flash_attn is -1"),
        (edit(BENCH, n_threads=2), "n_threads is 2"),
        (edit(BENCH, load_mode="auto"), "load_mode is auto"),
        (f"{edit(BENCH)}\n{edit(BENCH)}", "twice"),
    ],
)
def test_a_bench_that_lies_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidMeasurement, match=words):
        read_bench(text, CPU)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (edit(BATCHED, speed_tg=0.0), "measured nothing"),
        (edit(BATCHED, speed_pp=float("nan")), "measured nothing"),
        (edit(BATCHED, flash_attn=-1), "flash_attn"),
        ('{"pp": 1}', "another form"),
    ],
)
def test_a_batched_bench_that_lies_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidMeasurement, match=words):
        read_batched(text, CPU)


def test_an_unsupported_operator_is_skipped_with_its_reason() -> None:
    line = next(line for line in OPS.splitlines() if line.startswith("INSERT"))
    lost = line.replace("'perf', '1', '1', ''", "'perf', '0', '0', 'not supported'")
    assert lost != line
    table = read_ops(OPS.replace(line, lost), CPU)
    assert list(table.skipped.values()) == ["not supported"]
    assert len(table.cases) == OPS.count("INSERT INTO") - 1


def test_a_wrong_backend_gives_no_case_and_exit_code_0_says_nothing() -> None:
    header = OPS[: OPS.index("INSERT")]  # all that `-b CPUX` prints
    assert read_ops(header, CPU).cases == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no SQL"),
        ("ATTACH DATABASE 'stolen.sqlite' AS x;", "not authorized"),
        ("CREATE TABLE test_backend_ops (a); INSERT INTO test_backend_ops VALUES (1);", "form"),
        ("failed to allocate tensors\n" + OPS, "no SQL"),
        (OPS.replace("'CPU', 'ADD'", "'CPU2', 'ADD'"), "perf on CPU2"),
        (OPS.replace("'perf'", "'test'"), "ran test"),
    ],
)
def test_operators_that_lie_are_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidMeasurement, match=words):
        read_ops(text, CPU)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (read_bench, read_batched, read_ops):
        try:
            assert read(text, CPU).cases == {}
        except InvalidMeasurement:
            continue


@pytest.mark.parametrize("placement", [CPU, Placement(4, "Vulkan0")])
def test_nothing_is_left_to_auto(placement: Placement) -> None:
    bench = speed_tools.bench_arguments("m.gguf", placement, 8, 4, (0, 16))
    batched = speed_tools.batched_arguments("m.gguf", placement, 8, 4, (1, 4))
    for arguments in (bench, batched):
        assert "auto" not in arguments
        assert {"-dev", "-ngl", "-fa", "-t", "-lm", "-m"} <= set(arguments)
    ops = speed_tools.ops_arguments(placement, ("ADD",))
    assert ops[ops.index("-b") + 1] == placement.backend
    assert ("-ngl", str(placement.layers)) == bench[bench.index("-ngl") :][:2]


def test_what_counters_say() -> None:
    assert read_perf(finished(stderr="12345,,instructions:u,100,100.00,,\n")) == 12345
    assert read_callgrind(finished(stderr="==1== Collected : 24227606\n")) == 24227606


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("<not supported>,,instructions:u,0,100.00,,\n", "not supported"),
        ("Access to performance monitoring is limited\n", "limited"),
    ],
)
def test_perf_without_counters_says_so(stderr: str, words: str) -> None:
    with pytest.raises(InvalidMeasurement, match=words):
        read_perf(finished(stderr=stderr))


def test_valgrind_that_meets_avx512_says_so() -> None:
    said = "==9== valgrind: Unrecognised instruction at address 0x572cf90.\n==9== Collected : 24\n"
    with pytest.raises(InvalidMeasurement, match="AVX-512"):
        read_callgrind(finished(code=132, stderr=said))
