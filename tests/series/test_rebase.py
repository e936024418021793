"""Carrying a series over the miniature upstream: what each patch becomes, and what moves."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from series.model import Stack, Step
from series.rebase import Outcome, Plan, check_accounts
from tests.series.conftest import MakeLab
from tests.series.lab import Lab, read_folder
from tests.series.miniature import (
    AFTER,
    CLASH,
    MOVED,
    OFFSET,
    OWN,
    STEADY,
    TAKEN,
    Miniature,
    lines,
    run_git,
    write_series,
)
from upstream.errors import LabError
from upstream.version import Version


@pytest.fixture
def easy(make_lab: MakeLab, upstream: Miniature, tmp_path: Path) -> Lab:
    """Three patches that carry over by themselves."""
    patches = upstream.patches("b100", STEADY, OFFSET, MOVED)
    return make_lab(write_series(tmp_path / "my series", "b100", patches))


def fates(document: dict[str, object]) -> dict[str, tuple[str, str]]:
    """Status and fate by patch, of a report in JSON."""
    patches = document["patches"]
    assert isinstance(patches, list)
    return {p["patch"]: (p["status"], p["fate"]) for p in patches}


def test_clean_offset_and_moved_patches_are_told_apart_and_refs_move(easy: Lab) -> None:
    done = easy.rebase("--onto", "b200", "--json")
    assert done.code == 0, done.err
    report = done.document()
    assert fates(report) == {
        "steady.patch": ("clean", "kept"),
        "offset.patch": ("offset", "kept"),
        "moved.patch": ("moved", "changed"),
    }
    assert report["counts"] == {"kept": 2, "changed": 1}
    refs = easy.refs()
    assert len(refs) == 3
    assert refs[next(r for r in refs if r.endswith("/tip"))] == report["tip"]
    moved = easy.git.read_blob(f"{report['tip']}:lib/beta.c")
    assert moved is not None
    assert b"beta line 10 patched" in moved
    assert easy.git.read_blob(f"{report['tip']}:src/beta.c") is None


def test_new_stack_has_authors_messages_and_ancestry_of_the_patches(
    easy: Lab, upstream: Miniature
) -> None:
    report = easy.rebase("--onto", "b200", "--json").document()
    base = upstream.text("rev-parse", "b200")
    commits = easy.git.read_commits([p["commit"] for p in report["patches"]])
    assert commits[0].parents == (base,)
    assert commits[2].parents == (commits[1].id,)
    assert {c.author.name for c in commits} == {"Ada Lövgren"}
    assert {c.author.date for c in commits} == {"1700000000 +0530"}
    assert commits[0].message == "steady: change\n\nWhy steady is needed.\n"


def test_counts_add_up_in_the_text(easy: Lab) -> None:
    done = easy.rebase("--onto", "b200")
    assert done.code == 0
    assert "b100 -> b200, 3 patches" in done.out
    assert "3 in = 2 kept + 1 changed + 0 landed + 0 dropped" in done.out
    assert "clean, moved by rename" in done.out


def test_second_run_has_nothing_to_do_and_is_fast(easy: Lab) -> None:
    assert easy.rebase("--onto", "b200").code == 0
    before = easy.refs()
    started = time.monotonic()
    again = easy.rebase("--onto", "b200")
    seconds = time.monotonic() - started
    assert again.code == 0
    assert again.out.startswith("nothing to do: stack of 3 patches on b200")
    assert "--write" in again.out
    assert easy.refs() == before
    assert seconds < 2
    document = easy.rebase("--onto", "b200", "--json").document()
    assert document["nothing_to_do"] is True


def test_dry_run_moves_no_ref_and_writes_no_file(
    make_lab: MakeLab, upstream: Miniature, tmp_path: Path
) -> None:
    patches = upstream.patches("b100", STEADY, CLASH)
    lab = make_lab(write_series(tmp_path / "series", "b100", patches))
    files = lab.files()
    done = lab.rebase("--onto", "b200", "--dry-run", "--write")
    assert done.code == 5
    assert "clash.patch conflicts:" in done.out
    assert lab.files() == files
    assert lab.refs() == {}
    state = lab.folder / "state"
    assert not state.exists() or read_folder(state) == {}
    assert lab.git.text("worktree", "list", "--porcelain").count("worktree ") == 1


def test_head_is_the_newest_version_and_from_names_another_start(easy: Lab) -> None:
    assert easy.rebase("--json").document()["onto"] == "b300"
    other = easy.rebase("--from", "b200", "--onto", "b300", "--json")
    assert other.code == 2
    assert "moved.patch does not apply to b200" in other.err
    assert "src/beta.c" in other.err  # git's own words
    assert "next:" in other.err


def test_rebase_starts_at_the_version_that_from_names(
    make_lab: MakeLab, upstream: Miniature, tmp_path: Path
) -> None:
    patches = upstream.patches("b100", STEADY)
    lab = make_lab(write_series(tmp_path / "series", "b100", patches))
    done = lab.rebase("--from", "b200", "--onto", "b300", "--json")
    assert done.code == 0
    assert (done.document()["from"], done.document()["onto"]) == ("b200", "b300")
    assert "--from b200 --onto b300 --write" in done.err


def test_empty_patch_waits_and_is_recorded_as_landed_with_evidence(
    make_lab: MakeLab, upstream: Miniature, tmp_path: Path
) -> None:
    patches = upstream.patches("b100", TAKEN, STEADY)
    lab = make_lab(write_series(tmp_path / "series", "b100", patches))
    first = lab.rebase("--onto", "b200")
    assert first.code == 5
    assert "taken.patch changes nothing on b200 any more" in first.out
    assert "--onto b200 --landed taken.patch --reference '#PR'" in first.out
    assert lab.refs() == {}
    bare = lab.rebase("--onto", "b200", "--landed", "taken.patch", "--reference", "#17")
    assert (bare.code, "--evidence is missing" in bare.err) == (2, True)
    words = ("--reference", "#17", "--evidence", "same tree", "--write")
    done = lab.rebase("--onto", "b200", "--landed", "taken.patch", *words)
    assert done.code == 0, done.err
    assert "2 in = 1 kept + 0 changed + 1 landed + 0 dropped" in done.out
    text = (lab.series / "series.toml").read_text()
    assert 'reference = "#17"' in text
    assert 'version = "b200"' in text
    assert sorted(p.name for p in (lab.series / "patches").iterdir()) == ["steady.patch"]


def test_patch_that_landed_in_advance_is_left_out_from_that_version_on(
    make_lab: MakeLab, upstream: Miniature, tmp_path: Path
) -> None:
    record = (
        '[[landed]]\ntopic = "first"\npatch = "clash.patch"\nreference = "#5"\n'
        'version = "b300"\nevidence = "read it"\n'
    )
    patches = upstream.patches("b100", STEADY, CLASH)
    lab = make_lab(write_series(tmp_path / "series", "b100", patches, extra=record))
    early = lab.rebase("--onto", "b200", "--json", "--dry-run").document()
    assert fates(early)["clash.patch"] == ("conflict", "waiting")
    late = lab.rebase("--onto", "b300", "--json")
    assert late.code == 0
    assert fates(late.document())["clash.patch"] == ("landed", "landed")
    assert late.document()["patches"][1]["reason"] == "#5 in b300: read it"


def test_drop_needs_a_reason_and_a_known_patch(
    make_lab: MakeLab, upstream: Miniature, tmp_path: Path
) -> None:
    patches = upstream.patches("b100", STEADY, CLASH)
    lab = make_lab(write_series(tmp_path / "series", "b100", patches))
    bare = lab.rebase("--onto", "b200", "--drop", "clash.patch", "--reason", "  ")
    assert (bare.code, "--reason is missing" in bare.err) == (2, True)
    unknown = lab.rebase("--onto", "b200", "--drop", "clsh.patch", "--reason", "x")
    assert (unknown.code, "no patch 'clsh.patch'" in unknown.err) == (2, True)
    done = lab.rebase("--onto", "b200", "--drop", "clash.patch", "--reason", "not worth it")
    assert done.code == 0
    assert "dropped  not worth it" in done.out
    assert lab.rebase("--onto", "b200", "--write").code == 0
    assert 'reason = "not worth it"' in (lab.series / "series.toml").read_text()
    assert not (lab.series / "patches" / "clash.patch").exists()


def test_later_patches_are_assessed_after_a_conflict(
    make_lab: MakeLab, upstream: Miniature, tmp_path: Path
) -> None:
    patches = upstream.patches("b100", CLASH, AFTER, OWN, STEADY)
    lab = make_lab(write_series(tmp_path / "series", "b100", patches))
    done = lab.rebase("--onto", "b200", "--json")
    assert done.code == 5
    report = done.document()
    assert fates(report) == {
        "clash.patch": ("conflict", "waiting"),
        "after.patch": ("needs", "waiting"),
        "own.patch": ("conflict", "waiting"),
        "steady.patch": ("clean", "kept"),
    }
    assert report["patches"][1]["reason"] == "needs clash.patch"
    assert sum(report["counts"].values()) == len(report["patches"])
    text = lab.rebase("--onto", "b200").out
    assert "4 in = 1 kept + 0 changed + 0 landed + 0 dropped + 3 waiting for you" in text
    assert "after.patch needs clash.patch: resolve that first" in text


def test_patch_changed_by_the_merge_is_told_from_a_kept_one(
    make_lab: MakeLab, tmp_path: Path, own_upstream: Miniature
) -> None:
    """Upstream removed one of two lines that the patch removes: it removes fewer now."""
    own_upstream.release("b100", {"a.c": lines("a")})
    own_upstream.release("b200", {"a.c": lines("a", changes={3: ""})})
    change = ("fewer.patch", {"a.c": lines("a", changes={3: "", 25: ""})})
    patches = own_upstream.patches("b100", change)
    series = write_series(tmp_path / "series", "b100", patches)
    done = make_lab(series, remote=own_upstream.url).rebase("--json")
    assert done.code == 0
    assert fates(done.document()) == {"fewer.patch": ("offset", "changed")}


def test_accounts_that_do_not_add_up_stop_the_rebase() -> None:
    steps = (Step("t", "a.patch", "1" * 40, "2" * 40), Step("t", "b.patch", "3" * 40, "4" * 40))
    version = Version(1)
    stack = Stack(version, "5" * 40, "6" * 40, steps)
    good = tuple(Outcome("t", s.patch, "clean", "kept", s) for s in steps)
    check_accounts(steps, Plan(stack, stack, good))
    twice, lost = (good[0], good[0]), (good[0],)
    for outcomes in (twice, lost, (*good, good[1])):
        with pytest.raises(LabError, match="lost count"):
            check_accounts(steps, Plan(stack, stack, outcomes))
    short = Stack(version, stack.commit, stack.tree, steps[:1])
    with pytest.raises(LabError, match="does not hold what the report says"):
        check_accounts(steps, Plan(stack, short, good))


def test_users_checkout_is_untouched_but_for_the_series(
    make_lab: MakeLab, upstream: Miniature, tmp_path: Path
) -> None:
    home = tmp_path / "user"
    patches = upstream.patches("b100", STEADY, OFFSET)
    series = write_series(home / "series", "b100", patches)
    (home / "notes.txt").write_text("one\n")
    run_git(home, "init", "--quiet", "-b", "main", ".")
    run_git(home, "add", ".")
    run_git(home, "commit", "--quiet", "-m", "mine", "--author=A <a@b.c>")
    (home / "notes.txt").write_text("two\n")
    (home / "staged.txt").write_text("staged\n")
    run_git(home, "add", "staged.txt")
    before, state = read_folder(home / ".git"), run_git(home, "status", "--porcelain")
    lab = make_lab(series)
    assert lab.rebase("--onto", "b200").code == 0
    assert read_folder(home / ".git") == before
    assert run_git(home, "status", "--porcelain") == state
    assert lab.rebase("--onto", "b200", "--write").code == 0
    assert read_folder(home / ".git") == before
    changed = set(run_git(home, "status", "--porcelain").splitlines()) - set(state.splitlines())
    assert changed == {b" M series/series.toml", b" M series/patches/offset.patch"}


def test_series_without_topics_is_carried_too(make_lab: MakeLab, tmp_path: Path) -> None:
    series = tmp_path / "series"
    series.mkdir()
    (series / "series.toml").write_text('base = "b100"\n')
    lab = make_lab(series)
    done = lab.rebase("--onto", "b200", "--write")
    assert done.code == 0, done.err
    assert "0 in = " in done.out
    assert (series / "series.toml").read_text() == 'base = "b200"\n'
    assert json.loads(lab.run("status", "--json").out)["patches"] == []
