"""Play the controller of adaptive draft lengths on a machine, and judge the lengths it chose."""

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from spec_adaptive_machines import N_MAX, Machine, Rates, expected

SOURCE: Final = Path("common/speculative-adaptive.cpp")
DRIVER: Final = Path(__file__).with_name("spec_adaptive_driver.cpp")
NOISE: Final = 0.05

Played: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Player:
    """The compiled driver."""

    program: Path

    def play(
        self, machine: Machine, slots: Sequence[Sequence[tuple[float, Rates]]], **options: object
    ) -> Played:
        """Play phases (tokens, rates) of each slot; returns tokens, ms, lengths and counters."""
        words: dict[str, object] = {"n_max": N_MAX, "n_seq": len(slots), "noise": NOISE} | options
        lines = [f"{key} {value}" for key, value in words.items()]
        lines += ["verify_ms " + " ".join(map(str, machine.verify))]
        lines += [f"draft_ms {machine.flat} {machine.step}"]
        for slot, phases in enumerate(slots):
            lines += [f"phase {slot} {n} {' '.join(map(str, rates))}" for n, rates in phases]
        done = subprocess.run(
            [self.program], input="\n".join(lines), capture_output=True, text=True, check=True
        )
        played: Played = json.loads(done.stdout)
        return played


def build(source: Path, work: Path) -> Player:
    """Compile the controller alone with the driver."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or ""
    if not compiler:
        raise FileNotFoundError("no C++ compiler")
    program = work / "spec-adaptive-driver"
    words = [compiler, "-std=c++17", "-O2", f"-I{source / SOURCE.parent}"]
    subprocess.run([*words, DRIVER, source / SOURCE, "-o", program], check=True)
    return Player(program)


@dataclass(frozen=True)
class Outcome:
    """A measured ratio or count and its bound; `least` is a lower bound, else an upper one."""

    name: str
    value: float
    bound: float
    least: bool = True

    @property
    def passed(self) -> bool:
        """Tell whether the bound holds."""
        return self.value >= self.bound if self.least else self.value <= self.bound


Case: TypeAlias = Callable[[Player, Machine], Iterator[Outcome]]


def priced(machine: Machine, rates: Rates, lengths: Sequence[int]) -> float:
    """Give the goodput of a sequence of lengths, at their expected tokens and times."""
    tokens = [expected(rates, n) for n in lengths]
    seconds = sum(t / machine.goodput([rates], [n]) for t, n in zip(tokens, lengths, strict=True))
    return sum(tokens) / seconds


def settled(played: Played) -> list[int]:
    """Leave the warm-up out, the first twentieth."""
    lengths: list[int] = played["lengths"]
    return lengths[len(lengths) // 20 :]


def window(rates: Rates, lengths: Sequence[int], learnt: int, judged: int) -> list[int]:
    """Leave out the rounds of the first tokens, and those behind the judged ones."""
    before = itertools.accumulate((expected(rates, n) for n in lengths), initial=0.0)
    at = zip(before, lengths, strict=False)
    return [n for tokens, n in at if learnt <= tokens < learnt + judged]
