"""A clean merge with a shifted constant is red on the map, on a small tree in llama.cpp's form."""

from __future__ import annotations

from pathlib import Path

import ledger_tree
import pytest
from ledger_tree import HOST, MUL_MM, edit
from tiny_project import Change, make_stack

from series.landing.alone import isolate_stack
from series.landing.model import State
from series.manifest import load_series
from upstream.git import Git, RefMove
from upstream.lab import Lab
from upstream.version import Version
from validate.drift.model import Carried, Cell, Known
from validate.drift.static import StaticBook
from validate.drift.survey import survey

PAD = edit("pad.patch", (HOST, "spec.push_back(0u);  // constantID=2: PAD = 0",
                         "spec.push_back(pad);  // constantID=2: PAD"))  # fmt: skip
README = Change("readme.patch", {"README.md": "another text\n"})
SHIFTED = edit(
    "shifted",
    (MUL_MM, "layout(constant_id = 2) const uint PAD", "layout(constant_id = 5) const uint PAD"),
)
OTHER = Change("other", {"NEWS": "nothing that a ledger reads\n"})
WATCH = (
    '[[watched]]\nkind = "constant"\nname = "mul_mm.comp PAD"\n'
    'topic = "topic"\npatch = "readme.patch"\n'
)


def cell(lab: Lab, folder: Path, patch: Change, upstream: Change, ledger: str = "") -> Cell:
    """The cell of one patch on b8, which is b7 with an edit."""
    git = Git(lab.repository)
    stack = make_stack(lab, [patch], ledger_tree.FILES)
    newer = make_stack(lab, [upstream], ledger_tree.FILES)
    git.move_refs([RefMove("refs/tags/upstream/b7", stack.commit)])
    folder.mkdir(exist_ok=True)
    topic = f'[[topic]]\nname = "topic"\ntitle = "T"\npatches = ["{patch.name}"]\n'
    (folder / "series.toml").write_text(f'base = "b7"\n{topic}')
    (folder / "ledger.toml").write_text(ledger)
    series = load_series(folder)
    carried = [Carried(series, each) for each in isolate_stack(git, series, stack)]
    known = [
        Known(Version(7), stack.commit, stack.tree, False),
        Known(Version(8), newer.tip, newer.tip_tree, False),
    ]
    for _ in range(2):  # the second time from what the first one stored
        drift = survey(git, carried, known, StaticBook(lab, git, carried))
    (row,) = drift.rows
    assert row.cells[0].static == ()
    assert row.patch_id == "not available: snapshots"
    assert (row.broke is not None) == row.cells[1].red
    return row.cells[1]


def test_a_constant_of_the_patch_that_shifted_is_red(lab: Lab, tmp_path: Path) -> None:
    found = cell(lab, tmp_path / "series", PAD, SHIFTED)
    assert found.standing.state is State.CLEAN
    assert found.red
    assert any("mul_mm.comp PAD" in line for line in found.static)


def test_a_patch_that_does_not_name_the_constant_is_not_red(lab: Lab, tmp_path: Path) -> None:
    found = cell(lab, tmp_path / "series", README, SHIFTED)
    assert (found.static, found.red) == ((), False)


def test_a_watched_row_is_red_for_its_patch(lab: Lab, tmp_path: Path) -> None:
    found = cell(lab, tmp_path / "series", README, SHIFTED, WATCH)
    (line,) = found.static
    assert line.startswith("watched constant mul_mm.comp PAD was 2 uint = 4")


@pytest.mark.parametrize("patch", [PAD, README])
def test_news_elsewhere_are_no_drift(lab: Lab, tmp_path: Path, patch: Change) -> None:
    assert cell(lab, tmp_path / "series", patch, OTHER, "").static == ()
