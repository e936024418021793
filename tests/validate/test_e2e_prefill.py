"""`nox -s prefill` with real llama-bench processes: base, two steps and the tip on the CPU.

Run by `nox -s e2e`; a minute beside a warm lab. Tiny models with random weights and seconds of
budget say nothing about speed: every leg must be measured, or known to be the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from real_stack import provide_stack

from upstream.lab import open_lab

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parent.parent.parent
STEPS = ("vulkan-mul-mm-pad", "rocmfpx-types")  # nothing for the CPU; new tensor types in ggml


@pytest.fixture(scope="module", autouse=True)
def builds() -> None:
    """The stack on its base and its steps, built where they are missing."""
    provide_stack(open_lab())
    build = [sys.executable, "-m", "validate", "build"]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_two_steps_on_tiny_models(tmp_path: Path) -> None:
    page = tmp_path / "prefill.html"
    size = ("--prompts", "64", "--ubatches", "32,64", "--depths", "0,64", "-t", "1")
    models = ("--model", "tiny-moe-128", "--model", "tiny-dense")
    short = ("--steps", ",".join(STEPS), "--looks", "8", "--budget", "8")
    whole = [sys.executable, "-m", "validate.prefill", *models, *short, *size]
    command = [*whole, "--json", "--report", str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [arena["model"] for arena in document["arenas"]] == [
        "tiny-moe-128-q4_K", "tiny-dense-q4_K",
    ]  # fmt: skip
    for arena in document["arenas"]:
        verdicts = {
            leg["to"]: {each["cell"]["verdict"] for each in leg["cells"]}
            for leg in arena["legs"]
            if leg["kind"] == "patches"
        }
        assert verdicts["vulkan-mul-mm-pad.patch"] == {"IDENTICAL"}
        assert verdicts["rocmfpx-types.patch"] == {"INCONCLUSIVE"}  # seconds decide nothing
        names = [each["cell"]["cell"]["name"] for each in arena["legs"][0]["cells"]]
        assert names == ["pp64 ub32", "pp64 ub64", "pp64 ub32 @ d64", "pp64 ub64 @ d64"]
        (total,) = {each["leg"] for each in arena["totals"]}
        assert total.startswith("b11549 -> ")
    assert "8 of 128 experts a token" in page.read_text("utf-8")
