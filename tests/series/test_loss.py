"""Lines that a patch lost or newly removes block the rebase until somebody gives a reason."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from series.decisions import Decisions, load_acknowledged
from series.loss import Change, Loss, find_loss, read_changes
from series.resolutions import Resolution
from tests.series.conftest import MakeLab
from tests.series.lab import Lab
from tests.series.miniature import CLASH, HALF, STEADY, Content, Miniature, lines, write_series
from upstream.errors import UsageError
from upstream.git import Git


@pytest.fixture
def half(upstream: Miniature, tmp_path: Path, make_lab: MakeLab) -> Lab:
    """A patch that adds two lines; b300 has one of them already."""
    patches = upstream.patches("b100", HALF, STEADY)
    return make_lab(write_series(tmp_path / "series", "b100", patches))


def test_added_line_that_vanished_blocks_until_acknowledged(
    half: Lab, make_lab: MakeLab, tmp_path: Path
) -> None:
    old = shutil.copytree(half.series, tmp_path / "old")
    first = half.rebase("--onto", "b300")
    assert first.code == 5
    assert "half.patch merged, but not without loss:" in first.out
    assert "added line vanished:    half: first new line" in first.out
    assert "--acknowledge half.patch --reason 'why that is right'" in first.out
    assert half.refs() == {}
    none = half.rebase("--onto", "b300", "--acknowledge", "steady.patch", "--reason", "r")
    assert (none.code, "steady.patch has no loss" in none.err) == (2, True)
    words = ("--reason", "upstream has that line", "--write")
    done = half.rebase("--onto", "b300", "--acknowledge", "half.patch", *words)
    assert done.code == 0, done.err
    assert "changed  upstream has that line" in done.out
    (entry,) = load_acknowledged(half.series)
    assert (entry.patch, entry.reason) == ("half.patch", "upstream has that line")
    assert entry.lines == ("+half: first new line",)
    shutil.copy(half.series / "acknowledged.toml", old)
    assert make_lab(old, name="other lab").rebase("--onto", "b300").code == 0


def test_upstream_line_newly_removed_by_a_resolution_blocks(
    upstream: Miniature, tmp_path: Path, make_lab: MakeLab
) -> None:
    patches = upstream.patches("b100", CLASH)
    lab = make_lab(write_series(tmp_path / "series", "b100", patches))
    lab.rebase("--onto", "b200")
    ours = lines("delta", changes={15: "delta line 15 patched"})
    (lab.parked / "clash/tree/src/delta.c").write_text(ours)
    silent = lab.rebase("--onto", "b200", "--continue", "--json")
    assert silent.code == 5
    (patch,) = silent.document()["patches"]
    assert (patch["status"], patch["fate"]) == ("replayed", "waiting")
    assert patch["newly_removed"] == ["delta line 15 as b200 has it"]
    words = ("--acknowledge", "clash.patch", "--reason", "ours is right")
    assert lab.rebase("--onto", "b200", *words).code == 0


def test_reason_given_with_the_resolution_covers_its_loss(
    upstream: Miniature, tmp_path: Path, make_lab: MakeLab
) -> None:
    patches = upstream.patches("b100", CLASH)
    lab = make_lab(write_series(tmp_path / "series", "b100", patches))
    lab.rebase("--onto", "b200")
    ours = lines("delta", changes={15: "delta line 15 patched"})
    (lab.parked / "clash/tree/src/delta.c").write_text(ours)
    done = lab.rebase("--onto", "b200", "--continue", "--reason", "ours is right")
    assert done.code == 0, done.err
    assert "resolution: ours is right" in done.out


def test_reason_of_a_resolution_covers_only_the_loss_it_was_given_for() -> None:
    known, other = Loss(("x",), ()), Loss(("x",), ("y",))
    made = Resolution("p.patch", "key", "b100", "b200", known.digest, "why", b"")
    decisions = Decisions({("p.patch", "key"): made}, {}, {}, {})
    assert decisions.reason_for("p.patch", known) == "resolution: why"
    assert decisions.reason_for("p.patch", other) == ""
    assert decisions.reason_for("q.patch", known) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[acknowledged]]\npatch = "half.patch"\nloss = "0"\nreason = " "\n', "gives no reason"),
        ('[[acknowledged]]\npatch = "half.patch"\nloss = "0"\n', "'reason'"),
        ("[[acknowledged]\n", "acknowledged.toml"),
        ("acknowledged = 3\n", "acknowledged.toml"),
        ('[[acknowledged]]\npatch = "p"\nloss = "0"\nreason = "r"\nlines = 3\n', "lines"),
    ],
)
def test_acknowledgement_without_reason_or_form_is_refused(
    text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "acknowledged.toml").write_text(text)
    with pytest.raises(UsageError) as refusal:
        load_acknowledged(tmp_path)
    assert words in refusal.value.what
    assert str(tmp_path / "acknowledged.toml") in refusal.value.what


COUNTS = st.dictionaries(st.sampled_from(["a", "b", "", "  "]), st.integers(1, 3)).map(Counter)


@given(added=COUNTS, removed=COUNTS, kept=COUNTS, gone=COUNTS)
def test_loss_is_what_is_missing_from_the_additions_and_new_in_the_removals(
    added: Counter[str], removed: Counter[str], kept: Counter[str], gone: Counter[str]
) -> None:
    before = Change(added, removed, (), ())
    loss = find_loss(before, Change(kept, gone, (), ()))
    for line in "ab":
        assert loss.vanished.count(line) == max(0, added[line] - kept[line])
        assert loss.newly_removed.count(line) == max(0, gone[line] - removed[line])
    assert not {"", "  "} & {*loss.vanished, *loss.newly_removed}
    assert not find_loss(before, before)


ODD = (
    "form\x0cfeed\nline\u2028separator\nnext\x85line\ncr\rhere\n"
    "-- a/x\n++ b/x\ndiff --git a/q b/q\n"
)


def test_odd_lines_are_read_whole(own_upstream: Miniature) -> None:
    """A diff reader that splits at form feeds or takes '--- a/x' for a header miscounts them."""
    before: dict[str | bytes, Content] = {
        "a b.c": "x\n", b"n\xff.c": "x\n", "bin": b"\0\1", "odd.txt": ODD,
    }  # fmt: skip
    after = {**before, "a b.c": "y\n", b"n\xff.c": "y\n", "bin": b"\0\2", "odd.txt": "z\n"}
    old, new = own_upstream.release("b1", before), own_upstream.release("b2", after)
    git = Git(own_upstream.path)
    trees = git.tree_of(old), git.tree_of(new)
    change, back, none, again = read_changes(git, (trees, trees[::-1], (trees[0], trees[0]), trees))
    assert (back.added, back.removed) == (change.removed, change.added)
    assert (none.added, none.paths, again) == (Counter(), (), change)
    assert change.removed == Counter([*ODD.split("\n")[:-1], "x", "x"])
    assert change.added == Counter(["y", "y", "z"])
    assert len(change.paths) == 4
