"""The export command on the miniature upstream, in this process, with a lab of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from series.manifest import load_series
from tests.series.conftest import make_lab, upstream
from tests.series.lab import read_folder
from tests.series.miniature import Miniature
from upstream.git import Git
from validate.export.__main__ import build_parser

__all__ = ["make_lab", "upstream"]
Topics = Mapping[str, tuple[Sequence[str], Sequence[str]]]  # name -> (requires, patches)


def write_topics(folder: Path, patches: Mapping[str, bytes], topics: Topics) -> Path:
    """A series directory on b100 with several topics."""
    (folder / "patches").mkdir(parents=True, exist_ok=True)
    for name, content in patches.items():
        (folder / "patches" / name).write_bytes(content)
    text = 'base = "b100"\n'
    for name, (requires, listed) in topics.items():
        text += f'\n[[topic]]\nname = "{name}"\ntitle = "Topic {name}"\n'
        text += f"requires = {json.dumps(list(requires))}\npatches = {json.dumps(list(listed))}\n"
    (folder / "series.toml").write_text(text)
    return folder


@dataclass(frozen=True)
class Exporter:
    """`python -m validate.export --no-build` on one series."""

    series: Path
    lab: Path
    remote: str
    capture: pytest.CaptureFixture[str]

    @property
    def git(self) -> Git:
        return Git(self.lab / "lab.git")

    @property
    def output(self) -> Path:
        return self.lab / "export" / load_series(self.series).id

    def arguments(self, *args: str) -> list[str]:
        where = ["--upstream", "remote", "--remote", self.remote, "--series", str(self.series)]
        return [*args, *where, "--no-build", "--offline"]

    def run(self, *args: str, onto: str = "b100") -> tuple[int, str]:
        """The exit code and what it printed; what it raises is passed on."""
        parsed = build_parser().parse_args(self.arguments(*args, "--onto", onto))
        self.capture.readouterr()
        code = parsed.run(parsed)
        return int(code), self.capture.readouterr().out

    def document(self, *args: str, onto: str = "b100") -> dict[str, Any]:
        """One topic's document by name."""
        _, out = self.run(*args, "--json", onto=onto)
        return {topic["topic"]: topic for topic in json.loads(out)["topics"]}

    def refs(self) -> dict[str, str]:
        """Branches, rounds and backups."""
        prefixes = ("refs/heads", "refs/exports", "refs/backup")
        return {k: v for prefix in prefixes for k, v in self.git.list_refs(prefix).items()}

    def files(self) -> dict[str, bytes]:
        return read_folder(self.output)


MakeExporter = Callable[..., Exporter]


@pytest.fixture
def make_exporter(
    tmp_path: Path,
    upstream: Miniature,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> MakeExporter:
    """Make an exporter of a series with these topics; `remote` other than the shared upstream."""
    monkeypatch.setenv("LAB_DIR", str(tmp_path / "lab"))

    def make(patches: Mapping[str, bytes], topics: Topics, *, remote: str = "") -> Exporter:
        series = write_topics(tmp_path / "series", patches, topics)
        return Exporter(series, tmp_path / "lab", remote or upstream.url, capsys)

    return make
