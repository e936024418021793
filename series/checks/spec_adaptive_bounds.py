"""Cases that judge what must never happen: lengths out of bounds, rejections that are none."""

import itertools
from collections.abc import Iterator

from spec_adaptive_machines import Machine
from spec_adaptive_play import Outcome, Player, settled


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


def speed(player: Player, machine: Machine) -> Iterator[Outcome]:
    """A decision costs less than a thousandth of a round."""
    for n_seq in (1, 4):
        run = player.play(machine, [[(300.0, (0.9,)), (300.0, (0.3,))]] * n_seq, tokens=8000)
        share = run["ns"] / (1e6 * run["ms"] / run["rounds"])
        yield Outcome(f"{machine.name}/{n_seq} slots/share of a round", share, 0.001, least=False)
