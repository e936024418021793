"""Sources that are broken or hostile: refused with words and the next command, nothing changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from series.manifest import load_series
from tests.series.importing import PLAIN, WHOEVER, Import, lab, put, refused, stocked, take
from tests.series.lab import ROOT, Lab, read_folder
from tests.series.miniature import CLASH, STEADY, Miniature, lines, run_git
from tests.series.test_write_killed import killer

__all__ = ["lab", "stocked", "take"]  # fixtures


def test_names_that_exist_are_refused(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    folder = put(tmp_path / "in", {"own.patch": upstream.patches("b200", STEADY)["steady.patch"]})
    refused(take(folder, "--topic", "first"), "topic 'first' already", "--topic NAME")
    refused(take(folder, "--topic", "other"), "own.patch", "--prefix other-")
    refused(take(folder, "--requires", "none", "--prefix", "x-"), "no topic 'none'")
    assert take(folder, "--topic", "other", "--prefix", "x-", "--requires", "first").code == 0
    assert load_series(lab.series).topics[-1].requires == ("first",)


def link_outside(folder: Path) -> None:
    (folder.parent / "secret.patch").write_bytes(PLAIN)
    (folder / "a.patch").symlink_to("../secret.patch")


BAD: dict[str, tuple[dict[str, bytes], str]] = {
    "empty folder": ({}, "holds no patch"),
    "patches and mailboxes": (
        {"a.patch": PLAIN, "b.mbox": PLAIN},
        "holds patch files and mailboxes",
    ),
    "not a patch": ({"a.patch": b"hello\n"}, "is not a patch"),
    "empty file": ({"a.patch": b""}, "the file is empty"),
    "cut off": ({"a.patch": PLAIN[:-20]}, "damaged or cut off"),
    "outside the tree": ({"a.patch": PLAIN.replace(b"src/gamma.c", b"../../gamma.c")}, "outside"),
    "series leaves the folder": ({"series": b"../x.patch\n"}, "leads outside the folder"),
    "series names nothing": ({"series": b"# all gone\n"}, "lists no patch"),
    "series names a missing file": ({"series": b"gone.patch\n"}, "does not exist"),
    "series with -R": ({"series": b"a.patch -R\n", "a.patch": PLAIN}, "the option -R"),
    "series lists one twice": ({"series": b"a.patch\na.patch\n", "a.patch": PLAIN}, "twice"),
    "compressed": ({"series": b"a.patch.gz\n", "a.patch.gz": b"?"}, "is compressed"),
    "inside .git": ({"a.patch": PLAIN.replace(b"src/gamma.c", b".git/config")}, ".git"),
    "a source tree": ({"debian/patches/series": b"a.patch\n"}, "debian/patches"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_folders_are_refused(lab: Lab, take: Import, tmp_path: Path, case: str) -> None:
    files, words = BAD[case]
    folder = tmp_path / "in"
    before = lab.files()
    refused(take(put(folder, files), *WHOEVER, "--strip", "0"), words)
    assert lab.files() == before


def test_a_symlink_that_leaves_the_folder_is_refused(take: Import, tmp_path: Path) -> None:
    folder = put(tmp_path / "in", {"b.patch": PLAIN})
    link_outside(folder)
    refused(take(folder, *WHOEVER, "--strip", "0"), "leads outside the folder")


def test_a_broken_mail_of_a_mailbox_is_named_by_its_number(
    take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    good, other = upstream.patches("b200", STEADY, CLASH).values()
    cut = other[: other.index(b"+delta line 15 patched")]
    box = put(tmp_path, {"stack.mbox": good + cut + b"\n" + good}) / "stack.mbox"
    refused(take(box), "stack.mbox: mail 2: ")


def test_bad_ranges_are_refused(take: Import, upstream: Miniature, tmp_path: Path) -> None:
    upstream.patches("b200", STEADY, CLASH)
    tip = upstream.text("rev-parse", "patches")
    merge = upstream.text(
        "-c", "user.name=x", "-c", "user.email=x@x", "commit-tree", "-m", "merge them",
        "-p", tip, "-p", "b300", f"{tip}^{{tree}}",
    )  # fmt: skip
    upstream.git("branch", "merged", merge)
    at = upstream.path
    refused(take(f"{at}:b200..merged"), "merge commits", "merge them")
    refused(take(f"{at}:b200..b100"), "holds no commit")
    refused(take(f"{at}:b200..nowhere"), "has no commit 'nowhere'")
    refused(take("b200", "--repository", at), "is no range")
    refused(take(f"{tmp_path}:a..b"), "is no git repository")
    refused(take("nowhere"), "there is no nowhere")


def test_a_repository_with_a_hostile_configuration_runs_nothing(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    patches = upstream.patches("b200", STEADY)
    clone = tmp_path / "clone"
    run_git(tmp_path, "clone", "--quiet", upstream.path, clone)
    (tmp_path / "mail").write_bytes(patches["steady.patch"])
    run_git(clone, "checkout", "--quiet", "-b", "mine", "b200")
    run_git(clone, "am", "--quiet", tmp_path / "mail")
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "core.sshCommand", "core.pager", "core.editor"):
        run_git(clone, "config", key, str(trap))
    with (clone / ".git" / "config").open("a") as config:
        config.write("[broken\n")
    before = read_folder(clone)
    done = take(f"{clone}:b200..mine", "--topic", "mine")
    assert done.code == 0, done.err
    assert not (tmp_path / "sprung").exists()
    assert read_folder(clone) == before
    assert load_series(lab.series).topics[-1].patches == ("steady-change.patch",)


def test_a_subject_that_no_mail_keeps_is_refused_with_its_commit(
    lab: Lab, take: Import, upstream: Miniature
) -> None:
    files = {"src/gamma.c": lines("gamma", changes={4: "x"})}
    start = upstream.text("rev-parse", "b200")
    commit = upstream.commit("refs/heads/bracket", start, files, "[SYCL] faster\n")
    refused(take(f"{upstream.path}:b200..bracket"), commit[:12], "reword its message")


def test_an_unfinished_rebase_comes_first(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path
) -> None:
    assert lab.rebase("--onto", "b300", "--drop", "own.patch", "--reason", "no").code == 0
    done = take(put(tmp_path / "in", upstream.patches("b200", STEADY)))
    assert done.code == 5
    assert "--abort" in done.err
    assert lab.files().keys() == {"series.toml", "patches/own.patch"}


@pytest.mark.parametrize("count", [1, 4, 6])
def test_an_import_killed_at_any_step_is_finished_by_the_next_run(
    lab: Lab, take: Import, upstream: Miniature, tmp_path: Path, count: int
) -> None:
    """Renames and removals: 3 staged, the journal; 2 patches, series.toml; the journal removed."""
    folder = put(tmp_path / "in", upstream.patches("b200", STEADY, CLASH))
    name = load_series(lab.series).id
    code = killer(f"({lab.series}|state/{name}/\\.?(staged|journal))")
    code = code.replace('runpy.run_module("series"', 'runpy.run_module("series.importing"')
    where = ("--upstream", "remote", "--remote", lab.remote, "--series", str(lab.series))
    command = (sys.executable, "-c", code, str(count), str(folder), "--topic", "new", *where)
    child = subprocess.run(command, env=lab.environment(), cwd=ROOT, capture_output=True)
    assert child.returncode == -9, child.stderr
    again = take(folder, "--topic", "new")
    if again.code != 0:
        refused(again, "finished a --write that was interrupted", "topic 'new' already")
    series = load_series(lab.series)
    assert series.topics[-1].patches == ("clash.patch", "steady.patch")
    assert {f"patches/{patch}" for _, patch in series.order()} | {"series.toml"} == set(lab.files())
