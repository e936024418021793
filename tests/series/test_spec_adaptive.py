"""The controller of adaptive draft lengths, out of its patch, played by its check."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SERIES = Path(__file__).parents[2] / "series"
PATCH = SERIES / "patches" / "speculative-adaptive-controller.patch"
CHECK = SERIES / "checks" / "spec_adaptive_controller.py"
NEW_FILE = re.compile(
    r"^\+\+\+ b/(common/speculative-adaptive\.\w+)\n@@ -0,0 .*\n((?:\+.*\n)+)", re.M
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, added in NEW_FILE.findall(PATCH.read_text()):
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        target.write_text("".join(line[1:] for line in added.splitlines(keepends=True)))
    return tmp_path


def check(tree: Path, cases: str) -> tuple[int, dict[str, Any]]:
    words = [sys.executable, CHECK, "--bin", tree, "--source", tree, "--work", tree / "work"]
    done = subprocess.run([*words, "--cases", cases], capture_output=True, text=True, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, document


def test_holds_for_the_patch(tree: Path) -> None:
    code, document = check(tree, "quiet,recovery")
    assert (code, document["cases"], document["passed"]) == (0, 56, True)


def break_controller(tree: Path, right: str, wrong: str) -> None:
    source = tree / "common/speculative-adaptive.cpp"
    text = source.read_text()
    assert text.count(right) == 1
    source.write_text(text.replace(right, wrong))


def test_bites_where_an_upper_length_is_ignored(tree: Path) -> None:
    break_controller(
        tree, "= std::min(n_draft[i], n_max);", "= n_draft[i] < 0 ? n_draft[i] : n_max;"
    )
    code, document = check(tree, "bounds")
    assert (code, document["passed"]) == (1, False)


def test_bites_where_a_change_of_the_length_is_thought_free(tree: Path) -> None:
    break_controller(tree, "*(t - t_change);", "*(0.0 - t_change);")
    code, document = check(tree, "changing")
    assert (code, document["cases"], document["passed"]) == (1, 96, False)


def test_bites_where_the_scale_drifts_with_the_noise(tree: Path) -> None:
    break_controller(
        tree,
        "        t_scale *= cost_batch.add(",
        "        t_scale *= 1.0 + 0.04*(std::min(t_us/(t_scale*cur.mean), 2.0) - 1.0);\n"
        "        cost_batch.add(",
    )
    code, document = check(tree, "recovery")
    assert (code, document["cases"], document["passed"]) == (1, 42, False)


def test_bites_where_a_new_request_forgets_all_others(tree: Path) -> None:
    break_controller(tree, "std::min(pool[k].n_trial[1], N_PRIOR_BEGIN);", "0.0;")
    code, document = check(tree, "unlucky")
    assert (code, document["cases"], document["passed"]) == (1, 4, False)


def test_is_red_without_the_controller(tmp_path: Path) -> None:
    code, document = check(tmp_path, "quiet")
    assert (code, document["passed"]) == (1, False)
