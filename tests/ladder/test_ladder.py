"""The way of the three first patches from b10566 to b11549, replayed by the tool.

`tests/data/series-b10566` is the series as it was written; `expected.json` holds what each hop must
answer and the tree that it must give.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import tomlkit

from tests.ladder.runner import LADDER, ROOT, Runner
from upstream.git import Git
from upstream.git_settings import clean_environment

pytestmark = pytest.mark.upstream

DATA = ROOT / "tests" / "data" / "series-b10566"
EXPECTED = json.loads((DATA / "expected.json").read_text())
IQ3_S = "vulkan-iq3-s-register-spill.patch"
SPECULATIVE = "speculative-honour-draft-length.patch"
PAD = "vulkan-mul-mm-pad.patch"


@pytest.fixture
def series(tmp_path: Path) -> Path:
    """A copy of the series as it was on b10566."""
    return Path(shutil.copytree(DATA, tmp_path / "series-b10566"))


def outcomes(document: dict[str, object]) -> dict[str, list[str]]:
    """Status and fate by patch."""
    patches = document["patches"]
    assert isinstance(patches, list)
    return {p["patch"]: [p["status"], p["fate"]] for p in patches}


def causes(document: dict[str, object], patch: str) -> set[str]:
    """The versions that the report blames for a patch's conflict."""
    patches = document["patches"]
    assert isinstance(patches, list)
    return {c["version"] for p in patches if p["patch"] == patch for c in p["causes"]}


def forget_landed(series: Path) -> None:
    """The series as somebody has it who does not know yet what upstream did."""
    path = series / "series.toml"
    document = tomlkit.parse(path.read_text())
    del document["landed"]
    path.write_text(tomlkit.dumps(document))


@pytest.mark.parametrize("route", [LADDER[1:], LADDER[3:]], ids=["ladder", "direct"])
def test_series_reaches_head_by_replay(
    runner: Runner, series: Path, route: tuple[str, ...], tmp_path: Path
) -> None:
    for version in route:
        code, document, stderr = runner.rebase(series, "--onto", version, "--write")
        assert code == 0, stderr
        name = version if len(route) > 1 else "direct"
        assert outcomes(document) == EXPECTED[name]["outcomes"]
        assert document["tip_tree"] == EXPECTED[name]["tip_tree"]
    assert EXPECTED["direct"]["tip_tree"] == EXPECTED[LADDER[-1]]["tip_tree"]
    assert am_tree(runner, series, LADDER[-1], tmp_path) == EXPECTED["direct"]["tip_tree"]


def test_fix_that_landed_conflicts_where_upstream_has_its_own(runner: Runner, series: Path) -> None:
    forget_landed(series)
    code, document, stderr = runner.rebase(series, "--onto", "b10809")
    assert code == 5, stderr
    assert outcomes(document)[IQ3_S] == ["conflict", "waiting"]
    assert causes(document, IQ3_S) == {"b10809"}
    assert outcomes(document)[SPECULATIVE] == ["offset", "kept"]


def test_retiring_the_landed_fix_keeps_its_record(runner: Runner, series: Path) -> None:
    forget_landed(series)
    code, document, stderr = runner.rebase(
        series, "--onto", "b10809", "--write", "--landed", IQ3_S,
        "--reference", "ggml-org/llama.cpp#27449", "--evidence", "compiles without a spill",
    )  # fmt: skip
    assert code == 0, stderr
    assert document["tip_tree"] == EXPECTED["b10809"]["tip_tree"]
    record = tomlkit.parse((series / "series.toml").read_text())["landed"][0]  # type: ignore[index]
    assert (record["patch"], record["version"]) == (IQ3_S, "b10809")
    assert not (series / "patches" / IQ3_S).exists()


def test_without_memory_the_real_conflicts_come_back(runner: Runner, series: Path) -> None:
    for path in (series / "resolutions").iterdir():
        path.unlink()
    code, document, stderr = runner.rebase(series, "--onto", "b11549")
    assert code == 5, stderr
    found = outcomes(document)
    assert found[IQ3_S] == ["landed", "landed"]
    assert found[SPECULATIVE] == ["conflict", "waiting"]
    assert found[PAD] == ["conflict", "waiting"]
    assert causes(document, SPECULATIVE) == {"b11549"}
    assert causes(document, PAD) == {"b11063"}


def am_tree(runner: Runner, series: Path, version: str, tmp_path: Path) -> str:
    """What plain `git am`, the real one in a real checkout, makes of a series' patches."""
    git, tree = Git(runner.lab / "lab.git"), tmp_path / "am"
    git.run("worktree", "add", "--quiet", "--detach", str(tree), f"refs/tags/upstream/{version}")
    manifest = tomlkit.parse((series / "series.toml").read_text()).unwrap()
    names = [patch for topic in manifest["topic"] for patch in topic["patches"]]
    assert names
    for name in names:
        command = ("git", "am", "--quiet", str(series / "patches" / name))
        subprocess.run(command, cwd=tree, env=clean_environment(), check=True)
    done = subprocess.run(("git", "rev-parse", "HEAD^{tree}"), cwd=tree, env=clean_environment(),
                          capture_output=True, text=True, check=True)  # fmt: skip
    return done.stdout.strip()


def test_the_shipped_series_applies_with_plain_git_am(runner: Runner, tmp_path: Path) -> None:
    series = ROOT / "series"
    base = str(tomlkit.parse((series / "series.toml").read_text())["base"])
    code, document, stderr = runner.rebase(series, "--onto", base)
    assert code == 0, stderr
    assert am_tree(runner, series, base, tmp_path) == document["tip_tree"]
