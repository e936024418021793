"""Instruction counts of real processes under valgrind; the counted programs are stand-ins."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import stand_ins
from stand_ins import change_core
from tiny_project import Change, make_builder, make_stack

from upstream.lab import Lab
from validate import instructions
from validate.artifacts import StepBinaries
from validate.build import build_stack
from validate.instructions import Counter, check_free, explain
from validate.room import Model, Room
from validate.verdict import Verdict

SPEED = "return 1e6;"
WORK = "volatile int x = 0; for (int i = 0; i < 1000000; i++) x = i; return 1e6;"
CHANGES = (
    Change("readme", {"README.md": "another text\n"}),
    change_core("as-much", SPEED, "return 1.01e6;"),
    change_core("more-work", SPEED, WORK),
    change_core("dies", SPEED, "std::abort();"),
)
needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, dict[str, StepBinaries]]:
    lab = Lab(tmp_path_factory.mktemp("instructions") / "lab")
    stack = make_stack(lab, CHANGES, stand_ins.BASE)
    builds = build_stack(make_builder(lab, ("llama-bench",)), stack)
    return lab, {build.name: build.binaries for build in builds if build.binaries}


@pytest.fixture
def room(built: tuple[Lab, dict[str, StepBinaries]], tmp_path: Path) -> Room:
    return Room(built[0], Model(tmp_path, "tiny.gguf", "0" * 64))


@needs_valgrind
@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        ("readme", Verdict.IDENTICAL, ""),
        ("as-much", Verdict.PASS, "free: "),
        ("more-work", Verdict.FAIL, "free: +"),
        ("dies", Verdict.NOT_RUN, "no instruction counter works here"),
    ],
)
def test_a_patch_that_must_be_free(
    room: Room,
    built: tuple[Lab, dict[str, StepBinaries]],
    name: str,
    verdict: Verdict,
    words: str,
) -> None:
    result = check_free(room, built[1][name], built[1]["base"])
    assert result.verdict is verdict, result
    assert words in result.detail


@needs_valgrind
def test_what_stands_beside_a_slower_step(
    room: Room, built: tuple[Lab, dict[str, StepBinaries]]
) -> None:
    base = built[1]["base"]
    assert explain(room, built[1]["more-work"], base).startswith("instructions +")
    assert "instructions equal" in explain(room, built[1]["as-much"], base)
    assert "instructions not counted" in explain(room, built[1]["dies"], base)


def test_a_machine_without_counters_is_told_of(
    room: Room, built: tuple[Lab, dict[str, StepBinaries]], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Counter("counter", ("no-such-program",), instructions.read_perf)
    monkeypatch.setattr(instructions, "COUNTERS", (missing,))
    result = check_free(room, built[1]["dies"], built[1]["more-work"])
    assert result.verdict is Verdict.NOT_RUN
    assert "counter is not installed" in result.detail
