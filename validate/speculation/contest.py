"""The adaptive length against the best fixed one, at one acceptance.

The best of many measured lengths looks better than it is, by its luck. So it is chosen on samples
of its own, and compared on others: quads of servers with the method of every other speed
(comparison.py: control, looks, margin, a second run for what is SLOWER).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from statistics import median
from typing import Protocol

from upstream.lab import Lab
from validate.cells import Arm, Cell, Judged, Sample, Speed
from validate.comparison import Known, Plan, Track, compare, confirm
from validate.sample_store import SampleStore
from validate.speculation.acceptance import Acceptance
from validate.speculation.arms import Drafter, SpecArm
from validate.speculation.client import Turn, total_speed
from validate.speculation.measure import Setting, measure_arm, order_arms
from validate.speculation.sessions import make_key

LOGGER = logging.getLogger("lab")
QUESTION = "Go on."
TURNS = 3  # of each phase, where a slot has several
CHOOSING_BLOCKS = 2  # each runs every length twice
CHOOSING_LUCK = 10_000  # apart from the seeds of the comparison
BOUND, BOUND_IN_VAIN = 0.98, 0.97  # of the best fixed length; of no speculation at acceptance 0
BOUND_IN_PHASES = 0.99  # of the best fixed length, where the content alternates


@dataclass(frozen=True)
class Contest:
    """A drafter at one acceptance (None: its own). `lengths`: the fixed ones, 0 is no drafter.

    `phases`: the content of a slot alternates.
    """

    drafter: Drafter
    acceptance: Acceptance | None
    lengths: tuple[int, ...]
    phases: bool = False

    @property
    def name(self) -> str:
        own = "alternating" if self.phases else "real"
        return f"{self.drafter.name} {self.acceptance.name if self.acceptance else own}"

    @property
    def is_vain(self) -> bool:
        """Whether the adversary is no speculation: nothing is ever accepted."""
        return self.acceptance is not None and self.acceptance.is_vain

    @property
    def bound(self) -> float:
        """What is demanded of adaptive, as a share of its adversary."""
        if self.phases:
            return BOUND_IN_PHASES
        return BOUND_IN_VAIN if self.is_vain else BOUND

    def fixed(self, length: int) -> SpecArm:
        """The arm of a fixed length."""
        if length == 0:
            return SpecArm()
        return SpecArm(self.drafter, length, rates=self._rates(length))

    def adaptive(self) -> SpecArm:
        """The arm that is judged."""
        longest = max(self.lengths)
        return SpecArm(self.drafter, longest, adaptive=True, rates=self._rates(longest))

    def _rates(self, length: int) -> tuple[float, ...]:
        return self.acceptance.rates(length) if self.acceptance else ()


@dataclass(frozen=True)
class Outcome:
    """`best` was chosen by `curve`, tok/s of each fixed length; `judged` compares adaptive with it.

    `adaptive`: its median tok/s in the comparison; `mean_length`: its drafted tokens a round.
    """

    contest: Contest
    slots: int
    best: int
    curve: Mapping[int, float]
    judged: Judged
    adaptive: float = 0.0
    mean_length: float = 0.0

    @property
    def state(self) -> str:
        """holds: the whole interval is above the bound; missed: SLOWER, twice; else open."""
        if self.judged.verdict is Speed.INVALID:
            return "invalid"
        if self.judged.low >= math.log(self.contest.bound):
            return "holds"
        return "missed" if self.judged.verdict is Speed.SLOWER else "open"


class Measure(Protocol):
    """Turns of one server, see measure_arm."""

    def __call__(
        self,
        setting: Setting,
        arm: SpecArm,
        conversations: Mapping[str, Sequence[str]],
        lab: Lab,
        label: str,
        seed: int,
    ) -> Mapping[str, Sequence[Sequence[Turn]]]: ...


@dataclass(frozen=True)
class Arena:
    """Where contests are held: all that they share. `choosing`: blocks to choose a length by."""

    setting: Setting
    lab: Lab
    store: SampleStore
    plan: Plan
    seed: int = 1
    choosing: int = CHOOSING_BLOCKS
    measure: Measure = field(default=measure_arm, repr=False)

    def sample(
        self, spec: SpecArm, cell: str, arm: Arm, quad: int, position: int, luck: int = 0
    ) -> Sample:
        """One server's total tok/s. The four of a quad have the same luck with acceptance."""
        label = f"{cell}-{quad}-{position}"
        seed = self.seed + luck + quad
        phases = max((len(each) for each in self.setting.temperatures), default=1)
        talk = {"endless": [QUESTION] * (TURNS * phases if phases > 1 else 1)}
        setting = replace(self.setting, fresh=phases > 1)
        talks = self.measure(setting, spec, talk, self.lab, label, seed)["endless"]
        every = [turn for talk in talks for turn in talk]
        rounds = [each.drafted for turn in every for each in turn.rounds]
        facts = {
            "arm": spec.name,
            "drafted": str(sum(turn.drafted for turn in every)),
            "accepted": str(sum(turn.accepted for turn in every)),
            "rounds": str(len(rounds)),
        }
        seconds = max(sum(turn.tokens / turn.speed for turn in talk) for talk in talks)
        return Sample(cell, arm, quad, position, total_speed(talks), seconds, facts)


def hold(arena: Arena, contest: Contest) -> Outcome:
    """Choose the best fixed length, then compare; a SLOWER is not confirmed yet."""
    curve = measure_curve(arena, contest)
    best = 0 if contest.is_vain else max(curve, key=lambda length: curve[length])
    LOGGER.info("%s: adaptive against length %d", contest.name, best)
    return _describe(arena, contest, curve, best, _judge(arena, contest, best))


def hold_again(arena: Arena, outcome: Outcome) -> Outcome:
    """Measure what was SLOWER a second time; it stays so only if that run agrees."""
    if outcome.judged.verdict is not Speed.SLOWER:
        return outcome
    return replace(outcome, judged=_judge(arena, outcome.contest, outcome.best, outcome.judged))


def measure_curve(arena: Arena, contest: Contest) -> dict[int, float]:
    """Median tok/s of every fixed length, on samples that judge nothing."""
    arms = {length: contest.fixed(length) for length in contest.lengths}
    key = make_key(arena.setting, arms.values(), [contest.name, "choosing"], arena.seed)
    session = arena.store.open_session(key)
    known = {
        (each.sample.cell, each.sample.quad, each.sample.position): each.sample.value
        for each in arena.store.samples(session)
    }
    for block in range(1, arena.choosing + 1):
        for place, arm in enumerate(order_arms(list(arms.values()), block, arena.seed)):
            where = (arm.name, block, int(place >= len(arms)))
            if where not in known:
                sample = arena.sample(arm, arm.name, "A", *where[1:], CHOOSING_LUCK)
                arena.store.add(session, "step", [sample])
                known[where] = sample.value
    return {
        length: median(value for where, value in known.items() if where[0] == arm.name)
        for length, arm in arms.items()
    }


def _judge(arena: Arena, contest: Contest, best: int, first: Judged | None = None) -> Judged:
    """The first comparison, or with the first's verdict the second."""
    arms: dict[Arm, SpecArm] = {"A": contest.fixed(best), "B": contest.adaptive()}
    cell = Cell("llama-server", contest.name, "t/s", 1 - contest.bound)
    session = _open_session(arena, contest, best, 2 if first else 1)
    found = arena.store.verdicts(session)
    if found is not None:
        return found[0]
    track = partial(_Track, arena, cell, session)
    samplers = track("step", arms), track("control", {"A": arms["A"], "B": arms["A"]})
    rng = Random(arena.seed)  # noqa: S311 (coins of an experiment, no secret)
    known = _load(arena.store, session)
    if first:
        (judged,) = confirm([first], *samplers, arena.plan, rng, known=known)
    else:
        (judged,) = compare([cell], *samplers, arena.plan, rng, known=known)
    if judged.verdict is Speed.INVALID:
        arena.store.set_aside(session)
    elif judged.verdict is not Speed.INCONCLUSIVE or judged.quads == arena.plan.looks[-1]:
        arena.store.finish(session, [judged])
    return judged


def _open_session(arena: Arena, contest: Contest, best: int, run: int = 1) -> int:
    arms = [contest.fixed(best), contest.adaptive()]
    what = [contest.name, arena.plan.looks, arena.plan.control_quads, arena.plan.family]
    return arena.store.open_session(make_key(arena.setting, arms, what, arena.seed, run))


def _load(store: SampleStore, session: int) -> Known:
    stored = store.samples(session)
    tracks: tuple[Track, ...] = ("step", "control")
    return {track: [s.sample for s in stored if s.track == track] for track in tracks}


@dataclass(frozen=True)
class _Track:
    """A sampler: of the control both arms are the adversary."""

    arena: Arena
    cell: Cell
    session: int
    track: Track
    arms: Mapping[Arm, SpecArm]

    def sample(self, arm: Arm, quad: int, position: int) -> Mapping[str, Sample]:
        found = self.arena.sample(self.arms[arm], self.cell.name, arm, quad, position)
        if quad:
            self.arena.store.add(self.session, self.track, [found])
        return {self.cell.name: found}


def _describe(
    arena: Arena, contest: Contest, curve: Mapping[int, float], best: int, judged: Judged
) -> Outcome:
    """The outcome with what adaptive did in the comparison."""
    session = _open_session(arena, contest, best)
    mine = [s.sample for s in arena.store.samples(session) if s.track == "step"]
    mine = [sample for sample in mine if sample.arm == "B"]
    if not mine:
        return Outcome(contest, arena.setting.slots, best, curve, judged)
    drafted, rounds = (sum(int(s.facts[key]) for s in mine) for key in ("drafted", "rounds"))
    speed = median(sample.value for sample in mine)
    length = drafted / rounds if rounds else 0.0
    return Outcome(contest, arena.setting.slots, best, curve, judged, speed, length)
