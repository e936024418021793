"""Topics built and judged alone, by `python -m validate.export`. Stand-ins for llama.cpp."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ledger_tree
import pytest
import stand_ins

from tests.export.conftest import write_topics
from tests.series.miniature import Miniature, create_upstream
from upstream.lab import Lab
from validate.models import SMOLLM2

ROOT = Path(__file__).parent.parent.parent
HELPER = stand_ins.CORE + "double twice() { return 2 * speed(); }\n"
USER = stand_ins.BENCH.replace("double speed();", "double speed();\ndouble twice();", 1).replace(
    "if (speed() == 0)", "if (twice() == 0)", 1
)
TOPICS = {
    "note": ((), ["note.patch"]),
    "helper": ((), ["helper.patch"]),
    "user": ((), ["user.patch"]),
}


@pytest.fixture
def upstream(lab: Lab, tmp_path: Path) -> Miniature:
    """The stand-ins as upstream's b100; the model is a placeholder, they never read it."""
    models = lab.root / "models"
    models.mkdir()
    with (models / SMOLLM2.name).open("wb") as file:
        file.truncate(SMOLLM2.size)
    mini = create_upstream(tmp_path / "up.git")
    mini.release("b100", stand_ins.BASE | ledger_tree.FILES)
    return mini


def export(upstream: Miniature, series: Path) -> tuple[int, dict[str, dict[str, Any]], str]:
    where = ("--upstream", "remote", "--remote", upstream.url, "--series", str(series))
    command = (
        sys.executable,
        "-m",
        "validate.export",
        "--onto",
        "b100",
        "--json",
        "--offline",
        *where,
    )
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    topics: Mapping[str, Any] = json.loads(done.stdout or '{"topics": []}')
    return done.returncode, {t["topic"]: t for t in topics["topics"]}, done.stderr


def test_a_topic_that_builds_only_on_another_is_found(
    upstream: Miniature, lab: Lab, tmp_path: Path
) -> None:
    """`user` calls what `helper` adds in another file: the texts merge, the code does not link."""
    patches = upstream.patches(
        "b100",
        ("note.patch", {"README.md": "changed\n"}),
        ("helper.patch", {"core.cpp": HELPER}),
        ("user.patch", {"llama-bench.cpp": USER}),
    )
    series = write_topics(tmp_path / "series", patches, TOPICS)
    code, topics, said = export(upstream, series)
    assert code == 1, said
    assert any("user.patch does not build alone" in why for why in topics["user"]["reasons"])
    assert [build["state"] for build in topics["user"]["builds"]] == ["cached", "failed"]
    assert topics["note"]["steps"][0]["verdict"] == "IDENTICAL"
    assert topics["helper"]["steps"][0]["verdict"] == "PASS"
    write_topics(series, {}, TOPICS | {"user": (["helper"], ["user.patch"])})
    _, topics, said = export(upstream, series)
    states = [build["state"] for build in topics["user"]["builds"]]
    assert states == ["cached", "cached", "built"], said
    assert [step["patch"] for step in topics["user"]["steps"]] == ["helper.patch", "user.patch"]
    assert not any("build" in why for why in topics["user"]["reasons"])
    folder = Path(topics["helper"]["folder"])
    assert "| helper.patch | base | archs | PASS |" in (folder / "EVIDENCE.md").read_text("utf-8")
