"""The ready workflow for GitHub Actions: what it may do, and that it runs what we have."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "ci" / "nightly.yml"
TEXT = PATH.read_text()


def test_its_token_may_only_read() -> None:
    blocks = re.findall(r"^( *)permissions:[ ]*(.*)\n((?:\1 +.*\n)*)", TEXT, re.M)
    assert [(indent, inline) for indent, inline, _ in blocks] == [("", "")]
    assert blocks[0][2].split() == ["contents:", "read"]
    assert "write" not in re.sub(r"#.*", "", TEXT)


def test_it_uses_no_secret_and_posts_nothing() -> None:
    code = re.sub(r"#.*", "", TEXT)
    assert not re.search(r"secrets|GITHUB_TOKEN|github\.token|GH_TOKEN", code)
    assert not re.search(r"git push|gh (pr|issue|api)|curl|wget|github-script", code)
    assert "pull_request" not in code
    assert "persist-credentials: false" in code


def test_actions_are_the_known_ones_by_version() -> None:
    used = re.findall(r"uses: (\S+)", TEXT)
    assert len(used) == 4
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", each) for each in used)


def test_it_runs_the_nightly_map() -> None:
    assert "ci/nox -s drift -- --nightly" in TEXT
    assert "shell: bash" in TEXT  # its pipefail: tee must not hide the exit code
    assert (ROOT / "ci" / "nox").exists()
    assert re.search(r"^def drift\(", (ROOT / "noxfile.py").read_text(), re.M)
