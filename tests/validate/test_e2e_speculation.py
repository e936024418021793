"""`nox -s speculation` with the real llama-server of the stack's tip and a real small model.

Run by `nox -s e2e`. LLAMA_SERVER names another one. Says nothing about speed: one block.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from upstream.lab import open_lab
from validate.models import provide_model
from validate.shape_models.choices import Choice
from validate.shape_models.sets import list_set
from validate.shape_models.writer import write_model

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parent.parent.parent


def speculate(report: Path, *options: str) -> subprocess.CompletedProcess[str]:
    named = os.environ.get("LLAMA_SERVER")
    server = ["--server", named] if named else []
    size = ("--blocks", "1", "--n-predict", "12", "--context", "1024", "--threads", "1")
    command = [sys.executable, "-m", "validate.speculation", *server, *size, *options]
    whole = [*command, "--report", str(report), "--conversation", "published", "--json"]
    return subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def model() -> Path:
    found = provide_model(open_lab())
    return found.folder / found.name


@pytest.fixture(scope="module", autouse=True)
def tip(model: Path) -> None:
    """Build what is measured, unless a server was named."""
    if not os.environ.get("LLAMA_SERVER"):
        build = [sys.executable, "-m", "validate", "build"]
        subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_a_model_drafts_for_itself(model: Path, tmp_path: Path) -> None:
    done = speculate(
        tmp_path / "page.html", "--target", str(model), "--drafter", f"simple={model}",
        "--lengths", "2", "--slots", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    rows = {row["arm"].rpartition(" ")[2]: row for row in run["conversations"]["published"]["rows"]}
    assert rows.keys() == {"none", "2", "adaptive"}
    assert rows["none"]["acceptance"] is None
    assert rows["2"]["acceptance"] > 0.9
    assert rows["2"]["tokens"] == [12, 12]


def test_a_synthetic_acceptance_of_zero(model: Path, tmp_path: Path) -> None:
    done = speculate(
        tmp_path / "page.html", "--target", str(model), "--drafter", f"simple={model}",
        "--lengths", "2", "--spec-synth-rates", "0,0", "--no-adaptive",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    (positions,) = [v for arm, v in run["acceptance by position"].items() if arm != "none"]
    assert positions[0][0] == 0


def test_a_drafter_of_another_vocabulary(model: Path, tmp_path: Path) -> None:
    writer = (
        "import sys, pathlib, tiny_drafters; tiny_drafters.write_target(pathlib.Path(sys.argv[1]))"
    )
    other = tmp_path / "other.gguf"
    subprocess.run(
        [sys.executable, "-c", writer, str(other)], cwd=ROOT / "series" / "checks", check=True
    )
    done = speculate(
        tmp_path / "page.html", "--target", str(model), "--drafter", f"simple={other}"
    )  # fmt: skip
    assert done.returncode == 3
    assert "both must share one vocabulary" in done.stderr


def test_adaptive_against_the_best_of_two(tmp_path: Path) -> None:
    """Synthetic contests of shape models with real servers; says nothing about speed."""
    files = {
        recipe.preset: write_model(recipe, path, 1).path
        for recipe, path in list_set("tiny", tmp_path, Choice())
    }
    done = speculate(
        tmp_path / "page.html", "--target", str(files["tiny-mtp"]), "--drafter", "mtp",
        "--drafter", f"dflash={files['tiny-dflash2']}", "--lengths", "1", "--acceptance", ".7",
        "--looks", "8", "--budget", "1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for contest in json.loads(done.stdout)["contests"]:
        assert contest["curve"].keys() == {"0", "1"}
        assert contest["state"] == "open"


def test_a_target_without_an_mtp_head(model: Path, tmp_path: Path) -> None:
    done = speculate(tmp_path / "page.html", "--target", str(model), "--drafter", "mtp")
    assert done.returncode == 3
    assert "name a target with an MTP head" in done.stderr
    assert "log: " in done.stderr
