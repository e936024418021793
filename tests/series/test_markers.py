"""Conflict markers: parsed exactly, whatever stands around and inside them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from series.merge import (
    BASE,
    OURS,
    SPLIT,
    THEIRS,
    Region,
    find_regions,
    has_markers,
    split_regions,
    take_upstream,
)

MARKS = {OURS, BASE, SPLIT, THEIRS}
LINE = st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=20).filter(
    lambda line: line.removesuffix("\r") not in MARKS
)
LINES = st.lists(LINE, max_size=4).map(tuple)
REGION = st.tuples(LINES, LINES, LINES)
PARTS = st.lists(st.one_of(LINE, REGION), max_size=6)
ENDS = st.sampled_from(["", "\r"])

Part = str | tuple[Sequence[str], Sequence[str], Sequence[str]]


def render(parts: Sequence[Part], end: str) -> list[str]:
    """The lines of a file with these plain lines and regions, as git writes it."""
    made: list[str] = []
    for part in parts:
        if isinstance(part, str):
            made.append(part)
            continue
        ours, base, theirs = part
        made += [OURS + end, *ours, BASE + end, *base, SPLIT + end, *theirs, THEIRS + end]
    return made


@given(parts=PARTS, end=ENDS)
def test_regions_and_lines_come_back_as_they_were_put_in(parts: list[Part], end: str) -> None:
    text = "\n".join(render(parts, end))
    wanted = [
        part if isinstance(part, str) else Region("p", *("\n".join(side) for side in part))
        for part in parts
    ] or [""]
    assert list(split_regions("p", text)) == wanted
    assert find_regions("p", text) == [part for part in wanted if isinstance(part, Region)]


@given(parts=PARTS, end=ENDS)
def test_upstreams_side_is_the_file_without_any_region(parts: list[Part], end: str) -> None:
    wanted: list[str] = []
    for part in parts:
        wanted += [part] if isinstance(part, str) else part[0]
    taken = take_upstream("\n".join(render(parts, end)))
    assert taken == "\n".join(wanted)
    assert not find_regions("p", taken)


def test_seven_equal_signs_in_upstreams_side_are_text() -> None:
    text = "\n".join([OURS, "Title", SPLIT, "text", BASE, "old", SPLIT, "new", THEIRS])
    assert find_regions("p", text) == [Region("p", f"Title\n{SPLIT}\ntext", "old", "new")]
    assert take_upstream(text) == f"Title\n{SPLIT}\ntext"


@given(
    lines=st.lists(LINE, max_size=6),
    mark=st.sampled_from([OURS, BASE, THEIRS]),
    at=st.integers(0, 6),
)
def test_any_marker_that_is_left_is_seen(lines: list[str], mark: str, at: int) -> None:
    plain = [line for line in lines if line[:7] not in ("<" * 7, "|" * 7, ">" * 7)]
    assert not has_markers("\n".join(plain).encode())
    plain.insert(at, mark)
    assert has_markers("\n".join(plain).encode())


@pytest.mark.parametrize("text", ["a <<<<<<< b", "<<<<<<<", "<<<<<<<<<< x", "=======", "|||||||x"])
def test_lines_that_only_look_like_markers_are_text(text: str) -> None:
    assert not has_markers(text.encode())


def test_gits_own_zdiff3_file_is_read(tmp_path: Path) -> None:
    """The labels are the ones that the tool gives; `git merge-file` writes the markers."""
    sides = {"ours": "1\nours\n3\n", "base": "1\n2\n3\n", "theirs": "1\ntheirs\n3\n"}
    for name, text in sides.items():
        (tmp_path / name).write_text(text)
    labels = [word for label in (OURS, BASE, THEIRS) for word in ("-L", label[8:])]
    command = ["git", "merge-file", "-p", "--zdiff3", *labels, *sides]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert find_regions("p", done.stdout) == [Region("p", "ours", "2", "theirs")]
    assert take_upstream(done.stdout) == sides["ours"]
