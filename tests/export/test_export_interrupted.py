"""A full disk and kill -9 in the middle: refs and files are those of one round or the other's,
each file whole, and the same command finishes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.export.conftest import Exporter, MakeExporter
from tests.series.lab import Lab, run_child
from tests.series.miniature import OWN, STEADY, Miniature, lines
from tests.small_disk import mount_small
from upstream.errors import EnvironmentFault

TOPICS = {"one": ((), ["steady.patch"]), "two": ((), ["own.patch"])}
# Ends this process with a real SIGKILL at the Nth rename below the output folder.
KILLER = """
import os, re, runpy, signal, sys
left, output = int(sys.argv.pop(1)), sys.argv.pop(1)
def hook(event, args):
    global left
    if event == "os.rename" and str(args[1]).startswith(output):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
sys.argv[0] = "export"
runpy.run_module("validate.export", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def exporter(upstream: Miniature, make_exporter: MakeExporter) -> Exporter:
    return make_exporter(upstream.patches("b100", STEADY, OWN), TOPICS)


def change_both(exporter: Exporter, upstream: Miniature) -> None:
    steady = (STEADY[0], {"src/gamma.c": lines("gamma", changes={10: "gamma 10 otherwise"})})
    own = (OWN[0], {"src/omega.c": lines("omega", changes={3: "omega 3 otherwise"})})
    for name, content in upstream.patches("b100", steady, own).items():
        (exporter.series / "patches" / name).write_bytes(content)


def run_killed(exporter: Exporter, count: int) -> int:
    """An export that dies at the count-th rename; its exit code."""
    command = (sys.executable, "-c", KILLER, str(count), str(exporter.output))
    lab = Lab(exporter.lab, exporter.series, exporter.remote)
    return run_child((*command, *exporter.arguments("--onto", "b100")), lab.environment()).code


# 12 files are staged, then moved: one while staging, one while moving.
@pytest.mark.parametrize("count", [5, 18])
def test_an_export_that_was_killed_is_finished_by_the_next_one(
    count: int, exporter: Exporter, upstream: Miniature
) -> None:
    exporter.run()
    refs, files = exporter.refs(), exporter.files()
    change_both(exporter, upstream)
    assert run_killed(exporter, count) == -9
    assert exporter.refs() == refs
    if count < 13:
        assert {name: files[name] for name in files} == {
            k: v for k, v in exporter.files().items() if not k.startswith(".staged")
        }
    exporter.run()
    after = {k: v for k, v in exporter.refs().items() if k.endswith(("/v2", "/pr/one"))}
    assert len(after) == 3
    assert not (exporter.output / ".staged").exists()
    _, out = exporter.run()
    assert "nothing changed" in out


def test_the_renames_above_are_all_there_are(exporter: Exporter, upstream: Miniature) -> None:
    exporter.run()
    change_both(exporter, upstream)
    assert run_killed(exporter, 25) == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mount_small(tmp_path / "small", "16k") as folder:
        yield folder


def test_a_full_disk_moves_nothing(exporter: Exporter, small_disk: Path) -> None:
    with pytest.raises(EnvironmentFault, match="No space left") as caught:
        exporter.run("--output", str(small_disk))
    assert "the same command again" in caught.value.remedy
    assert exporter.refs() == {}
    assert list(small_disk.rglob("*")) == []
    assert exporter.run()[0] == 0


def test_the_child_answers_with_the_documented_codes(
    exporter: Exporter, upstream: Miniature
) -> None:
    lab = Lab(exporter.lab, exporter.series, exporter.remote)
    command = (sys.executable, "-m", "validate.export")
    done = run_child((*command, *exporter.arguments("--onto", "b100")), lab.environment())
    assert done.code == 0, done.err
    assert "NOT READY" in done.out
    checked = (*command, *exporter.arguments("--onto", "b100", "--check", "--json"))
    done = run_child(checked, lab.environment())
    assert done.code == 1
    assert done.document()["topics"][0]["ready"] is False
    (exporter.series / "signoff.toml").write_text("signoff = 3\n")
    done = run_child((*command, *exporter.arguments("--onto", "b100")), lab.environment())
    assert done.code == 2
    assert "write [[signoff]]" in done.err
