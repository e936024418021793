"""The real series on b11549: branches that build alone and are judged alone, one topic of a kind.

Run by `nox -s e2e`. What the stack has built comes from the lab's store.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from series.manifest import load_series
from tests.series.lab import ROOT, read_folder
from upstream.git import Git
from upstream.lab import open_lab

pytestmark = pytest.mark.e2e
SERIES = ROOT / "series"
# C++ of many files, shaders with a check that asks AMD's compiler, shaders that few checks see
BUILT = ("spec-adaptive", "vulkan-mmvq", "vulkan-lds-pad")


def export(output: Path, *words: str) -> tuple[int, dict[str, Any]]:
    base = str(load_series(SERIES).base)
    command = (sys.executable, "-m", "validate.export", "--onto", base, "--output", str(output))
    # the Vulkan lane has tests of its own (test_e2e_vulkan.py)
    options = ("--json", "--offline", "--vulkan", "off", *words)
    done = subprocess.run((*command, *options), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, document


def test_every_topic_stands_alone(tmp_path: Path) -> None:
    series, git = load_series(SERIES), Git(open_lab().repository)
    code, document = export(tmp_path, "--no-build")
    assert code in (0, 1)
    topics = {topic["topic"]: topic for topic in document["topics"]}
    assert set(topics) == {topic.name for topic in series.topics if topic.patches}
    for name, topic in topics.items():
        assert git.resolve(f"refs/heads/pr/{name}") == topic["commit"]


def test_topics_build_and_hold_alone(tmp_path: Path) -> None:
    git = Git(open_lab().repository)
    code, document = export(tmp_path, *BUILT)
    assert code in (0, 1)  # 1: the policy gate may be red, which is the patch's matter
    topics = {topic["topic"]: topic for topic in document["topics"]}
    assert set(topics) == set(BUILT)
    for name, topic in topics.items():
        assert git.resolve(f"refs/heads/pr/{name}") == topic["commit"]
        assert {build["state"] for build in topic["builds"]} <= {"built", "cached"}, name
        own = [step for step in topic["steps"] if step["patch"] in topic["patches"]]
        assert len(own) == len(topic["patches"])
        for step in own:
            assert step["verdict"] not in ("FAIL", "INVALID", "SLOWER"), step
        assert topic["findings"]
        text = (tmp_path / name / "EVIDENCE.md").read_text("utf-8")
        assert "## Checks" in text
        assert all(f"| {patch} |" in text for patch in topic["patches"])
        template = git.read_blob(f"{topic['base']}:.github/pull_request_template.md")
        assert template is not None
        draft = (tmp_path / name / "PR.md").read_text("utf-8")
        assert draft.splitlines()[:4] == template.decode().splitlines()[:4]
    files = read_folder(tmp_path)
    _, again = export(tmp_path, *BUILT)
    assert again["changed"] is False
    assert read_folder(tmp_path) == files
