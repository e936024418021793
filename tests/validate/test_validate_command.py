"""`python -m validate` as a user runs it: exit codes, stdout, stderr. Stand-ins for llama.cpp."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import ledger_tree
import pytest
import stand_ins
from stand_ins import change_core
from tiny_project import Change, make_stack

from series.manifest import load_series
from series.stack import save_stack
from upstream.git import Git
from upstream.lab import Lab
from validate.models import SMOLLM2

ROOT = Path(__file__).parent.parent.parent
NOTE = Change("0001-note.patch", {"README.md": "changed\n"})
SAME = change_core("0002-same.patch", "return 1e6;", "return 1.01e6;")
WRONG = change_core("0003-wrong.patch", "return 0.5f + i;", "return 0.7f + i;")
BROKEN = Change("0002-broken.patch", {"core.cpp": "int broken() { return missing; }\n"})


@pytest.fixture
def series(lab: Lab, tmp_path: Path) -> Path:
    """An empty series directory; the model is a placeholder, the stand-ins never read it."""
    models = lab.root / "models"
    models.mkdir()
    with (models / SMOLLM2.name).open("wb") as file:
        file.truncate(SMOLLM2.size)
    directory = tmp_path / "series"
    (directory / "patches").mkdir(parents=True)
    return directory


def record(lab: Lab, directory: Path, changes: Sequence[Change]) -> None:
    """A series of these changes with its stack recorded, as `nox -s rebase` leaves it."""
    names = [change.name for change in changes]
    for name in names:
        (directory / "patches" / name).write_text(f"{name}: its stack is recorded below\n")
    topic = f'[[topic]]\nname = "topic"\ntitle = "Topic"\npatches = {json.dumps(names)}\n'
    (directory / "series.toml").write_text(f'base = "b7"\n{topic}')
    stack = make_stack(lab, changes, stand_ins.BASE | ledger_tree.FILES)
    save_stack(Git(lab.repository), load_series(directory), stack)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "validate", *arguments]
    env = os.environ | {"COLUMNS": "200"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


def test_build_prints_one_row_a_step_and_keeps_messages_off_stdout(lab: Lab, series: Path) -> None:
    record(lab, series, [NOTE, SAME])
    done = run("build", "--series", str(series))
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert [row.split()[:2] for row in rows[1:]] == [
        ["base", "built"],
        ["0001-note.patch", "built"],
        ["0002-same.patch", "built"],
    ]
    assert "libcore.so" in rows[3]
    assert "building (1 of 3)" in done.stderr
    assert "llama-server" in done.stderr  # absent from the stand-ins, named
    again = json.loads(run("build", "--series", str(series), "--json").stdout)
    assert [step["state"] for step in again["steps"]] == ["cached"] * 3
    assert again["steps"][1]["identical"] == 5
    assert again["steps"][2]["different"] == ["libcore.so"]


def test_a_step_that_does_not_compile_ends_with_1(lab: Lab, series: Path) -> None:
    record(lab, series, [NOTE, BROKEN])
    done = run("build", "--series", str(series), "--json")
    assert done.returncode == 1
    failed = json.loads(done.stdout)["steps"][2]
    assert failed["state"] == "failed"
    assert (failed["error"]["file"], failed["error"]["line"]) == ("core.cpp", 1)
    assert "core.cpp:1" in done.stderr
    assert Path(failed["log"]).exists()


def test_run_judges_every_step(lab: Lab, series: Path) -> None:
    record(lab, series, [NOTE, SAME, WRONG])
    done = run("run", "--series", str(series))
    assert done.returncode == 1, done.stderr
    page = lab.root / "report" / "index.html"
    assert done.stderr.splitlines()[-1] == f"report: {page}"
    assert "0003-wrong.patch" in page.read_text("utf-8")
    rows = [row.split()[:2] for row in done.stdout.splitlines() if ".patch" in row]
    assert rows == [
        ["0001-note.patch", "IDENTICAL"],
        ["0002-same.patch", "PASS"],
        ["0003-wrong.patch", "FAIL"],
    ]
    other = lab.root / "other.html"
    again = json.loads(run("run", "--series", str(series), "--json", "--report", str(other)).stdout)
    assert "b7" in other.read_text("utf-8")
    assert all(check["cached"] for step in again["steps"] for check in step["checks"])


def test_a_measurement_of_nothing_ends_with_4(lab: Lab, series: Path) -> None:
    state = 'return arch == 2 ? "SKIP" : "OK";'
    record(lab, series, [change_core("0001-none.patch", state, 'return "SKIP";')])
    done = run("run", "--series", str(series))
    assert done.returncode == 4, done.stderr
    assert "INVALID" in done.stdout


def test_a_ledger_that_is_red_ends_with_1(lab: Lab, series: Path) -> None:
    case = "        case GGML_OP_DUP:\n"
    record(lab, series, [ledger_tree.edit("0001-drop.patch", (ledger_tree.HOST, case, ""))])
    done = run("run", "--series", str(series), "--json")
    assert done.returncode == 1, done.stderr
    first = json.loads(done.stdout)["steps"][0]["checks"][0]
    assert (first["check"], first["verdict"]) == ("ledgers", "FAIL")
    assert first["detail"] == "supports_op of vulkan has no case GGML_OP_DUP any more"


def test_a_series_without_patches_ends_with_4(lab: Lab, series: Path) -> None:
    record(lab, series, [])
    done = run("run", "--series", str(series))
    assert done.returncode == 4
    assert "no step" in done.stderr


def test_a_series_that_was_never_applied_ends_with_2(lab: Lab, series: Path) -> None:
    (series / "series.toml").write_text('base = "b7"\n')
    done = run("build", "--series", str(series))
    assert done.returncode == 2
    assert "nox -s rebase" in done.stderr
    assert done.stdout == ""
