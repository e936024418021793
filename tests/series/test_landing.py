"""Every planted case of drift and landing gets its verdict, from real git repositories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from series.landing.alone import Alone, isolate_series
from series.landing.classify import classify_patch, classify_patches, judge_hunks, mark_superseded
from series.landing.ground import Ground
from series.landing.history import recall_landed
from series.landing.hunks import read_blocks, read_hunks
from series.landing.model import Fate, Standing, State
from series.landing.patch_ids import find_same
from series.manifest import load_series
from series.model import Landed, Topic
from tests.series.miniature import Miniature, create_upstream, lines, run_git, write_series
from tests.series.planted import PATCHES, after, plant
from upstream.git import Git
from upstream.version import parse_version

WANTED = {
    "exact.patch": State.LANDED,
    "reword.patch": State.MODIFIED,
    "half.patch": State.PARTLY,
    "back.patch": State.LANDED,
    "clash.patch": State.CONFLICT,
    "moved.patch": State.MOVED,
    "both.patch": State.CLEAN,
    "trap.patch": State.OFFSET,
    "torn.patch": State.LOSS,
    "twice.patch": State.CLEAN,
    "off.patch": State.OFFSET,
}


class Planted:
    """The planted upstream as the engine sees it."""

    def __init__(self, folder: Path) -> None:
        self.upstream = create_upstream(folder / "upstream.git")
        plant(self.upstream)
        self.git = Git(self.upstream.path)
        self.directory = write_series(
            folder / "series", "b100", self.upstream.patches("b100", *PATCHES)
        )
        series = load_series(self.directory)
        # each case for itself: a topic of its own
        self.series = replace(
            series,
            topics=tuple(Topic(p.removesuffix(".patch"), p, (), (p,)) for _, p in series.order()),
        )
        (folder / "scratch").mkdir()
        self.scratch = folder / "scratch"
        commit = self.upstream.text("rev-parse", "b100^0")
        self.patches = isolate_series(self.git, self.series, commit, self.scratch)

    def ground(self, tag: str) -> Ground:
        return Ground(self.git, parse_version(tag), self.git.tree_of(tag))

    def patch(self, name: str) -> Alone:
        return next(each for each in self.patches if each.patch == f"{name}.patch")

    def stand(self, name: str, tag: str) -> Standing:
        return classify_patch(self.patch(name), self.ground(tag))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return Planted(tmp_path_factory.mktemp("planted"))


def test_every_planted_case_gets_its_state(planted: Planted) -> None:
    found = classify_patches(planted.patches, planted.ground("b200"))
    assert {each.patch: each.state for each in found} == WANTED
    assert {name for name, _ in PATCHES} == WANTED.keys()
    base = classify_patches(planted.patches, planted.ground("b100"))
    assert {each.state for each in base} == {State.CLEAN}
    assert not any(each.warnings or each.detail for each in base)


def test_landed_exactly(planted: Planted) -> None:
    standing = planted.stand("exact", "b200")
    assert [(f.fate, f.share, f.path) for f in standing.hunks] == [(Fate.EXACT, 1.0, "src/exact.c")]
    assert (standing.landed, standing.applies) == (True, False)


def test_landed_in_other_words_names_the_share(planted: Planted) -> None:
    standing = planted.stand("reword", "b200")
    (fate,) = standing.hunks
    assert (fate.fate, standing.merges) == (Fate.MODIFIED, False)
    assert 0.5 < fate.share < 1
    assert standing.landed
    assert "1 modified" in standing.detail


def test_half_landed_says_which_hunk_is_left(planted: Planted) -> None:
    standing = planted.stand("half", "b200")
    assert [fate.fate for fate in standing.hunks] == [Fate.EXACT, Fate.LEFT]
    assert standing.hunks[1].line == 19  # one line further down than on b100
    assert standing.applies
    assert "left: src/half.c hunk 2" in standing.detail


def test_reverted_comes_back_as_needed(planted: Planted) -> None:
    assert planted.stand("back", "b200").state is State.LANDED
    assert planted.stand("back", "b300").state is State.CLEAN
    assert [f.fate for f in planted.stand("back", "b300").hunks] == [Fate.LEFT]


def test_superseded_needs_the_drop_check_and_a_conflict(planted: Planted) -> None:
    standing = planted.stand("clash", "b200")
    assert mark_superseded(standing, passes=True).state is State.SUPERSEDED
    assert mark_superseded(standing, passes=False) == standing
    for name in ("off", "half", "exact"):
        other = planted.stand(name, "b200")
        assert mark_superseded(other, passes=True) == other


def test_conflict_shows_both_sides(planted: Planted) -> None:
    standing = planted.stand("clash", "b200")
    (excerpt,) = standing.excerpts
    assert excerpt.ours == ("clash line 15 theirs",)
    assert excerpt.theirs == ("clash line 15 ours",)
    assert len(standing.key) == 16
    assert [f.fate for f in standing.hunks] == [Fate.LEFT]


def test_rename_is_followed(planted: Planted) -> None:
    standing = planted.stand("moved", "b200")
    assert standing.detail == "src/moved.c is now lib/moved.c"
    assert [f.path for f in standing.hunks] == ["lib/moved.c"]


def test_landed_in_a_renamed_file(own_upstream: Miniature, scratch: Path, tmp_path: Path) -> None:
    own_upstream.release("b1", {"src/x.c": lines("x")})
    own_upstream.release("b2", {}, renames={"src/x.c": "lib/x.c"})
    own_upstream.release("b3", {"lib/x.c": after("x", 9)})
    patches = own_upstream.patches("b1", ("x.patch", {"src/x.c": after("x", 9)}))
    series = load_series(write_series(tmp_path / "series", "b1", patches))
    git = Git(own_upstream.path)
    (patch,) = isolate_series(git, series, own_upstream.text("rev-parse", "b1^0"), scratch)
    standing = classify_patch(patch, Ground(git, parse_version("b3"), git.tree_of("b3")))
    assert standing.state is State.LANDED
    assert [(f.path, f.fate) for f in standing.hunks] == [("lib/x.c", Fate.EXACT)]


def test_file_at_both_paths_is_a_warning(planted: Planted) -> None:
    (warning,) = planted.stand("both", "b200").warnings
    assert warning == "lib/both.c holds the lines of src/both.c too and stays unpatched"


def test_same_context_elsewhere_is_no_landing(planted: Planted) -> None:
    """The fix stands in a new function with the same context; the old place still needs it."""
    standing = planted.stand("trap", "b200")
    (fate,) = standing.hunks
    assert fate.fate is Fate.LEFT
    assert fate.line > 30
    merged = planted.ground("b200").merge(planted.patch("trap"), planted.ground("b200").tree)
    assert isinstance(merged, str)
    text = (planted.git.read_blob(f"{merged}:src/trap.c") or b"").decode()
    assert text.count("work(new_way)") == 2
    assert "work(old)" not in text


def test_same_lines_elsewhere_are_a_warning(planted: Planted) -> None:
    (warning,) = planted.stand("twice", "b200").warnings
    assert "stand at line 26 too" in warning
    assert planted.stand("off", "b200").warnings == ()


def test_lines_lost_in_a_clean_merge_are_not_clean(planted: Planted) -> None:
    standing = planted.stand("torn", "b200")
    assert standing.merges
    assert not standing.applies
    assert "added line vanished: torn new 10" in standing.detail


def test_judge_hunks_answers_without_merging(planted: Planted) -> None:
    fates = judge_hunks(planted.patch("half"), planted.ground("b200"))
    assert [fate.fate for fate in fates] == [Fate.EXACT, Fate.LEFT]


def test_patch_stands_on_what_its_topic_needs(
    own_upstream: Miniature, scratch: Path, tmp_path: Path
) -> None:
    """`second` changes a line that `first` added; `third` needs nothing."""
    own_upstream.release("b1", {"x.c": lines("x"), "y.c": lines("y")})
    own_upstream.release(
        "b2", {"x.c": lines("x", changes={9: "x line 9 theirs"}), "y.c": lines("y")}
    )
    first = after("x", 9)
    patches = own_upstream.patches(
        "b1",
        ("first.patch", {"x.c": first}),
        ("third.patch", {"x.c": first, "y.c": after("y", 9)}),
        ("second.patch", {"x.c": first.replace("x new 9", "x newer 9"), "y.c": after("y", 9)}),
    )
    series = load_series(write_series(tmp_path / "series", "b1", patches))
    topics = (
        Topic("one", "one", (), ("first.patch",)),
        Topic("three", "three", (), ("third.patch",)),
        Topic("two", "two", ("one",), ("second.patch",)),
    )
    git = Git(own_upstream.path)
    commit = own_upstream.text("rev-parse", "b1^0")
    found = isolate_series(git, replace(series, topics=topics), commit, scratch)
    assert [[n.patch for n in each.needs] for each in found] == [[], [], ["first.patch"]]
    assert all(each.apart for each in found)
    assert found[2].change.paths == ("x.c",)
    states = classify_patches(found, Ground(git, parse_version("b2"), git.tree_of("b2")))
    assert [each.state for each in states] == [State.CONFLICT, State.CLEAN, State.CONFLICT]
    assert "without first.patch, which conflicts" in states[2].detail
    bare = (topics[0], topics[1], replace(topics[2], requires=()))
    lone = isolate_series(git, replace(series, topics=bare), commit, scratch)[2]
    assert not lone.apart
    said = classify_patch(lone, Ground(git, parse_version("b1"), git.tree_of("b1"))).detail
    assert "needs patches of other topics" in said


def test_mode_and_bytes_without_hunks(
    own_upstream: Miniature, scratch: Path, tmp_path: Path
) -> None:
    own_upstream.release("b1", {"run": "x\n", "bin": b"\0\1"})
    own_upstream.release("b2", {"news": "1\n"})
    own_upstream.release("b3", {"run": "x\n", "bin": b"\0\2"}, modes={"run": "100755"})
    own_upstream.release("b4", {"bin": b"\0\3"})
    parent = own_upstream.text("rev-parse", "b1^0")
    made = {}
    for name, files in (("mode.patch", {"run": "x\n"}), ("bytes.patch", {"bin": b"\0\2"})):
        branch = f"refs/heads/{name}"
        modes = {"run": "100755"}
        tip = own_upstream.commit(branch, parent, files, f"{name} : why\n", modes=modes)
        made[name] = own_upstream.export(tip)
    series = load_series(write_series(tmp_path / "series", "b1", made))
    git = Git(own_upstream.path)
    patches = isolate_series(git, series, parent, scratch)
    table = {
        tag: [each.state for each in classify_patches(patches, Ground(git, parse_version(tag),
              git.tree_of(tag)))]
        for tag in ("b1", "b2", "b3", "b4")
    }  # fmt: skip
    assert table == {
        "b1": [State.CLEAN, State.CLEAN],
        "b2": [State.CLEAN, State.CLEAN],
        "b3": [State.LANDED, State.LANDED],
        "b4": [State.LANDED, State.CONFLICT],
    }


def test_new_file_that_upstream_has_too(
    own_upstream: Miniature, scratch: Path, tmp_path: Path
) -> None:
    text = "".join(f"int function_{n}(void);\n" for n in range(8))
    own_upstream.release("b1", {"x.c": "x\n"})
    own_upstream.release("b2", {"new.h": text})
    own_upstream.release("b3", {"new.h": text.replace("function_5(void)", "function_5(int a)")})
    own_upstream.release("b4", {"new.h": "something else\n"})
    made = own_upstream.patches("b1", ("new.patch", {"new.h": text}))
    series = load_series(write_series(tmp_path / "series", "b1", made))
    git = Git(own_upstream.path)
    (patch,) = isolate_series(git, series, own_upstream.text("rev-parse", "b1^0"), scratch)
    found = [
        classify_patch(patch, Ground(git, parse_version(tag), git.tree_of(tag))).state
        for tag in ("b1", "b2", "b3", "b4")
    ]
    assert found == [State.CLEAN, State.LANDED, State.MODIFIED, State.CONFLICT]


def test_patch_id_finds_the_same_commit_only(planted: Planted) -> None:
    """b200 holds more than the patch: no id; a commit of its own has it, white space aside."""
    upstream, patch = planted.upstream, planted.patch("exact")
    start, end = (upstream.text("rev-parse", f"{tag}^0") for tag in ("b100", "b200"))
    assert find_same(planted.git, patch, start, end) == ""
    files = {"src/exact.c": lines("exact", changes={9: "exact line 9 fixed"})}
    news = upstream.commit("refs/heads/side", start, {"news": "1\n"}, "news\n")
    same = upstream.commit("refs/heads/side", None, files, "exact : fix (#7)\n")
    assert find_same(planted.git, patch, start, same) == same
    assert find_same(planted.git, patch, start, news) == ""


def test_landed_patch_is_recalled_from_the_history_of_its_checkout(
    planted: Planted, tmp_path: Path
) -> None:
    checkout = tmp_path / "own"
    series = checkout / "series"
    (series / "patches").mkdir(parents=True)
    for path in ("series.toml", "patches/exact.patch"):
        (series / path).write_bytes((planted.directory / path).read_bytes())
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    run_git(checkout, "init", "--quiet", ".")
    run_git(checkout, "add", "-A")
    run_git(checkout, *who, "commit", "--quiet", "-m", "with")
    (series / "patches" / "exact.patch").unlink()
    (series / "series.toml").write_text('base = "b300"\n')
    run_git(checkout, *who, "commit", "--quiet", "-a", "-m", "without")
    planted.upstream.git("update-ref", "refs/tags/upstream/b100", "b100^0")
    record = Landed("exact", "exact.patch", "#7", parse_version("b200"), "seen")
    own = replace(planted.series, directory=series)
    found = recall_landed(planted.git, own, record, planted.scratch)
    assert found is not None
    assert (found.patch, str(found.base)) == ("exact.patch", "b100")
    assert classify_patch(found, planted.ground("b200")).state is State.LANDED
    outside = replace(planted.series, directory=planted.directory)
    assert recall_landed(planted.git, outside, record, planted.scratch) is None


DIFF = b"""diff --git a/x b/x
--- a/x
+++ b/x
@@ -2 +2,2 @@ head
-old
\\ No newline at end of file
+--- new
+@@ -1 +1 @@
@@ -7,0 +9 @@
+last
\\ No newline at end of file
"""


def test_lines_that_look_like_diffs_are_lines() -> None:
    first, second = read_blocks(DIFF)
    assert (first.low, first.high, first.new) == (2, 3, 2)
    assert first.added == ("--- new", "@@ -1 +1 @@")
    assert (second.low, second.high, second.new, second.added) == (8, 8, 9, ("last",))
    assert read_hunks(b"") == ()
