"""The user's git configuration and environment change nothing in what the tool makes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.series.conftest import MakeLab
from tests.series.lab import Lab, read_folder
from tests.series.miniature import (
    CLASH,
    MOVED,
    OFFSET,
    Miniature,
    lines,
    run_git,
    write_series,
)

CONFIG = """[core]
    hooksPath = {hooks}
    autocrlf = true
    eol = crlf
    attributesFile = {attributes}
    abbrev = 4
[commit]
    gpgSign = true
[gpg]
    program = false
[merge]
    conflictStyle = merge
    renames = false
[diff]
    noprefix = true
    external = false
    renames = false
    algorithm = histogram
    orderFile = nowhere
[apply]
    whitespace = error-all
[format]
    signOff = true
    numbered = true
    subjectPrefix = MINE
    attach = true
[i18n]
    commitEncoding = latin1
[user]
    useConfigOnly = true
[status]
    showUntrackedFiles = no
"""
NAMES = (
    "reference-transaction", "post-checkout", "pre-commit", "applypatch-msg", "post-rewrite",
)  # fmt: skip


def make_home(folder: Path) -> Path:
    """A home with a configuration that breaks naive scripts, and hooks that fail and tell."""
    hooks = folder / "hooks"
    hooks.mkdir(parents=True)
    for name in NAMES:
        (hooks / name).write_text(f"#!/bin/sh\ntouch {folder}/hook-ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    (folder / "attributes").write_text("*.c binary -diff filter=nowhere\n")
    text = CONFIG.format(hooks=hooks, attributes=folder / "attributes")
    (folder / ".gitconfig").write_text(text)
    return folder


def hostile_environment(home: Path, tmp_path: Path) -> dict[str, str]:
    other = tmp_path / "other"
    run_git(tmp_path, "init", "--quiet", "other")
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git/objects"),
        "GIT_NAMESPACE": "elsewhere",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "diff.noprefix",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_CONFIG_KEY_1": "core.autocrlf",
        "GIT_CONFIG_VALUE_1": "true",
        "GIT_CONFIG_PARAMETERS": "'commit.gpgsign=true'",
        "GIT_EXTERNAL_DIFF": "false",
        "GIT_DIFF_OPTS": "-u0",
        "GIT_AUTHOR_NAME": "Somebody Else",
        "GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2001-01-01T00:00:00Z",
        "GIT_EDITOR": "false",
        "LC_ALL": "de_DE.UTF-8",
        "TZ": "Asia/Kolkata",
    }


@pytest.fixture
def pair(upstream: Miniature, tmp_path: Path, make_lab: MakeLab) -> tuple[Lab, Lab]:
    """The same series with a kind environment and with a hostile one."""
    patches = upstream.patches("b100", OFFSET, MOVED, CLASH)
    series = write_series(tmp_path / "kind" / "series", "b100", patches)
    copy = tmp_path / "hostile" / "series"
    shutil.copytree(series, copy)
    home = make_home(tmp_path / "home")
    return (
        make_lab(series, name="kind lab"),
        make_lab(copy, name="hostile lab", **hostile_environment(home, tmp_path)),
    )


def finish(lab: Lab) -> dict[str, object]:
    """Rebase, resolve and write; what the last report says."""
    first = lab.rebase("--onto", "b200")
    assert first.code == 5, first.err
    parked = lab.parked / "clash/tree/src/delta.c"
    assert "||||||| base\n" in parked.read_text()
    parked.write_text(lines("delta", changes={15: "delta line 15 of both"}))
    words = ("--continue", "--reason", "both", "--write", "--json")
    done = lab.rebase("--onto", "b200", *words)
    assert done.code == 0, done.err
    return done.document()


def test_results_are_the_same_to_the_byte(pair: tuple[Lab, Lab], tmp_path: Path) -> None:
    kind, hostile = pair
    other = tmp_path / "other"
    before = read_folder(other)
    assert finish(hostile) == finish(kind)
    assert hostile.files() == kind.files()
    assert read_folder(other) == before
    assert not (tmp_path / "home" / "hook-ran").exists()


def test_the_hostile_home_does_break_plain_git(tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    home = make_home(tmp_path / "home")
    people = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
    names = {f"GIT_{person}": "x" for person in people}
    env = {"PATH": os.environ["PATH"], "HOME": str(home), **names}
    command = ("git", "init", "--quiet", str(tmp_path / "plain"))
    subprocess.run(command, env=env, capture_output=True, check=True)
    commit = ("git", "-C", str(tmp_path / "plain"), "commit", "--allow-empty", "-m", "x")
    assert subprocess.run(commit, env=env, capture_output=True, check=False).returncode != 0
    assert (home / "hook-ran").exists()
