"""The import run as its command line does, in this process, on a shared stocked LAB_DIR."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from series.importing.__main__ import build_parser
from tests.series.conftest import MakeLab
from tests.series.lab import Lab, Result
from tests.series.miniature import OWN, Miniature, write_series
from upstream.edge import run_command
from upstream.lab import open_lab
from upstream.provider import open_upstream
from upstream.version import parse_version

Import = Callable[..., Result]
WHOEVER = ("--author", "Who Ever <who@example.org>", "--date", "2024-05-06")
PLAIN = b"""--- src/gamma.c.orig\t2024-01-01 00:00:00
+++ src/gamma.c\t2024-01-01 00:00:01
@@ -9,3 +9,3 @@
 gamma line 9
-gamma line 10
+gamma line 10 patched
 gamma line 11
"""


def put(folder: Path, files: dict[str, bytes]) -> Path:
    """A folder with these files."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def refused(done: Result, *words: str) -> None:
    """Usage, with what happened and the next command."""
    assert done.code == 2, done
    assert "  next: " in done.err
    for word in words:
        assert word in done.err


@pytest.fixture(scope="module")
def stocked(upstream: Miniature, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LAB_DIR that has b100, b200 and b300."""
    folder = tmp_path_factory.mktemp("stocked") / "lab"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_DIR", str(folder))
        source = open_upstream(open_lab(), "remote", upstream.url)
        for version in ("b100", "b200", "b300"):
            source.provide(parse_version(version))
    return folder


@pytest.fixture
def lab(
    stocked: Path,
    upstream: Miniature,
    tmp_path: Path,
    make_lab: MakeLab,
    monkeypatch: pytest.MonkeyPatch,
) -> Lab:
    """A series on b200 with one patch."""
    monkeypatch.setenv("LAB_DIR", str(stocked))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    series = write_series(tmp_path / "series", "b200", upstream.patches("b200", OWN))
    return make_lab(series, name=str(stocked), HOME=str(tmp_path))


@pytest.fixture
def take(lab: Lab, capsys: pytest.CaptureFixture[str]) -> Import:
    """Run the import's command line on the fixture's series or another."""

    def run(*args: str | Path, series: Path = lab.series) -> Result:
        where = ("--upstream", "remote", "--remote", lab.remote, "--series", str(series))
        with pytest.raises(SystemExit) as ended:
            run_command(build_parser(), [*map(str, args), *where])
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, out, err)

    return run
