"""`nox -s speculation` on a stand-in for llama-server: real processes, real HTTP."""

from __future__ import annotations

import json
import socket
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import requests

from upstream.errors import EnvironmentFault, InvalidMeasurement, UsageError
from upstream.lab import Lab
from validate.sample_store import SessionKey, open_samples
from validate.speculation.__main__ import make_parser, run
from validate.speculation.arms import Drafter, SpecArm, list_arms
from validate.speculation.client import Request, ask
from validate.speculation.measure import Recorder, Setting, measure_arm, measure_blocks
from validate.speculation.server import ServerFault, choose_remedy, serve

TALK = {"published": ["one?", "two?"]}
SOURCE = Path(__file__).with_name("speculation_server.py")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "lab")


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    program = tmp_path / "llama-server"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {SOURCE} "$@"\n')
    program.chmod(0o755)
    return Setting(program, tmp_path / "target.gguf", health_seconds=20)


ARM = SpecArm(Drafter("draft-mtp"), 2)


def test_turns_are_the_servers_own(setting: Setting, lab: Lab) -> None:
    ((first, second),) = measure_arm(setting, ARM, TALK, lab)["published"]
    assert (first.speed, first.tokens, first.drafted, first.accepted) == (30.0, 12, 7, 7)
    assert [each.drafted for each in first.rounds] == [2, 2, 2, 1]
    assert second.text == "x" * 12


def test_every_slot_talks(setting: Setting, lab: Lab) -> None:
    both = Setting(setting.server, setting.target, slots=2)
    assert len(measure_arm(both, SpecArm(), TALK, lab)["published"]) == 2


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("sick", "MTP layers"),
        ("dies", "device lost"),
        ("vocab", "share one vocabulary"),
    ],
)
def test_the_servers_last_words(
    setting: Setting, lab: Lab, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    monkeypatch.setenv("STANDIN", fault)
    with pytest.raises(ServerFault, match=words) as caught:
        measure_arm(setting, ARM, TALK, lab)
    assert "log: " in str(caught.value)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("adaptive draft length requires an initialized speculative", "--drafter"),
        ("an adaptive draft length requires n_min <= n_max, got n_min = 8", "lower --n-min"),
        ("the target and draft vocabs are not compatible", "share one vocabulary"),
        ("synthetic acceptance rates must contain 15 values, got 20", "longest draft"),
        ("error while handling argument --spec-synth-rates", "one rate for each position"),
        ("failed to create MTP context", "with an MTP head"),
        ("draft model is not eagle3 (expected 3 extract layers, got 0)", "of the type"),
        ("error: invalid argument: --spec-draft-adaptive", "stack's tip"),
        ("error: invalid device: Vulkan7", "--list-devices"),
        ("couldn't bind HTTP server socket", "--port"),
        ("something else", "read its log: x.log"),
    ],
)
def test_what_to_do_about_what_the_server_says(said: str, remedy: str) -> None:
    assert remedy in choose_remedy(said, Path("x.log"))


def test_errors_hide_warnings(setting: Setting, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN", "sick")
    with pytest.raises(ServerFault) as caught:
        measure_arm(setting, ARM, TALK, lab)
    assert "unused tensor" not in str(caught.value)


@pytest.mark.parametrize(("fault", "words"), [("silent", "no timings"), ("miscounts", "counts")])
def test_wrong_numbers_are_refused(
    setting: Setting, lab: Lab, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    monkeypatch.setenv("STANDIN", fault)
    with pytest.raises(InvalidMeasurement, match=words):
        measure_arm(setting, ARM, TALK, lab)


@pytest.mark.parametrize("fault", ["loading", "stubborn"])
def test_never_healthy(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("STANDIN", fault)
    with (
        pytest.raises(ServerFault, match=r"not healthy within 0\.3 s"),
        serve([setting.server], tmp_path / "log", seconds=0.3),
    ):
        pass


def test_a_port_that_is_taken(setting: Setting, tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with (
            pytest.raises(EnvironmentFault, match=f"port {port} is taken"),
            serve([setting.server], tmp_path / "log", port=port),
        ):
            pass


def test_the_server_ends_with_the_block(setting: Setting, tmp_path: Path) -> None:
    with serve([setting.server], tmp_path / "log") as server:
        ask(server, [{"role": "user", "content": "?"}], Request(8))
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{server.url}/health", timeout=1)
    assert server.process.code is not None


def test_an_interrupted_run_goes_on(setting: Setting, lab: Lab) -> None:
    arms = list_arms([Drafter("draft-mtp")], [1, 2], adaptive=False)
    key = SessionKey("", "", ("", ""), "", "", "", "", 1)
    lab.root.mkdir()
    with open_samples(lab) as store:
        recorder = Recorder(store, store.open_session(key))
        first = measure_blocks(setting, arms, TALK, 1, 1, recorder, lab)
        broken = Setting(setting.server.with_name("gone"), setting.target)
        again = measure_blocks(broken, arms, TALK, 1, 1, recorder, lab)
    assert len(first) == 6
    strip = [(each.arm, each.key, each.turns["published"][0][0].rounds) for each in first]
    assert strip == [(each.arm, each.key, each.turns["published"][0][0].rounds) for each in again]


def parse(setting: Setting, *options: str) -> Namespace:
    """A command line on the stand-in."""
    setting.target.write_bytes(b"GGUF")
    given = ("--server", str(setting.server), "--target", str(setting.target))
    return make_parser().parse_args([*given, *options])


def test_command(
    setting: Setting, lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_DIR", str(lab.root))
    options = ("--drafter", "mtp", "--lengths", "2,5", "--blocks", "1", "--json")
    assert run(parse(setting, *options, "--conversation", "published")) == 0
    (measured,) = json.loads(capsys.readouterr().out)["runs"]
    assert measured["conversations"]["published"]["ranking"].startswith("mtp 2 ?")
    page = (lab.root / "report" / "speculation.html").read_text()
    assert page.count("<svg") == 3
    assert "<script" not in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "no drafter was named"),
        (("--drafter", "mtp", "--n-min", "3"), "n_min 3 is above"),
        (("--drafter", "mtp", "--spec-synth-rates", ".5,.4"), "2 synthetic rates"),
        (("--drafter", "simple=gone.gguf"), "there is no drafter"),
        (("--drafter", "dflash"), "needs the file"),
        (("--drafter", "guess"), "no drafter 'guess'"),
        (("--drafter", "mtp", "--lengths", "0"), "no draft lengths"),
        (("--drafter", "mtp", "--conversation", "x"), "no conversation"),
        (("--drafter", "mtp", "--acceptance", "2"), "no acceptance"),
        (("--drafter", "mtp", "--acceptance", ".5", "--looks", "x"), "no numbers of quads"),
        (("--drafter", "mtp", "--acceptance", ".5", "--looks", "2"), "cannot decide anything"),
        (("--drafter", "mtp", "--acceptance", ".5", "--spec-synth-rates", "1"), "rates itself"),
        (("--drafter", "mtp", "--acceptance", ".5", "--lengths", "9-12"), "no draft lengths"),
        (("--acceptance", "all"), "no drafter was named"),
    ],
)
def test_bad_command_lines(
    setting: Setting,
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.setenv("LAB_DIR", str(lab.root))
    with pytest.raises(UsageError, match=words) as caught:
        run(parse(setting, *options))
    assert caught.value.remedy
