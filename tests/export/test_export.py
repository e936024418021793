"""Topics alone: branches, patches and bundles that a person can use; rounds and their history."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.export.conftest import Exporter, MakeExporter, write_topics
from tests.series.conftest import MakeLab
from tests.series.miniature import (
    AFTER,
    CLASH,
    OFFSET,
    OWN,
    STEADY,
    Miniature,
    lines,
    run_git,
)
from upstream.errors import ConflictWaiting, UsageError
from upstream.git import Git

TOPICS = {
    "lower": ((), ["clash.patch"]),
    "other": ((), ["steady.patch", "own.patch"]),
    "upper": (["lower"], ["after.patch"]),
}


@pytest.fixture
def exporter(upstream: Miniature, make_exporter: MakeExporter) -> Exporter:
    """`upper` changes the line that `lower` changed; `other` stands between the two."""
    return make_exporter(upstream.patches("b100", CLASH, STEADY, OWN, AFTER), TOPICS)


def branch(exporter: Exporter, topic: str) -> str:
    return exporter.refs()[f"refs/heads/pr/{topic}"]


def test_a_branch_holds_the_topic_and_what_it_requires_and_nothing_else(
    exporter: Exporter, upstream: Miniature
) -> None:
    assert exporter.run()[0] == 0
    base = upstream.text("rev-parse", "b100^0")
    for topic, changed in (
        ("lower", {"src/delta.c"}),
        ("other", {"src/gamma.c", "src/omega.c"}),
        ("upper", {"src/delta.c"}),
    ):
        tip = branch(exporter, topic)
        names = exporter.git.text("diff-tree", "-r", "--name-only", base, tip).split()
        assert set(names) == changed, topic
    subjects = [exporter.git.read_commit(c).subject for c in exporter.git.walk(base, tip)]
    assert subjects == ["clash: change", "after: change"]


def test_the_patches_give_the_same_branch_with_git_am(
    exporter: Exporter, upstream: Miniature, tmp_path: Path
) -> None:
    exporter.run()
    folder = exporter.output / "upper" / "patches"
    names = (folder / "series").read_text().split()
    assert names == ["clash.patch", "after.patch"]
    tip = upstream.apply_mails("b100", [folder / name for name in names], tmp_path / "am")
    assert tip == branch(exporter, "upper")


def test_the_shown_command_and_the_bundle_bring_the_branch_into_a_clone(
    exporter: Exporter, upstream: Miniature, tmp_path: Path
) -> None:
    shown = exporter.document()["upper"]["fetch"]
    clone = tmp_path / "clone"
    run_git(tmp_path, "clone", "--quiet", upstream.url, str(clone))
    before = run_git(clone, "for-each-ref")
    run_git(clone, *shlex.split(shown)[1:])
    tip = branch(exporter, "upper")
    assert run_git(clone, "rev-parse", "FETCH_HEAD").decode().strip() == tip
    assert run_git(clone, "for-each-ref") == before
    other = tmp_path / "other clone"
    run_git(tmp_path, "clone", "--quiet", upstream.url, str(other))
    bundle = str(exporter.output / "upper" / "upper.bundle")
    run_git(other, "bundle", "verify", "--quiet", bundle)
    run_git(other, "fetch", "--quiet", bundle, "pr/upper:pr/upper")
    assert run_git(other, "rev-parse", "pr/upper").decode().strip() == tip
    run_git(other, "fsck", "--strict")


def test_a_topic_that_needs_an_unnamed_one_is_an_error_that_names_it(
    upstream: Miniature, make_exporter: MakeExporter
) -> None:
    patches = upstream.patches("b100", CLASH, STEADY, AFTER)
    topics = {
        "lower": ((), ["clash.patch"]),
        "other": ((), ["steady.patch"]),
        "upper": (["other"], ["after.patch"]),
    }
    exporter = make_exporter(patches, topics)
    with pytest.raises(UsageError) as caught:
        exporter.run()
    assert "topic 'upper' does not apply" in caught.value.what
    assert "after.patch conflicts in src/delta.c" in caught.value.what
    assert caught.value.remedy.startswith("add \"lower\" to requires of 'upper'")
    assert exporter.refs() == {}
    assert not exporter.output.exists()
    write_topics(exporter.series, {}, topics | {"upper": (["other", "lower"], ["after.patch"])})
    assert exporter.run()[0] == 0


def test_an_unchanged_topic_is_not_exported_again(exporter: Exporter) -> None:
    exporter.run()
    files, refs = exporter.files(), exporter.refs()
    times = {path: path.stat().st_mtime_ns for path in exporter.output.rglob("*")}
    _, out = exporter.run()
    assert "nothing changed since the last export" in out
    assert (exporter.files(), exporter.refs()) == (files, refs)
    assert {path: path.stat().st_mtime_ns for path in exporter.output.rglob("*")} == times
    (exporter.output / "other" / "other.bundle").unlink()
    _, out = exporter.run()
    assert "nothing changed" not in out
    assert exporter.files() == files
    assert exporter.refs() == refs


def test_a_change_makes_the_next_round_with_a_range_diff(
    exporter: Exporter, upstream: Miniature
) -> None:
    exporter.run()
    old = branch(exporter, "other")
    changed = (OWN[0], {"src/omega.c": lines("omega", changes={3: "omega line 3 otherwise"})})
    patches = upstream.patches("b100", CLASH, STEADY, changed, AFTER)
    write_topics(exporter.series, patches, TOPICS)
    _, out = exporter.run()
    assert "v1 (b100) -> v2 (b100):" in out
    assert "+omega line 3 otherwise" in out
    told = (exporter.output / "other" / "range-diff.txt").read_text()
    assert "= 1:  " in told
    assert "! 2:  " in told
    refs, new = exporter.refs(), branch(exporter, "other")
    prefix = next(ref for ref in refs if ref.startswith("refs/exports/")).rsplit("/", 2)[0]
    assert (refs[f"{prefix}/other/v1"], refs[f"{prefix}/other/v2"]) == (old, new)
    assert old in [commit for ref, commit in refs.items() if ref.startswith("refs/backup/")]
    # The topic above moved with what it stands on only if it requires it.
    assert f"{prefix}/upper/v2" not in refs
    assert not (exporter.output / "upper" / "range-diff.txt").exists()


def test_another_upstream_version_is_a_round_too(
    upstream: Miniature, make_exporter: MakeExporter
) -> None:
    exporter = make_exporter(upstream.patches("b100", OFFSET), {"one": ((), ["offset.patch"])})
    exporter.run()
    document = exporter.document(onto="b300")["one"]
    assert (document["round"], document["upstream"]) == (2, "b300")
    assert " = " in document["range_diff"]
    assert exporter.document()["one"]["round"] == 3


def test_a_draft_that_a_person_wrote_in_is_kept(exporter: Exporter) -> None:
    exporter.run()
    draft = exporter.output / "lower" / "PR.md"
    draft.write_text("## Overview\n\nMy own words.\n")
    _, out = exporter.run()
    assert "PR.md: yours is kept" in out
    assert draft.read_text() == "## Overview\n\nMy own words.\n"


def test_a_branch_that_stood_elsewhere_is_kept_as_a_backup(exporter: Exporter) -> None:
    exporter.run()
    tip, lower = branch(exporter, "other"), branch(exporter, "lower")
    exporter.git.run("update-ref", "refs/heads/pr/other", lower)
    exporter.run()
    assert branch(exporter, "other") == tip
    (backup,) = (ref for ref in exporter.refs() if ref.startswith("refs/backup/"))
    assert backup.endswith("/other")
    assert exporter.refs()[backup] == lower


def test_only_the_named_topics_are_exported(exporter: Exporter) -> None:
    exporter.run("upper")
    assert set(exporter.git.list_refs("refs/heads")) == {"refs/heads/pr/upper"}
    with pytest.raises(UsageError, match="no topic 'nobody'") as caught:
        exporter.run("nobody")
    assert "lower, other, upper" in caught.value.remedy


def test_a_stack_that_conflicts_there_is_not_exported(exporter: Exporter) -> None:
    with pytest.raises(ConflictWaiting, match=r"clash\.patch") as caught:
        exporter.run(onto="b200")
    assert caught.value.remedy == "nox -s rebase -- --onto b200"
    assert exporter.refs() == {}


def test_a_resolution_of_the_stack_holds_for_the_topic_alone(
    upstream: Miniature, make_exporter: MakeExporter, make_lab: MakeLab
) -> None:
    patches = upstream.patches("b100", STEADY, CLASH)
    topics = {"first": ((), ["steady.patch"]), "second": ((), ["clash.patch"])}
    exporter = make_exporter(patches, topics)
    rebase = make_lab(exporter.series)
    parked = rebase.rebase("--onto", "b200", "--json").document()["patches"][1]["worktree"]
    resolved = lines("delta", changes={15: "delta line 15 resolved"})
    (Path(parked) / "src" / "delta.c").write_text(resolved)
    again = rebase.rebase("--onto", "b200", "--continue", "--reason", "ours is right")
    assert again.code == 0, again.err
    exporter.run(onto="b200")
    assert exporter.git.read_blob("refs/heads/pr/second:src/delta.c") == resolved.encode()
    gamma = exporter.git.read_blob("refs/heads/pr/second:src/gamma.c")
    assert gamma == lines("gamma").encode()


def test_a_landed_topic_is_named_and_nothing_is_left_is_an_error(
    upstream: Miniature, make_exporter: MakeExporter
) -> None:
    topics = {"gone": ((), []), "here": ((), ["steady.patch"])}
    exporter = make_exporter(upstream.patches("b100", STEADY), topics)
    _, out = exporter.run()
    assert "gone: nothing to export, no patch is left" in out
    with pytest.raises(UsageError, match="nothing to export"):
        exporter.run("gone")


@pytest.mark.parametrize("name", ["a..b", "a.lock", "a.", "-a", "a/b", "../a", "A"])
def test_a_topic_name_that_is_no_branch_is_refused(
    name: str, upstream: Miniature, make_exporter: MakeExporter
) -> None:
    topics = {name: ((), ["steady.patch"])}
    exporter = make_exporter(upstream.patches("b100", STEADY), topics)
    with pytest.raises(UsageError, match="topic name"):
        exporter.run()


def test_a_checkout_is_no_place_for_the_output(exporter: Exporter, tmp_path: Path) -> None:
    run_git(tmp_path, "init", "--quiet", "checkout")
    with pytest.raises(UsageError, match="is a git checkout"):
        exporter.run("--output", str(tmp_path / "checkout"))
    assert Git(exporter.lab / "lab.git").list_refs("refs/heads") == {}
