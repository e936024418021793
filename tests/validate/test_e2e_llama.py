"""The real llama.cpp: the repository's own series, built and judged; a planted fault is found.

Run by `nox -s e2e`. Needs a compiler, and on a cold cache half an hour of two cores. LAB_DIR names
the lab, so that a warm one is used again.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from real_stack import SERIES, provide_stack

from series.manifest import load_series
from series.model import Stack, Step
from upstream.git import Git, Person, Stage
from upstream.lab import Lab, open_lab
from validate.build import Builder, build_stack
from validate.checks import Validation, validate_stack
from validate.models import provide_model
from validate.recipe import LLAMA_TARGETS, llama_recipe
from validate.room import Room
from validate.source_tree import open_check_tree
from validate.toolchain import find_toolchain
from validate.verdict import Verdict

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parent.parent.parent
TYPES = ("rocmfpx", "rocmfpx-quantize", "rocmfpx-vulkan", "rocmfpx-cuda", "nvfp4-scale-search")
OPS = "ggml/src/ggml-cpu/ops.cpp"
RIGHT, WRONG = "1.0f/sqrtf(mean + eps)", "1.001f/sqrtf(mean + eps)"
WRITER = Person("Ada", "ada@example.org", "1700000000 +0000")


@pytest.fixture(scope="module")
def lab() -> Lab:
    return open_lab()


@pytest.fixture(scope="module")
def stack(lab: Lab) -> Stack:
    return provide_stack(lab)


def run(*arguments: str) -> tuple[int, dict[str, Any], float]:
    started = time.monotonic()
    command = [sys.executable, "-m", "validate", *arguments, "--json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return done.returncode, json.loads(done.stdout), time.monotonic() - started


def test_every_step_builds_and_a_second_build_is_quick(stack: Stack) -> None:
    code, document, _ = run("build")
    steps = document["steps"]
    assert code == 0, [step["error"] for step in steps if step["error"]]
    assert [step["patch"] for step in steps] == ["base", *(step.patch for step in stack.steps)]
    for step in steps:
        for target in {*LLAMA_TARGETS} - {*step["absent"]}:
            assert (Path(step["folder"]) / target).is_file()
    code, document, seconds = run("build")
    assert {step["state"] for step in document["steps"]} == {"cached"}
    assert seconds < 10


def test_the_binaries_run_from_where_they_are_kept(lab: Lab, stack: Stack) -> None:
    _, document, _ = run("build")
    for step in document["steps"]:
        bench = Path(step["folder"]) / "llama-bench"
        shown = subprocess.run([bench, "--help"], capture_output=True, text=True, check=True)
        assert "usage" in shown.stdout
        linked = subprocess.run(["ldd", bench], capture_output=True, text=True, check=True).stdout
        ours = [
            line.split()[2] for line in linked.splitlines() if "llama" in line or "ggml" in line
        ]
        assert ours
        assert all(Path(path).is_relative_to(lab.root / "steps") for path in ours)


def copy_series(folder: Path) -> tuple[Path, int]:
    """The series without the topics that add or change tensor types; how many patches it has.

    Those touch what every operation is made of, so each of their steps tests all operations three
    times, half an hour of processor time; `nox -s validate` does that.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SERIES, folder)
    manifest = folder / "series.toml"
    document: dict[str, Any] = tomlkit.parse(manifest.read_text("utf-8"))
    left_out = [each for each in document["topic"] if each["name"] in TYPES]
    for topic in left_out:
        document["topic"].remove(topic)
        for patch in topic["patches"]:
            del document["patch"][patch]
            (folder / "patches" / patch).unlink()
    document["waiver"] = [w for w in document.get("waiver", ()) if w["topic"] not in TYPES]
    ledger = folder / "ledger.toml"
    claims: dict[str, Any] = tomlkit.parse(ledger.read_text("utf-8"))
    claims["claimed"] = [row for row in claims["claimed"] if row["patch"] in document["patch"]]
    ledger.write_text(tomlkit.dumps(claims), "utf-8")
    manifest.write_text(tomlkit.dumps(document), "utf-8")
    return folder, sum(len(topic["patches"]) for topic in document["topic"])


def test_steps_hold_and_a_second_run_is_cached(lab: Lab) -> None:
    # always the same folder: a series is known in the lab by its path
    series, number = copy_series(lab.root / "e2e" / "series")
    rebase = [sys.executable, "-m", "series", "rebase", "--series", str(series)]
    subprocess.run(rebase, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    # Without speed and Vulkan, which have tests of their own and take their time.
    words = ("run", "--series", str(series), "--profile", "none", "--vulkan", "off")
    code, document, _ = run(*words)
    bad = [step for step in document["steps"] if step["verdict"] in ("FAIL", "INVALID")]
    assert not bad, json.dumps(bad, indent=1)
    assert code in (0, 3)
    assert len(document["steps"]) == number > 5
    _, document, _ = run(*words)
    assert all(
        check["cached"] or check["verdict"] == "not run"
        for step in document["steps"]
        for check in step["checks"]
    )


def test_a_wrong_norm_on_the_real_model_is_found(lab: Lab, stack: Stack) -> None:
    git = Git(lab.repository)
    text = git.read_blob(f"{stack.commit}:{OPS}")
    assert text is not None
    assert RIGHT.encode() in text
    blob = git.write_blob(text.replace(RIGHT.encode(), WRONG.encode()))
    tree = git.edit_tree(stack.tree, [Stage("100644", blob, 0, OPS)], lab.scratch)
    commit = git.write_commit(tree, (stack.commit,), WRITER, "a wrong norm")
    planted = replace(stack, steps=(Step("planted", "wrong-norm.patch", commit, tree),))
    builder = Builder(lab, git, llama_recipe(stack.version), find_toolchain(), jobs=2)
    builds = build_stack(builder, planted)
    room, series = Room(lab, provide_model(lab)), load_series(ROOT / "series")
    (step,) = validate_stack(Validation(room, series, open_check_tree(lab, git)), builds)
    (found,) = [check for check in step.checks if check.check == "results"]
    assert found.verdict is Verdict.FAIL
    assert found.facts["nmse"] > 1e-6
