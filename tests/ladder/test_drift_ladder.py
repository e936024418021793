"""The drift map of the real ladder: what upstream did, at its version, found by the tool.

b10809 has upstream's own IQ3_S fix, b11063 the Vulkan split, b11549 the speculative API change.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.ladder.runner import LADDER, Runner
from tests.ladder.test_ladder import DATA, IQ3_S, PAD, SPECULATIVE, forget_landed, series

pytestmark = pytest.mark.upstream
__all__ = ["series"]


def drift(runner: Runner, directory: Path) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Exit code, the document, its rows by patch."""
    done: subprocess.CompletedProcess[str] = runner.run(
        "validate.drift", "--series", str(directory), "--upstream", "snapshots",
        "--versions", *LADDER, "--json",
    )  # fmt: skip
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    assert document["versions"] == list(LADDER)
    return done.returncode, document, {row["patch"]: row for row in document["patches"]}


def states(row: dict[str, Any]) -> list[str]:
    return [cell["state"] for cell in row["cells"]]


def test_the_ladder_on_the_map(runner: Runner) -> None:
    code, document, rows = drift(runner, DATA)
    assert code == 1
    assert document["newest"] == "b10809"
    assert document["red"] == [SPECULATIVE, PAD]
    assert states(rows[IQ3_S]) == ["clean", "landed", "landed", "landed"]
    assert rows[IQ3_S]["landed"] == "b10809"
    assert states(rows[SPECULATIVE]) == ["clean", "offset", "offset", "conflict"]
    assert states(rows[PAD]) == ["clean", "offset", "conflict", "conflict"]
    assert {row["patch_id"] for row in rows.values()} == {"not available: snapshots"}


def test_the_lines_that_broke_the_patches(runner: Runner) -> None:
    _, _, rows = drift(runner, DATA)
    api, split = rows[SPECULATIVE]["broke"], rows[PAD]["broke"]
    assert (api["version"], api["after"]) == ("b11549", "b11063")
    (cause,) = api["causes"]
    assert "-        common_batch_clear(batch);" in cause["lines"]
    assert "+        batch.clear();" in cause["lines"]
    assert (split["version"], split["after"]) == ("b11063", "b10809")
    lines = [line for cause in split["causes"] for line in cause["lines"]]
    assert "-struct vk_device_struct {" in lines
    assert rows[PAD]["churn"][2] > 20000
    assert "resolutions/vulkan-mul-mm-pad" in split["reason"]


def test_without_the_record_the_fix_conflicts(runner: Runner, series: Path) -> None:
    forget_landed(series)
    _, _, rows = drift(runner, series)
    assert states(rows[IQ3_S]) == ["clean", "conflict", "conflict", "conflict"]
    assert rows[IQ3_S]["broke"]["version"] == "b10809"
