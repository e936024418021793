"""Interleaved measuring: every block runs each arm twice, in an order and then its mirror image.

So the four samples of any two arms are an ABBA or BAAB quad (validate/statistics.py): a linear
drift of the logarithms cancels for every pair, with 2 servers an arm and block. Every sample is in
the store before it is used; an interrupted run goes on where it was.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from validate.cells import Sample
from validate.sample_store import SampleStore
from validate.speculation.arms import SpecArm
from validate.speculation.client import SEED, Request, Round, Turn, converse
from validate.speculation.server import (
    HEALTH_SECONDS,
    Server,
    read_counters,
    require_drafting,
    serve,
)

LOGGER = logging.getLogger("lab")
WARM_UP = "Say hello."
WARM_UP_TOKENS = 16


@dataclass(frozen=True)
class Setting:
    """What all arms of a run share. `device` is llama-server's name of one, or cpu.

    `temperatures`: of each slot those of its questions, in turns; slots without are greedy. The
    hotter a slot, the less of a drafter's likeliest tokens it accepts.
    `endless`: answers go on to their limit. `fresh`: each question begins a new conversation.
    `warm_up`: tokens of the answer that is dropped.
    """

    server: Path
    target: Path
    device: str = "cpu"
    threads: int = 2
    slots: int = 1
    n_predict: int = 512
    context: int = 8192
    health_seconds: float = HEALTH_SECONDS
    port: int | None = None
    temperatures: tuple[tuple[float, ...], ...] = ()
    warm_up: int = WARM_UP_TOKENS
    endless: bool = False
    fresh: bool = False

    def requests(self, n_predict: int, seed: int) -> list[Request]:
        """One for each slot."""
        heat = (*self.temperatures, *((0.0,),) * self.slots)
        return [
            Request(n_predict, self.endless, seed, heat[slot], self.fresh)
            for slot in range(self.slots)
        ]

    def command(self, arm: SpecArm) -> list[str]:
        """The command line of an arm's server, without its address."""
        words = [os.fspath(self.server), "-m", os.fspath(self.target), *arm.options()]
        place = (
            ["-dev", "none", "-ngl", "0"]
            if self.device == "cpu"
            else ["-dev", self.device, "-ngl", "99"]
        )
        size = ["-np", str(self.slots), "-c", str(self.context * self.slots)]
        return [*words, *place, *size, "-t", str(self.threads), "--metrics"]


@dataclass(frozen=True)
class Taken:
    """What one server gave: the turns of each slot, by conversation. `key`: block and position."""

    arm: str
    key: tuple[int, int]
    turns: Mapping[str, tuple[tuple[Turn, ...], ...]]


def order_arms(
    arms: Sequence[SpecArm], block: int, seed: int, *, swapped: bool = False
) -> list[SpecArm]:
    """A random order and its mirror image; the same for the same seed and block.

    `swapped` begins with the mirror image: an effect of the order cannot confirm itself.
    """
    order = list(arms)
    Random(f"{seed} {block}").shuffle(order)  # noqa: S311 - repeatable is the point
    return order[::-1] + order if swapped else order + order[::-1]


class Recorder:
    """The run's samples, in the store of all samples."""

    def __init__(self, store: SampleStore, session: int) -> None:
        self._store = store
        self._session = session

    def keep(self, taken: Taken) -> None:
        """Store what one server gave, whole."""
        self._store.add(self._session, "step", list(write_samples(taken)))

    def load(self) -> dict[tuple[str, int, int], Taken]:
        """What was measured before, by arm, block and position."""
        stored = [each.sample for each in self._store.samples(self._session)]
        return read_samples(stored)


def measure_blocks(
    setting: Setting,
    arms: Sequence[SpecArm],
    conversations: Mapping[str, Sequence[str]],
    blocks: int,
    seed: int,
    recorder: Recorder,
    lab: Lab,
    *,
    swapped: bool = False,
) -> list[Taken]:
    """All samples of the blocks; those in the store are not measured again."""
    known = recorder.load()
    places = list_places(arms, blocks, seed, swapped=swapped)
    left = [place for place in places if (place[0].name, *place[1]) not in known]
    started = time.monotonic()
    for done, (arm, key) in enumerate(left):
        said = _say_rest(time.monotonic() - started, done, len(left))
        LOGGER.info("server %d of %d: %s%s", done + 1, len(left), arm.name, said)
        turns = measure_arm(setting, arm, conversations, lab, f"{key[0]}-{key[1]}", key[0])
        taken = known[arm.name, *key] = Taken(arm.name, key, turns)
        recorder.keep(taken)
    wanted = {arm.name for arm in arms}
    return [each for each in known.values() if each.arm in wanted and each.key[0] <= blocks]


def list_places(
    arms: Sequence[SpecArm], blocks: int, seed: int, *, swapped: bool = False
) -> list[tuple[SpecArm, tuple[int, int]]]:
    """Which arm runs in which block and position, in the order of running."""
    return [
        (arm, (block, int(place >= len(arms))))
        for block in range(1, blocks + 1)
        for place, arm in enumerate(order_arms(arms, block, seed, swapped=swapped))
    ]


def _say_rest(seconds: float, done: int, total: int) -> str:
    return f", about {seconds / done * (total - done) / 60:.0f} min left" if done else ""


def measure_arm(
    setting: Setting,
    arm: SpecArm,
    conversations: Mapping[str, Sequence[str]],
    lab: Lab,
    label: str = "1",
    seed: int = SEED,
) -> dict[str, tuple[tuple[Turn, ...], ...]]:
    """One server's turns by conversation; its warm-up is dropped.

    `seed` decides what is accepted where acceptance is synthetic, or the text sampled.
    """
    log = lab.log(f"speculation-{setting.device}-{arm.name}-{label}")
    command = setting.command(arm)
    found: dict[str, tuple[tuple[Turn, ...], ...]] = {}
    with serve(command, log, port=setting.port, seconds=setting.health_seconds) as server:
        require_drafting(server)
        converse(server, [WARM_UP], setting.requests(setting.warm_up, seed))
        before = read_counters(server)
        for name, questions in conversations.items():
            talks = converse(server, questions, setting.requests(setting.n_predict, seed))
            found[name] = tuple(tuple(talk) for talk in talks)
        check_drafts(arm, found, server)
        check_counters(found, before, read_counters(server))
    return found


def check_drafts(
    arm: SpecArm, found: Mapping[str, tuple[tuple[Turn, ...], ...]], server: Server
) -> None:
    """Refuse numbers of a server that did not do what the arm is called after."""
    drafted = sum(turn.drafted for talks in found.values() for talk in talks for turn in talk)
    if arm.drafter is None and drafted:
        raise InvalidMeasurement("the server without a drafter drafted")
    if arm.drafter and not arm.adaptive and not drafted:
        raise InvalidMeasurement(
            f"{arm.name}: the server drafted nothing",
            remedy=f"read its log: {server.process.log}",
        )


def check_counters(
    found: Mapping[str, tuple[tuple[Turn, ...], ...]],
    before: Mapping[str, float],
    after: Mapping[str, float],
) -> None:
    """Refuse answers whose timings add up to something else than the server's own counters."""
    turns = [turn for talks in found.values() for talk in talks for turn in talk]
    sums = {
        "tokens_predicted_total": sum(turn.tokens for turn in turns),
        "spec_decode_num_draft_tokens_total": sum(turn.drafted for turn in turns),
        "spec_decode_num_accepted_tokens_total": sum(turn.accepted for turn in turns),
    }
    for name, total in sums.items():
        counted = after.get(name, 0) - before.get(name, 0)
        if counted != total:
            raise InvalidMeasurement(f"the server counts {name} {counted:g}, its answers {total}")


def write_samples(taken: Taken) -> list[Sample]:
    """One sample a turn: `arm | conversation | slot | question`, in tok/s."""
    return [
        _write_turn(taken, f"{taken.arm} | {name} | {slot} | {number}", turn)
        for name, talks in taken.turns.items()
        for slot, talk in enumerate(talks)
        for number, turn in enumerate(talk)
    ]


def _write_turn(taken: Taken, cell: str, turn: Turn) -> Sample:
    facts = {
        "tokens": str(turn.tokens),
        "drafted": str(turn.drafted),
        "accepted": str(turn.accepted),
        "rounds": json.dumps([(each.drafted, each.accepted) for each in turn.rounds]),
    }
    block, position = taken.key
    seconds = turn.tokens / turn.speed
    return Sample(cell, "A", block, position, turn.speed, seconds, facts)


def read_samples(samples: Sequence[Sample]) -> dict[tuple[str, int, int], Taken]:
    """The inverse of write_samples for many servers."""
    found: dict[tuple[str, int, int], dict[str, dict[int, dict[int, Turn]]]] = {}
    for sample in samples:
        arm, name, slot, number = sample.cell.split(" | ")
        turns = found.setdefault((arm, sample.quad, sample.position), {})
        turns.setdefault(name, {}).setdefault(int(slot), {})[int(number)] = _read_turn(sample)
    return {key: Taken(key[0], key[1:], _sort(turns)) for key, turns in found.items()}


def _sort(
    turns: Mapping[str, Mapping[int, Mapping[int, Turn]]],
) -> dict[str, tuple[tuple[Turn, ...], ...]]:
    return {
        name: tuple(tuple(talk[n] for n in sorted(talk)) for _, talk in sorted(talks.items()))
        for name, talks in turns.items()
    }


def _read_turn(sample: Sample) -> Turn:
    facts = sample.facts
    rounds = tuple(Round(*pair) for pair in json.loads(facts["rounds"]))
    tokens, drafted, accepted = (int(facts[key]) for key in ("tokens", "drafted", "accepted"))
    return Turn(sample.value, tokens, drafted, accepted, rounds=rounds)
