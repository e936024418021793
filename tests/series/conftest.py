"""What the tests of the series engine share: the miniature upstream and the tool as a child."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.series.lab import Lab
from tests.series.miniature import Miniature, create_upstream, lines
from upstream.git import Git

# Examples that start a git process take as long as a busy machine lets them.
settings.register_profile("real processes", deadline=None)
settings.load_profile("real processes")


@pytest.fixture(scope="session")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Miniature:
    """The shared miniature upstream; tests only read it or add branches.

    b200: alpha grows above, beta moves, delta's line 15 changes, both lines of `taken` arrive.
    b300: delta's line 15 changes again, half of `half` arrives.
    """
    mini = create_upstream(tmp_path_factory.mktemp("miniature") / "up stream.git")
    names = ("alpha", "beta", "gamma", "delta", "omega", "taken", "half")
    mini.release("b100", {f"src/{name}.c": lines(name) for name in names})
    mini.release(
        "b200",
        {
            "src/alpha.c": "".join(f"new {n}\n" for n in range(5)) + lines("alpha"),
            "src/delta.c": lines("delta", changes={15: "delta line 15 as b200 has it"}),
            "src/omega.c": lines("omega", changes={3: "omega line 3 as b200 has it"}),
            "src/taken.c": lines("taken", changes={9: "taken line 9 with the fix"}),
        },
        renames={"src/beta.c": "lib/beta.c"},
    )
    mini.release(
        "b300",
        {
            "src/delta.c": lines("delta", changes={15: "delta line 15 as b300 has it"}),
            "src/half.c": lines("half", changes={5: "half line 5\nhalf: first new line"}),
        },
    )
    return mini


MakeLab = Callable[..., Lab]


@pytest.fixture
def make_lab(tmp_path: Path, upstream: Miniature) -> MakeLab:
    """Make a command line with a LAB_DIR of its own for a series directory."""

    def make(series: Path, *, name: str = "lab", remote: str = "", **env: str) -> Lab:
        return Lab(tmp_path / name, series, remote or upstream.url, env)

    return make


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """An empty repository of the tool's own kind."""
    made = Git(tmp_path / "own.git")
    made.create()
    return made


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def own_upstream(tmp_path: Path) -> Miniature:
    """An empty miniature upstream for one test."""
    return create_upstream(tmp_path / "own-upstream.git")
