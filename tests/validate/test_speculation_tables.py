"""Arms, ranking, statistics and tables of `nox -s speculation`, without a server."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pytest

from validate.cells import Speed
from validate.speculation.arms import (
    Drafter,
    SpecArm,
    label_drafters,
    list_arms,
    parse_rates,
)
from validate.speculation.client import Round, Turn, list_rounds
from validate.speculation.judge import (
    blocks_needed,
    compare_pair,
    confirm_ranking,
    correct_rankings,
    list_doubted,
    rank,
)
from validate.speculation.measure import Setting, Taken, order_arms, read_samples, write_samples
from validate.speculation.page import render_page
from validate.speculation.tables import (
    Run,
    acceptance_by_position,
    document_run,
    format_devices,
    format_pair,
    format_published,
    format_run,
    load_conversations,
)

SPEEDS = {"none": 10.0, "mtp 1": 14.0, "mtp 3": 20.0, "mtp 7": 8.0, "mtp adaptive": 20.1}


def take(speeds: dict[str, float], blocks: int = 6, noise: float = 0.003) -> list[Taken]:
    rng = Random(1)
    return [
        Taken(arm, (block, position), {"published": ((turn(speed, rng, noise),) * 2,)})
        for block in range(1, blocks + 1)
        for arm, speed in speeds.items()
        for position in (0, 1)
    ]


def turn(speed: float, rng: Random, noise: float) -> Turn:
    rounds = (Round(3, 3), Round(0, 0), Round(3, 1))
    return Turn(speed * math.exp(rng.gauss(0, noise)), 100, 6, 4, rounds=rounds)


def make_run(blocks: int = 6) -> Run:
    taken = take(SPEEDS, blocks)
    setting = Setting(Path("llama-server"), Path("a.gguf"))
    return Run(setting, blocks, 0.02, tuple(taken), (rank(taken, "published", 0.02),))


def test_ranking_line_and_choices() -> None:
    (ranking,) = make_run().rankings
    assert set(ranking.line.split(" >> ")[0].split(" = ")) == {"mtp adaptive", "mtp 3"}
    assert ranking.line.endswith(" >> mtp 1 >> none > mtp 7")
    assert set(ranking.good) == {"mtp adaptive", "mtp 3"}
    assert set(ranking.terrible) == {"mtp 1", "none", "mtp 7"}
    verdicts = {pair.second: pair.verdict for pair in ranking.adaptive}
    assert verdicts["mtp 3"] is Speed.SAME
    assert verdicts["mtp 7"] is Speed.FASTER


def test_too_few_blocks_decide_nothing() -> None:
    (ranking,) = make_run(2).rankings
    assert set(ranking.signs) == {"?"}
    assert ranking.terrible == ranking.usable == ()


def test_slower_stays_slower_only_if_a_second_run_agrees() -> None:
    slow = SPEEDS | {"mtp adaptive": 9.0}
    (ranking,) = correct_rankings([rank(take(slow, 8), "published", 0.02)])
    assert list_doubted([ranking]) == {"mtp adaptive", "mtp 1", "mtp 3", "none"}
    pairs = {pair.second: pair for pair in confirm_ranking(ranking, take(slow, 8), 0.02).adaptive}
    assert pairs["none"].verdict is Speed.SLOWER
    assert "a second run says" in format_pair(pairs["none"])
    fast = take(slow | {"mtp adaptive": 10.0}, 8)
    pairs = {pair.second: pair for pair in confirm_ranking(ranking, fast, 0.02).adaptive}
    assert pairs["none"].verdict is Speed.INCONCLUSIVE
    assert pairs["mtp 7"].verdict is Speed.FASTER


def test_holm_takes_back_what_many_comparisons_explain() -> None:
    one = rank(take(SPEEDS | {"mtp adaptive": 9.0}), "published", 0.02)
    assert list_doubted(correct_rankings([one])) == set()  # 6 blocks: p = 1/32, times 4
    assert list_doubted([one])
    assert blocks_needed([*SPEEDS], 1) == 8
    assert blocks_needed(["none", "mtp 1"], 5) == 6


def test_a_linear_drift_cancels() -> None:
    places = {"a": (0, 3), "b": (1, 2)}
    speeds = {
        arm: {(b, p): 10 * math.exp(-0.1 * place) for b in range(6) for p, place in enumerate(at)}
        for arm, at in places.items()
    }
    assert compare_pair(speeds, "a", "b", 0.01).verdict is Speed.SAME


def test_order_is_a_mirror_and_repeatable() -> None:
    arms = list_arms([Drafter("draft-mtp")], [1, 2, 3])
    order = order_arms(arms, 1, 1)
    assert order == order[::-1] == order_arms(arms, 1, 1)
    assert set(order) == set(arms)
    assert any(order_arms(arms, n, 1) != order for n in range(2, 6))


def test_options() -> None:
    adaptive = SpecArm(Drafter("draft-dflash", Path("/d.gguf")), 3, True, 1, (0.5, 0.25, 0.1))
    assert adaptive.options() == [
        *("--spec-type", "draft-dflash", "--spec-draft-n-max", "3", "--spec-draft-n-min", "1"),
        *("-md", "/d.gguf", "--spec-draft-adaptive", "--spec-synth-rates", "0.5,0.25,0.1"),
    ]
    assert SpecArm().options() == []


def test_two_drafters_of_a_type_have_names_of_their_own() -> None:
    files = [Path("/m/small.gguf"), Path("/m/large.gguf")]
    both = [Drafter("draft-simple", file) for file in files]
    named = label_drafters([*both, Drafter("draft-mtp")])
    assert [each.name for each in named] == ["simple small", "simple large", "mtp"]
    assert label_drafters(both[:1])[0].name == "simple"


def test_a_shorter_draft_takes_the_first_rates() -> None:
    arms = list_arms([Drafter("draft-mtp")], [1, 2], rates=parse_rates(".5,.2", 2))
    assert [arm.rates for arm in arms] == [(), (0.5,), (0.5, 0.2), (0.5, 0.2)]


def test_rounds_behind_running_totals() -> None:
    totals = [(1, 0, 0), (2, 3, 2), (3, 3, 2), (4, 3, 2), (5, 3, 2), (6, 6, 2), (7, 6, 2)]
    timings = [{"predicted_n": n, "draft_n": d, "draft_n_accepted": a} for n, d, a in totals]
    rounds = [(3, 2), (0, 0), (3, 0), (0, 0)]
    assert [(each.drafted, each.accepted) for each in list_rounds(timings)] == rounds


def test_acceptance_is_right_censored() -> None:
    rounds = [Round(3, 3), Round(3, 1), Round(1, 1), Round(0, 0)]
    assert acceptance_by_position(rounds) == [(1.0, 3), (0.5, 2), (1.0, 1)]


def test_samples_survive_the_store() -> None:
    taken = take(SPEEDS, 1)
    samples = [sample for each in taken for sample in write_samples(each)]
    assert list(read_samples(samples).values()) == taken


def test_text_and_page() -> None:
    run = make_run()
    text = format_run(run)
    assert "accepted" in text
    assert "66.7%" in text
    table = format_devices([run, run]).splitlines()
    assert len(table) == 2 + len(SPEEDS)
    assert table[1].split() == ["Q1", "Q2", "tokens"] * 2
    page = render_page([run])
    assert "best fixed length 3" in page
    assert page.count("Draft length of") == 2  # label and caption of one plot
    assert document_run(run)["acceptance by position"]["mtp 3"][0] == (1.0, 48)


def test_published_numbers_are_the_sources() -> None:
    text = format_published()
    assert "ROCm 75.1/57 (614+1491 tokens); Vulkan 65/56.2 (570+1385 tokens)" in text
    assert "about 28.5/25.5 (1026+1124 tokens)" in text
    assert text.count("\n  ") == 9


def test_conversations() -> None:
    talks = load_conversations([])
    assert list(talks) == ["published", "code", "prose", "repetition", "alternating"]
    assert talks["published"][1] == "Sweet. How good are you at coding?"


def test_rates_never_rise() -> None:
    with pytest.raises(Exception, match="never rise"):
        parse_rates(".5,.6", 2)
