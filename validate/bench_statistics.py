"""How often the method errs on simulated machines, beside the usual blocked comparison.

A trial is a session on a machine of its own (a step that changes nothing), and the same session
again, noise and coins alike, with a step that is slower by twice the margin that the session found.
Every method gets the same number of processes an arm: a model of 16 runs ends at the first look.
A miss is a step that is not called SLOWER, whatever else is said, and after the confirming run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median

from validate.cells import Cell, Judged, Speed
from validate.comparison import Plan, compare, confirm
from validate.figures import Figure
from validate.noise import (
    MODELS,
    Noise,
    SimulatedSampler,
    mann_whitney_p,
    run_blocked,
    run_machine,
    welch_p,
)
from validate.schedule import throw_order
from validate.statistics import hodges_lehmann, quad_difference

TRIALS = 2000
ALPHA = 0.05
TESTS = {"Mann-Whitney": mann_whitney_p, "Welch": welch_p}


@dataclass(frozen=True)
class Outcome:
    """What became of the trials on one model, as parts of 1; blocked ones by name of the test.

    verdicts: with no effect; found: slower by twice the session's own margin; typical: by twice
    the median margin of all sessions.
    """

    noise: Noise
    trials: int
    verdicts: Mapping[Speed, float]
    found: Mapping[Speed, float]
    typical: Mapping[Speed, float]
    margin: float
    quads: float
    covered: float
    blocked_alarms: Mapping[str, float]
    blocked_misses: Mapping[str, float]

    @property
    def alarms(self) -> float:
        """A verdict on a change where there is none."""
        return self.verdicts.get(Speed.SLOWER, 0) + self.verdicts.get(Speed.FASTER, 0)

    @property
    def misses(self) -> float:
        """Everything but SLOWER where the step is slower by twice the margin."""
        return 1 - self.found.get(Speed.SLOWER, 0)

    @property
    def typical_misses(self) -> float:
        """The same for twice the median margin: sessions with a larger margin miss more."""
        return 1 - self.typical.get(Speed.SLOWER, 0)


def bench_statistics(trials: int = TRIALS) -> list[Figure]:
    """The rates in per cent on all models, with the issue's bounds. About two minutes."""
    return list_figures(simulate_models(trials))


def simulate_models(trials: int = TRIALS) -> list[Outcome]:
    """One outcome a noise model; the same numbers on every machine."""
    return [simulate(noise, trials) for noise in MODELS]


def simulate(noise: Noise, trials: int) -> Outcome:
    """All methods on one model; trial i always has the same noise."""
    sessions = [run_session(noise, f"{noise.name} {i}") for i in range(trials)]
    effects = [-2 * one.margin for one in sessions]
    margin = median(one.margin for one in sessions)
    slower = [run_session(noise, f"{noise.name} {i}", e) for i, e in enumerate(effects)]
    typical = [run_session(noise, f"{noise.name} {i}", -2 * margin) for i in range(trials)]
    covered = sum(covers(noise, f"{noise.name} {i}") for i in range(trials))
    return Outcome(
        noise,
        trials,
        count_verdicts(sessions),
        count_verdicts(slower),
        count_verdicts(typical),
        margin,
        sum(one.quads for one in sessions) / trials,
        covered / trials,
        count_alarms(noise, [0.0] * trials, signed=False),
        {name: 1 - rate for name, rate in count_alarms(noise, effects, signed=True).items()},
    )


def plan_for(noise: Noise) -> Plan:
    """The default plan with those looks that the model's number of runs pays for."""
    plan = Plan(alpha=ALPHA)
    return replace(plan, looks=tuple(n for n in plan.looks if 2 * n <= noise.runs))


def run_session(noise: Noise, seed: str, effect: float = 0.0) -> Judged:
    """One comparison of a step that changes ln(speed) by `effect`, confirmed when it is SLOWER."""
    plan = plan_for(noise)
    cell = Cell("simulation", "cell", "t/s", noise.minimum)
    first = compare([cell], *make_samplers(cell, noise, seed, effect), plan, seeded(seed))
    later = make_samplers(cell, noise, f"{seed} again", effect)
    return confirm(first, *later, plan, seeded(seed))[0]


def seeded(seed: str) -> Random:
    """Chance that is the same in every run."""
    return Random(seed)  # noqa: S311


def make_samplers(
    cell: Cell, noise: Noise, seed: str, effect: float
) -> tuple[SimulatedSampler, SimulatedSampler]:
    """The step's and the control's, on one machine."""
    machine = run_machine(noise, seeded(f"noise {seed}"))
    step = SimulatedSampler([cell], machine, {cell.name: effect})
    return step, SimulatedSampler([cell], machine)


def covers(noise: Noise, seed: str) -> bool:
    """Whether the 95 % interval of all the model's quads holds the true effect."""
    rng = seeded(f"coverage {seed}")
    machine = run_machine(noise, rng)
    differences = []
    for _ in range(noise.runs // 2):
        order = throw_order(rng)
        differences.append(quad_difference(order, [math.exp(next(machine)) for _ in order]))
    interval = hodges_lehmann(differences, ALPHA)
    return interval.low <= 0 <= interval.high


def count_alarms(noise: Noise, effects: Sequence[float], *, signed: bool) -> dict[str, float]:
    """How often A, then B is significant; only with B slower when `signed`."""
    found: Counter[str] = Counter()
    for trial, effect in enumerate(effects):
        machine = run_machine(noise, seeded(f"blocked {noise.name} {trial}"))
        a, b = run_blocked(machine, noise.runs)
        b = [x + effect for x in b]
        if not signed or median(b) < median(a):
            found.update(name for name, test in TESTS.items() if test(a, b) <= ALPHA)
    return {name: found[name] / len(effects) for name in TESTS}


def count_verdicts(judged: Sequence[Judged]) -> dict[Speed, float]:
    """The parts of the verdicts."""
    counts = Counter(one.verdict for one in judged)
    return {verdict: counts[verdict] / len(judged) for verdict in counts}


def list_figures(outcomes: Sequence[Outcome]) -> list[Figure]:
    """Per cent, each beside what the blocked comparison does on the same machine."""
    figures = [figure for outcome in outcomes for figure in _list_rates(outcome)]
    covered = 100 * sum(one.covered for one in outcomes) / len(outcomes)
    each = ", ".join(f"{one.noise.name} {100 * one.covered:.1f}" for one in outcomes)
    return [
        *figures,
        Figure(
            "95 % interval holds the true effect", covered, "%", 95.0, at_least=True, detail=each
        ),
    ]


def _list_rates(outcome: Outcome) -> list[Figure]:
    name = outcome.noise.name
    same, unsure, invalid = (
        100 * outcome.verdicts.get(verdict, 0)
        for verdict in (Speed.SAME, Speed.INCONCLUSIVE, Speed.INVALID)
    )
    said = f"SAME {same:.1f}, INCONCLUSIVE {unsure:.1f}, INVALID {invalid:.1f} %"
    what = f"{outcome.trials} trials, {outcome.quads:.1f} quads; {said}"
    margin = (
        f"confirming run included; at twice the median margin ({100 * outcome.margin:.1f} %) "
        f"{100 * outcome.typical_misses:.1f} %"
    )
    alarms, misses = outcome.blocked_alarms, outcome.blocked_misses
    return [
        Figure(f"false alarms, {name}", 100 * outcome.alarms, "%", 5.0, detail=what),
        Figure(
            f"misses at twice the margin, {name}", 100 * outcome.misses, "%", 10.0, detail=margin
        ),
        *(
            Figure(
                f"blocked {test}: false alarms, {name}",
                100 * alarms[test],
                "%",
                detail=f"{outcome.noise.runs} runs an arm; misses {100 * misses[test]:.1f} %",
            )
            for test in TESTS
        ),
    ]
