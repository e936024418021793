"""Adaptive against the best fixed length: what is chosen by what, judged how, kept where.

The servers are a labelled fake here, speeds by arm with noise; test_e2e_speculation.py has others.
"""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from upstream.errors import ExitCode, InvalidMeasurement, UsageError
from upstream.lab import Lab
from validate.cells import Speed
from validate.comparison import Plan
from validate.drivers import describe_vulkan
from validate.sample_store import SampleStore, open_samples
from validate.speculation import __main__ as command
from validate.speculation import sessions
from validate.speculation.acceptance import (
    MTP,
    PROFILES,
    Acceptance,
    parse_acceptance,
    parse_temperatures,
)
from validate.speculation.arms import Drafter, SpecArm
from validate.speculation.client import Round, Turn, total_speed
from validate.speculation.contest import Arena, Contest, hold, hold_again
from validate.speculation.matrix import (
    choose_code,
    correct_all,
    document_outcome,
    format_matrix,
    list_contests,
)
from validate.speculation.measure import Setting
from validate.speculation.page import render_page

MIDDLE = Acceptance("p=.5", 0.5)
CONTEST = Contest(Drafter("draft-mtp"), MIDDLE, (0, 1, 2, 3))
PLAN = Plan(looks=(8, 14), control_quads=8)


@dataclass
class FakeServers:
    """Labelled fake: speeds by arm, times a noise that is new for each server."""

    speed: Callable[[SpecArm], float]
    noise: float = 0.002
    seed: int = 1
    fails_after: int = 10**9
    asked: list[tuple[SpecArm, int, Setting]] = field(default_factory=list)

    def __call__(
        self,
        setting: Setting,
        arm: SpecArm,
        conversations: Mapping[str, Sequence[str]],
        lab: Lab,
        label: str,
        seed: int,
    ) -> dict[str, tuple[tuple[Turn, ...], ...]]:
        self.asked.append((arm, seed, setting))
        if len(self.asked) > self.fails_after:
            raise KeyboardInterrupt
        luck = math.exp(Random(f"{self.seed} {len(self.asked)}").gauss(0, self.noise))
        turn = Turn(self.speed(arm) * luck, 100, 2, 1, rounds=(Round(2, 1), Round(0, 0)))
        return {name: ((turn,) * len(asked),) for name, asked in conversations.items()}


def flat(adaptive: float = 100.0) -> Callable[[SpecArm], float]:
    """All fixed lengths alike."""
    return lambda arm: adaptive if arm.adaptive else 100.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    lab = Lab(tmp_path / "lab")
    lab.root.mkdir()
    with open_samples(lab) as opened:
        yield opened


@pytest.fixture
def arena(store: SampleStore, tmp_path: Path) -> Arena:
    for name in ("llama-server", "target.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    setting = Setting(tmp_path / "llama-server", tmp_path / "target.gguf")
    return Arena(setting, Lab(tmp_path / "lab"), store, PLAN)


def meet(arena: Arena, servers: FakeServers, **changes: object) -> Arena:
    return Arena(**{**vars(arena), "measure": servers, **changes})


def test_as_fast_as_the_best_holds(arena: Arena) -> None:
    def speed(arm: SpecArm) -> float:
        return 120.0 if arm.adaptive or arm.limit == 2 else 100.0

    outcome = hold(meet(arena, FakeServers(speed)), CONTEST)
    assert (outcome.best, outcome.state, outcome.judged.verdict) == (2, "holds", Speed.SAME)
    assert outcome.curve.keys() == {0, 1, 2, 3}
    assert outcome.mean_length == 1
    assert choose_code([outcome]) == ExitCode.OK


def test_slower_is_missed_after_a_second_run_agrees(arena: Arena) -> None:
    ring = meet(arena, FakeServers(flat(90.0)))
    first = hold(ring, CONTEST)
    final = hold_again(ring, correct_all([first])[0])
    assert final.state == "missed"
    assert "a second run says" in final.judged.reason
    assert choose_code([final]) == ExitCode.GATE_FAILED


def test_slower_is_open_where_the_second_run_does_not_agree(arena: Arena) -> None:
    first = hold(meet(arena, FakeServers(flat(90.0))), CONTEST)
    final = hold_again(meet(arena, FakeServers(flat(100.0))), first)
    assert (final.state, final.judged.verdict) == ("open", Speed.INCONCLUSIVE)


def test_in_vain_no_speculation_is_the_adversary(arena: Arena) -> None:
    def speed(arm: SpecArm) -> float:
        return 97.8 if arm.adaptive else 110.0 if arm.limit == 3 else 100.0

    vain = Contest(Drafter("draft-mtp"), PROFILES[0], (0, 1, 2, 3))
    outcome = hold(meet(arena, FakeServers(speed)), vain)
    assert (outcome.best, vain.bound, outcome.state) == (0, 0.97, "holds")


def test_what_chooses_does_not_judge(arena: Arena, store: SampleStore) -> None:
    """All lengths are alike: the best of those measured looks better, and is not."""
    chosen, judged = [], []
    for seed in range(6):
        servers = FakeServers(flat(), noise=0.05, seed=seed)
        ring = meet(arena, servers, seed=100 * seed, plan=Plan(looks=(8,), control_quads=8))
        outcome = hold(ring, CONTEST)
        chosen.append(math.log(100 / outcome.curve[outcome.best]))
        judged.append(outcome.judged.center)
        seeds = {arm.adaptive: set[int]() for arm, _, _ in servers.asked}
        for arm, asked, _ in servers.asked:
            seeds[arm.adaptive].add(asked)
        assert not seeds[True] & {asked for _, asked, _ in servers.asked[:16]}
    assert mean(chosen) < -0.02
    assert abs(mean(judged)) < 0.02


def test_an_interrupted_contest_goes_on(arena: Arena) -> None:
    whole = FakeServers(flat())
    hold(meet(arena, whole, seed=7), CONTEST)
    broken = FakeServers(flat(), fails_after=40)
    with pytest.raises(KeyboardInterrupt):
        hold(meet(arena, broken), CONTEST)
    rest = FakeServers(flat())
    outcome = hold(meet(arena, rest), CONTEST)
    # the quad that was cut off and the two warm-ups come again
    assert len(rest.asked) <= len(whole.asked) - 40 + 1 + 4 + 8
    again = FakeServers(flat())
    assert hold(meet(arena, again), CONTEST).judged == outcome.judged
    assert not again.asked


def test_what_is_no_measurement_is_invalid(arena: Arena) -> None:
    def refuse(arm: SpecArm) -> float:
        if arm.adaptive:
            raise InvalidMeasurement("the server counts otherwise")
        return 100.0

    outcome = hold(meet(arena, FakeServers(refuse)), CONTEST)
    assert outcome.state == "invalid"
    assert choose_code([outcome]) == ExitCode.INVALID


def test_phases_are_questions_of_their_own(arena: Arena) -> None:
    servers = FakeServers(flat())
    hot = Setting(arena.setting.server, arena.setting.target, temperatures=((0.0, 2.0),))
    contest = Contest(Drafter("draft-mtp"), None, (0, 1), phases=True)
    outcome = hold(meet(arena, servers, setting=hot), contest)
    assert all(setting.fresh for _, _, setting in servers.asked)
    assert (contest.bound, contest.name, outcome.state) == (0.99, "mtp alternating", "holds")


def test_tables_and_page(arena: Arena) -> None:
    outcome = hold(meet(arena, FakeServers(flat())), CONTEST)
    text = format_matrix([outcome])
    assert "demanded 98 %: holds, SAME" in text
    assert f"adaptive {outcome.adaptive:.1f} at 1.0" in text
    assert json.loads(json.dumps(document_outcome(outcome)))["state"] == "holds"
    page = render_page([], [outcome])
    assert "best fixed length" in page
    assert page.count("<svg") == 1


def test_the_command_ends_as_its_contests_do(
    arena: Arena,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcome = hold(meet(arena, FakeServers(flat(90.0))), CONTEST)
    monkeypatch.setattr(command, "hold_all", lambda arena, contests: [outcome])
    args = Namespace(json=True)
    assert command.run_contests(args, [arena], [CONTEST], tmp_path / "page.html") == 1
    (found,) = json.loads(capsys.readouterr().out)["contests"]
    assert (found["state"], found["best"] in range(4)) == ("missed", True)
    assert "adaptive, of it" in (tmp_path / "page.html").read_text()


def test_the_whole_matrix() -> None:
    drafters = [Drafter("draft-mtp"), Drafter("draft-dflash", Path("/d.gguf"))]
    contests = list_contests(drafters, parse_acceptance(["all"]), 3)
    assert len(contests) == 14
    assert contests[0].fixed(0) == SpecArm()
    assert contests[6].adaptive().rates == MTP[:3]
    assert contests[5].fixed(2).rates == pytest.approx((0.95, 0.9025))


def test_rates_of_profiles() -> None:
    assert [each.name for each in PROFILES] == [
        *("p=0", "p=.3", "p=.5", "p=.7", "p=.85", "p=.95"),
        "mtp",
    ]
    long = PROFILES[-1].rates(9)
    assert long[:7] == MTP
    assert MTP[-1] > long[7] > long[8] > 0
    assert parse_acceptance([".7,mtp", "own"]) == (Acceptance("p=.7", 0.7), PROFILES[-1], None)
    assert parse_temperatures("0,1.5/2") == ((0.0,), (1.5, 2.0))
    assert parse_temperatures("") == ()


@pytest.mark.parametrize("text", ["1.2", "-.1", "much", ""])
def test_no_acceptance(text: str) -> None:
    with pytest.raises(UsageError, match="no acceptance") as caught:
        parse_acceptance([text])
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["warm", "-1", "0/,1"])
def test_no_temperatures(text: str) -> None:
    with pytest.raises(UsageError, match="no temperatures") as caught:
        parse_temperatures(text)
    assert caught.value.remedy


def test_total_speed_ends_with_the_first_slot() -> None:
    fast = Turn(100.0, 100, 0, 0, marks=((1, 0.0), (51, 500.0), (101, 1000.0)))
    slow = Turn(50.0, 100, 0, 0, marks=((1, 0.0), (31, 800.0), (41, 1200.0), (101, 2000.0)))
    assert total_speed([[fast], [slow]]) == pytest.approx(101 + 36)
    assert total_speed([[fast, slow]]) == pytest.approx(200 / 3)


def test_a_drivers_library_is_hashed(tmp_path: Path) -> None:
    (tmp_path / "libvulkan_x.so").write_bytes(b"one")
    manifest = tmp_path / "x.json"
    manifest.write_text('{"ICD": {"library_path": "libvulkan_x.so"}}')
    (tmp_path / "broken.json").write_text("{")
    (first,) = describe_vulkan({}, (tmp_path,))
    (tmp_path / "libvulkan_x.so").write_bytes(b"two")
    ((name, second),) = describe_vulkan({"VK_DRIVER_FILES": str(manifest)}, ())
    assert name == first[0] == str(manifest)
    assert second != first[1]


def test_a_new_driver_is_a_new_session(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    def identities(device: str) -> list[str]:
        found = []
        for version in ("1", "2"):
            monkeypatch.setattr(
                sessions, "describe_drivers", lambda version=version: {"x": version}
            )
            setting = Setting(arena.setting.server, arena.setting.target, device)
            found.append(sessions.make_key(setting, [SpecArm()], "talk", 1).identity)
        return found

    assert len(set(identities("Vulkan0"))) == 2
    assert len(set(identities("cpu"))) == 1
