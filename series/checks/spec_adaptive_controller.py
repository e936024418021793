"""Check the controller of adaptive draft lengths without a model.

The controller's file compiles alone. `spec_adaptive_driver.cpp` plays generated tokens against it:
seeded acceptance, times from cost curves (also jagged ones) with noise. What is known exactly is
priced exactly: a fixed length's goodput is expected tokens over expected time, so the oracle has
no noise. Exit status: 0 holds, 1 does not hold, 3 no C++ compiler.
"""

import argparse
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

CHECK: Final = "spec-adaptive-controller"
PASS, FAIL, NO_ENVIRONMENT = 0, 1, 3
SOURCE: Final = Path("common/speculative-adaptive.cpp")
DRIVER: Final = Path(__file__).with_name("spec_adaptive_driver.cpp")
N_MAX: Final = 7
SEEDS: Final = (1, 2, 3)
NOISE: Final = 0.05
JAGGED: Final = (84.0, 87.0, 91.0, 102.0, 107.0, 117.0, 126.0, 134.0)

Rates: TypeAlias = tuple[float, ...]
Played: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Machine:
    """Milliseconds: of a batch by width (its last step goes on), of drafting (flat, per token)."""

    name: str
    verify: tuple[float, ...]
    flat: float
    step: float

    def batch(self, width: int) -> float:
        """Give the time of a batch of this width."""
        last, before = self.verify[-1], self.verify[-2]
        if width <= len(self.verify):
            return self.verify[width - 1]
        return last + (width - len(self.verify)) * (last - before)

    def goodput(self, rates: Sequence[Rates], lengths: Sequence[int]) -> float:
        """Give the expected tokens per second of slots with these rates and draft lengths."""
        longest = max(lengths)
        drafting = self.flat + self.step * longest if longest else 0.0
        time = drafting + self.batch(sum(lengths) + len(lengths))
        return 1000 * sum(map(expected, rates, lengths)) / time

    def best_fixed(self, rates: Sequence[Rates]) -> float:
        """Give the goodput of the best length that is the same for all slots."""
        return max(self.goodput(rates, [n] * len(rates)) for n in range(N_MAX + 1))


def expected(rates: Rates, length: int) -> float:
    """Count the expected tokens of a round; the last rate goes on."""
    reached = itertools.accumulate((*rates, *[rates[-1]] * length)[:length], lambda a, b: a * b)
    return 1 + math.fsum(reached)


# The first is a published table of a 27B model on a Strix Halo (1 to 8 tokens).
MACHINES: Final = (
    Machine("jagged, cheap drafter", JAGGED, 0, 5),
    Machine("jagged, block drafter", JAGGED, 12, 0.2),
    Machine("cliff above 8", (25.2, 25.3, 25.2, 26.2, 28.3, 32.1, 36.0, 40.1, 70.0), 0, 1.2),
    Machine("steps of 4", (30.0, 45.0, 46.0, 47.0, 90.0, 91.0, 92.0, 93.0), 0, 2),
    Machine("drafter as slow as its target", (8.0, 13.0, 18.0, 23.0, 28.0, 33.0, 38.0, 43.0), 0, 9),
    Machine("compute bound", (8.0, 13.0, 18.0, 23.0, 28.0, 33.0, 38.0, 43.0), 0.3, 0.7),
    Machine("memory bound", (20.0, 20.5, 21.0, 21.5, 22.0, 22.5, 23.0, 23.5), 0, 1),
)
# 27B on an H200 with Vulkan: more than 8 tokens take another kernel. It compiles what it runs for
# the first time, for about 30 rounds (docs/evidence/speculation/h200).
COLD: Final = Machine(
    "cold GPU",
    (14.3, 15.7, 21.3, 28.3, 38.7, 37.5, 46.6, 51.6, 94, 140, 170, 165, 162, 180, 200, 222),
    10,
    0,
)
STALL: Final = 30


def recorded(name: str, speeds: Sequence[float], flat: float, step: float) -> Machine:
    """Give the machine on which fixed lengths at acceptance .95 had these speeds (tok/s)."""
    times = [1000 * expected((0.95,), n) / speed for n, speed in enumerate(speeds)]
    drafting = [0.0, *(flat + step * n for n in range(1, len(times)))]
    batches = tuple(a - b for a, b in zip(times, drafting, strict=True))
    return Machine(name, batches, flat, step)


# Contests on two cores (docs/evidence/speculation/cpu); what of a round is drafting is a guess.
TWO_TOPS: Final = (
    recorded("two tops, dflash", (230, 267, 290, 257, 269, 276, 284, 326), 1.2, 0),
    recorded("two tops, mtp", (269, 322, 339, 284, 290, 301, 307, 351), 0.2, 0.25),
)
# 27B on an H200 with Vulkan and a block drafter; 9, 11, 13 and 14 are guesses.
# A new width stalls once: its pipelines are compiled then.
DENSE: Final = recorded(
    "dense 27B",
    (70, 73, 86, 103, 104, 120, 113, 103, 78, 90, 101, 106, 112, 95, 78, 61),
    10,
    0,
)
FIRST_USE: Final = 1750.0
ANSWERED: Final = 128  # tokens before the answer
LEARNT, JUDGED = 256, 512  # tokens of a contest
EARLY: Final = 0.975
MTP: Final = (0.75, 0.62, 0.5, 0.42, 0.36, 0.3, 0.26)  # all of the first i accepted
PROFILES: Final[dict[str, Rates]] = {f"p={p}": (p,) for p in (0.0, 0.3, 0.5, 0.7, 0.85, 0.95)} | {
    "mtp": tuple(b / a for a, b in itertools.pairwise((1.0, *MTP))),
    "steep": MTP,
}


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


# --- the cases: each gives its name, what it measured and the least that is good enough ---------


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


Case: TypeAlias = Callable[[Player], Iterator[Outcome]]


def priced(machine: Machine, rates: Rates, lengths: Sequence[int]) -> float:
    """Give the goodput of a sequence of lengths, at their expected tokens and times."""
    tokens = [expected(rates, n) for n in lengths]
    seconds = sum(t / machine.goodput([rates], [n]) for t, n in zip(tokens, lengths, strict=True))
    return sum(tokens) / seconds


def settled(played: Played) -> list[int]:
    """Leave the warm-up out, the first twentieth."""
    lengths: list[int] = played["lengths"]
    return lengths[len(lengths) // 20 :]


def steady(player: Player, machine: Machine) -> Iterator[Outcome]:
    """Steady content: close to the best fixed length, and longer where more is accepted."""
    means = []
    for name, rates in PROFILES.items():
        runs = [player.play(machine, [[(1e9, rates)]], seed=seed, tokens=12000) for seed in SEEDS]
        got = sum(priced(machine, rates, settled(run)) for run in runs) / len(runs)
        yield Outcome(
            f"{machine.name}/{name}/of the best fixed", got / machine.best_fixed([rates]), 0.98
        )
        lengths = [n for run in runs for n in settled(run)]
        means += [sum(lengths) / len(lengths)] if name.startswith("p=") else []
    falls = [a - b for a, b in itertools.pairwise(means)]
    # a small drop is noise of the probes, which go to the neighbours
    yield Outcome(
        f"{machine.name}/longest drop of the length as p rises", max(falls), 0.5, least=False
    )


def window(
    rates: Rates, lengths: Sequence[int], learnt: int = LEARNT, judged: int = JUDGED
) -> list[int]:
    """Leave out the rounds of the first tokens, and those behind the judged ones."""
    before = itertools.accumulate((expected(rates, n) for n in lengths), initial=0.0)
    at = zip(before, lengths, strict=False)
    return [n for tokens, n in at if learnt <= tokens < learnt + judged]


def early(player: Player, machine: Machine) -> Iterator[Outcome]:
    """A contest is short: what was learnt in its first tokens, of a slow start too, is right."""
    for (name, rates), (noise, warm) in itertools.product(
        PROFILES.items(), ((0.05, 1.0), (0.08, 1.0), (0.05, 1.5))
    ):
        runs = [
            player.play(
                machine,
                [[(1e9, rates)]],
                seed=s,
                tokens=1.5 * JUDGED + LEARNT,
                noise=noise,
                warm=warm,
            )
            for s in range(1, 13)
        ]
        got = sum(priced(machine, rates, window(rates, run["lengths"])) for run in runs) / len(runs)
        yield Outcome(
            f"{machine.name}/{name}, noise {noise}, slow start {warm}/of the best fixed, early",
            got / machine.best_fixed([rates]),
            EARLY,
        )


PHASES: Final = ((0.95, 0.0, 400), (0.9, 0.4, 600), (0.9, 0.4, 60), (0.95, 0.2, 1000))


def alternating(player: Player, machine: Machine) -> Iterator[Outcome]:
    """Content that alternates: ahead of every fixed length by what there is to gain."""
    for high, low, n in PHASES:
        phases = [(float(n), (high,)), (float(n), (low,))]
        runs = [player.play(machine, [phases], seed=s, tokens=12000, skip=500) for s in SEEDS]
        got = 1000 * sum(run["tokens"] for run in runs) / sum(run["ms"] for run in runs)
        fixed = max(
            2 / sum(1 / machine.goodput([(p,)], [k]) for p in (high, low)) for k in range(N_MAX + 1)
        )
        perfect = 2 / sum(1 / machine.best_fixed([(p,)]) for p in (high, low))
        gain = perfect / fixed
        # who knows the phases is ahead by `gain`: at least 10 % where that is 16 %
        bound = 1.10 if gain >= 1.16 and n >= 400 else 0.99
        name = f"{machine.name}/{high} and {low}, {n} tokens each"
        yield Outcome(f"{name}/of the best fixed, {gain:.3f} in reach", got / fixed, bound)


def several_slots(player: Player, machine: Machine) -> Iterator[Outcome]:
    """Slots with different acceptance share the batch: in total as the best common length."""
    for slots in (
        (0.9, 0.2),
        (0.0, 0.0),
        (0.95, 0.8),
        (0.95, 0.0, 0.5, 0.8),
        (0.9,) * 4,
        (0.0,) * 4,
    ):
        rates = [(p,) for p in slots]
        runs = [
            player.play(machine, [[(1e9, r)] for r in rates], seed=s, tokens=12000, skip=1500)
            for s in SEEDS
        ]
        got = 1000 * sum(run["tokens"] for run in runs) / sum(run["ms"] for run in runs)
        ratio = got / machine.best_fixed(rates)
        yield Outcome(f"{machine.name}/slots {slots}/of the best common", ratio, 0.97)


def recovery(player: Player, machine: Machine) -> Iterator[Outcome]:
    """After a long time without acceptance, drafting comes back, whatever happened before."""
    for before in (0.0, 0.1):
        phases = [(4000.0, (before,)), (2000.0, (0.95,))]
        run = player.play(machine, [phases], seed=5, tokens=6000)
        ratio = priced(machine, (0.95,), run["lengths"][-100:]) / machine.best_fixed([(0.95,)])
        yield Outcome(f"{machine.name}/after {before}/of the best", ratio, 0.95)


def cold(player: Player, machine: Machine) -> Iterator[Outcome]:
    """What a device prepares for at first use is no property of a width."""
    device, n_max = (COLD, 15) if machine is MACHINES[0] else (machine, N_MAX)
    for name, rates in PROFILES.items():
        runs = [
            player.play(device, [[(1e9, rates)]], seed=s, tokens=4000, n_max=n_max, stall=STALL)
            for s in (*SEEDS, 4, 5, 6)
        ]
        best = max(device.goodput([rates], [n]) for n in range(n_max + 1))
        later = [run["lengths"][len(run["lengths"]) // 2 :] for run in runs]
        got = sum(priced(device, rates, lengths) for lengths in later) / len(runs)
        yield Outcome(f"{device.name}/{name}, stalls/of the best fixed", got / best, 0.95)


def short(player: Player, machine: Machine) -> Iterator[Outcome]:
    """An answer of some hundred tokens where each new width stalls once, in it too."""
    if machine is not MACHINES[0]:
        return
    for n_max, n_tokens, (name, rates) in itertools.product((15, 7), (256, 1024), PROFILES.items()):
        runs = [
            player.play(
                DENSE,
                [[(1e9, rates)]],
                seed=s,
                tokens=ANSWERED + n_tokens + 200,
                n_max=n_max,
                noise=0.04,
                stall_ms=FIRST_USE,
                reuse=ANSWERED,
            )["lengths"]
            for s in range(1, 13)
        ]
        best = max(DENSE.goodput([rates], [n]) for n in range(n_max + 1))
        tokens = seconds = 0.0
        for run in runs:
            answer = window(rates, run, ANSWERED, n_tokens)
            n_new = len(set(answer) - set(window(rates, run, 0, ANSWERED)))
            wanted = sum(expected(rates, n) for n in answer)
            tokens += wanted
            seconds += wanted / priced(DENSE, rates, answer) + n_new * FIRST_USE / 1000
        title = f"{DENSE.name}/{name}, n_max {n_max}, {n_tokens} tokens"
        yield Outcome(f"{title}/of the best fixed, with its stalls", tokens / seconds / best, 0.8)


def disturbed(player: Player, machine: Machine) -> Iterator[Outcome]:
    """Times that are far off, at the start or in bursts, do not settle the choice."""
    games: dict[str, tuple[float, dict[str, object]]] = {
        "rough start": (0.88, {"rough": "0.5 50"}),
        "rough start and bursts": (0.7, {"rough": "0.5 50", "burst": "0.02 10"}),
        "bursts": (0.7, {"burst": "0.05 5"}),
    }
    for (name, rates), (title, (bound, options)) in itertools.product(
        PROFILES.items(), games.items()
    ):
        runs = [
            player.play(machine, [[(1e9, rates)]], seed=s, tokens=3000, **options)["lengths"]
            for s in range(1, 11)
        ]
        got = sum(priced(machine, rates, run[50:]) for run in runs) / len(runs)
        ratio = got / machine.best_fixed([rates])
        yield Outcome(f"{machine.name}/{name}, {title}/of the best", ratio, bound)


def quiet(player: Player, machine: Machine) -> Iterator[Outcome]:
    """Without noise in time and acceptance, lengths change for probes only."""
    for name, rates in {"all accepted": (1.0,), "none accepted": (0.0,)}.items():
        run = player.play(machine, [[(1e9, rates)]], noise=0, tokens=12000)
        lengths = settled(run)
        changes = sum(a != b for a, b in itertools.pairwise(lengths)) / len(lengths)
        # a probe of one length in 8 rounds at most, it changes the length twice
        yield Outcome(f"{machine.name}/{name}/changes a round", changes, 2 / 8, least=False)


def bounds(player: Player, machine: Machine) -> Iterator[Outcome]:
    """Lengths stay in their bounds: short requests, n_min, p_min, replays, prompts, nonsense."""
    games: dict[str, dict[str, object]] = {
        "requests": {"request": 50},
        "n_min": {"n_min": 3, "request": 60},
        "p_min": {"reach": 0.5},
        "replay": {"replay": 1},
        "prompts": {"mixed": 0.3},
        "nonsense": {"hostile": 20000, "n_min": 2},
    }
    for name, options in games.items():
        run = player.play(machine, [[(500.0, (0.9,)), (500.0, (0.1,))]] * 2, tokens=6000, **options)
        yield Outcome(f"{machine.name}/{name}/lengths out of bounds", run["bad"], 0, least=False)


def conditions(player: Player, machine: Machine) -> Iterator[Outcome]:
    """What is no rejection is not taken for one; every effort that does not pay ends."""
    plain = player.play(machine, [[(1e9, (0.9,))]], tokens=8000, seed=2)
    others: dict[str, dict[str, object]] = {
        "p_min stops": {"reach": 0.6},
        "short requests": {"request": 12},
    }
    for name, options in others.items():
        run = player.play(machine, [[(1e9, (0.9,))]], tokens=8000, seed=2, **options)
        if max(run["lengths"][-200:]) > 0:
            error = abs(run["acceptance"][0] - plain["acceptance"][0])
            yield Outcome(
                f"{machine.name}/{name}/error of the acceptance", error, 0.25, least=False
            )
    run = player.play(machine, [[(1e9, (0.9,))]], reach=0.0, tokens=8000)
    share = sum(n > 0 for n in settled(run)) / len(settled(run))
    yield Outcome(f"{machine.name}/nothing drafted/rounds that try", share, 0.3, least=False)


def baseline(player: Player, machine: Machine) -> Iterator[Outcome]:
    """The rule that follows the acceptance alone is beaten, over all content."""
    ratios = []
    for rates in PROFILES.values():
        content = [[(1e9, rates)]]
        ema = player.play(machine, content, policy="ema", tokens=12000)
        own = player.play(machine, content, seed=1, tokens=12000)
        ratios.append(priced(machine, rates, settled(own)) / priced(machine, rates, settled(ema)))
    mean = math.prod(ratios) ** (1 / len(ratios))
    yield Outcome(f"{machine.name}/geometric mean of the gain over the EMA rule", mean, 1.0)


def speed(player: Player, machine: Machine) -> Iterator[Outcome]:
    """A decision costs less than a thousandth of a round."""
    for n_seq in (1, 4):
        run = player.play(machine, [[(300.0, (0.9,)), (300.0, (0.3,))]] * n_seq, tokens=8000)
        share = run["ns"] / (1e6 * run["ms"] / run["rounds"])
        yield Outcome(f"{machine.name}/{n_seq} slots/share of a round", share, 0.001, least=False)


CASES: Final[tuple[Callable[[Player, Machine], Iterator[Outcome]], ...]] = (
    steady,
    early,
    alternating,
    several_slots,
    recovery,
    cold,
    short,
    disturbed,
    quiet,
    bounds,
    conditions,
    baseline,
    speed,
)


# --- the verdict --------------------------------------------------------------------------------


def build(source: Path, work: Path) -> Player:
    """Compile the controller alone with the driver."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or ""
    if not compiler:
        raise FileNotFoundError("no C++ compiler")
    program = work / "spec-adaptive-driver"
    words = [compiler, "-std=c++17", "-O2", f"-I{source / SOURCE.parent}"]
    subprocess.run([*words, DRIVER, source / SOURCE, "-o", program], check=True)
    return Player(program)


def report(n_cases: int, passed: bool, detail: object) -> int:
    """Write the result, the only output of this program, and give the exit status."""
    document = {"check": CHECK, "cases": n_cases, "passed": passed, "detail": detail}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return PASS if passed else FAIL


def run(player: Player, cases: str) -> int:
    """Play all cases on all machines and report each ratio beside its bound."""
    jobs = [
        (case, machine)
        for case in CASES
        for machine in (*MACHINES, *(TWO_TOPS if case in (steady, early) else ()))
        if case.__name__ in cases.split(",")
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda job: list(job[0](player, job[1])), jobs)
        outcomes = [outcome for group in found for outcome in group]
    detail = {
        outcome.name: {"value": round(outcome.value, 4), "bound": outcome.bound}
        | ({} if outcome.passed else {"passed": False})
        for outcome in outcomes
    }
    return report(len(outcomes), all(outcome.passed for outcome in outcomes), detail)


def main() -> int:
    """Read the command line, all checks take a folder of binaries though this one needs none."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bin", "--source", "--work"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--root", type=Path, help="not used")
    parser.add_argument("--cases", default=",".join(case.__name__ for case in CASES))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    if not (arguments.source / SOURCE).is_file():
        return report(1, False, {"error": f"{SOURCE} is missing"})
    try:
        player = build(arguments.source, arguments.work.resolve())
    except FileNotFoundError as error:
        report(0, False, {"error": str(error)})
        return NO_ENVIRONMENT
    return run(player, arguments.cases)


if __name__ == "__main__":
    sys.exit(main())
