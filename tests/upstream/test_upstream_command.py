"""The command line: results on stdout, messages on stderr, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.upstream.commands import NOWHERE, ROOT, fetch, run, start
from tests.upstream.local_index import LocalIndex
from tests.upstream.packages import expected_tree, run_git, tree_files
from upstream.lab import Lab


def test_fetch_and_list(index: LocalIndex, tmp_path: Path) -> None:
    (fetched,) = fetch("b200")
    assert fetched["tree"] == expected_tree(tmp_path / "plain", tree_files(200))
    assert fetched["sha256"] == index.hashes["xllamacpp-2026.2.200.tar.gz"]
    listed = run("list", "--upstream", "snapshots")
    assert listed.returncode == 0
    lines = [line.split() for line in listed.stdout.splitlines()[1:]]
    assert lines[0] == ["b100", "not", "imported"]
    assert lines[1] == [
        "b200",
        "xllamacpp",
        "2026.2.200",
        fetched["commit"][:12],
        fetched["tree"][:12],
    ]


def test_fetch_takes_the_newest(index: LocalIndex) -> None:
    done = run("fetch", "--remote", NOWHERE)
    assert done.returncode == 0
    assert "b300" in done.stdout
    assert "the git remote does not answer" in done.stderr
    assert "the git remote" not in done.stdout


def test_fetch_all(index: LocalIndex) -> None:
    fetched = fetch("--all")
    assert [each["version"] for each in fetched] == ["b100", "b200", "b300"]
    listed = json.loads(run("list", "--json", "--upstream", "snapshots").stdout)
    assert listed["source"] == "snapshots"
    assert listed["versions"] == fetched


def test_all_of_a_git_remote_is_too_much(index: LocalIndex, tmp_path: Path) -> None:
    expected_tree(tmp_path / "repo", tree_files(1))
    run_git(tmp_path / "repo", "commit", "-q", "-m", "one")
    run_git(tmp_path / "repo", "tag", "b1")
    done = run("fetch", "--all", "--remote", (tmp_path / "repo").as_uri())
    assert done.returncode == 2
    assert "name those you need" in done.stderr


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("fetch", "b150"), 2, "nearest: b100, b200, b300"),
        (("fetch", "v0.5.0"), 2, "not an upstream version"),
        (("fetch", "b100", "--all"), 2, "exclude each other"),
        ((), 2, "COMMAND"),
    ],
)
def test_wrong_use(index: LocalIndex, args: tuple[str, ...], code: int, said: str) -> None:
    done = run(*args, *(("--upstream", "snapshots") if args else ()))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_offline_with_an_empty_cache() -> None:
    env = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple/"}
    done = run("fetch", "--remote", NOWHERE, env=env)
    assert (done.returncode, done.stdout) == (3, "")
    assert "the git remote does not answer" in done.stderr
    assert "the package index does not answer" in done.stderr
    assert "next: check the network" in done.stderr


def test_hostile_git_environment_of_the_caller(index: LocalIndex, tmp_path: Path) -> None:
    """A hook exports GIT_DIR and GIT_INDEX_FILE; the user's settings change what git stores."""
    mine, home, witness = tmp_path / "mine", tmp_path / "home", tmp_path / "witness"
    expected_tree(mine, {"file": b"of the user\n"})
    home.mkdir()
    for name in ("reference-transaction", "post-index-change"):
        (home / name).write_text(f"#!/bin/sh\necho {name} >> '{witness}'\n")
        (home / name).chmod(0o755)
    settings = "autocrlf = true\n eol = crlf\n fileMode = false\n symlinks = false\n"
    (home / ".gitconfig").write_text(f'[core]\n hooksPath = "{home}"\n {settings}')
    index_before = (mine / ".git" / "index").read_bytes()
    env = {
        "HOME": os.fspath(home),
        "GIT_DIR": os.fspath(mine / ".git"),
        "GIT_WORK_TREE": os.fspath(mine),
        "GIT_INDEX_FILE": os.fspath(mine / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": os.fspath(mine / ".git" / "objects"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": os.fspath(home),
    }
    (fetched,) = fetch("b100", env=env)
    assert fetched["tree"] == expected_tree(tmp_path / "plain", tree_files(100))
    assert not witness.exists()
    assert run_git(mine, "for-each-ref") == ""
    assert (mine / ".git" / "index").read_bytes() == index_before


def test_two_runs_at_once_import_once(index: LocalIndex, lab: Lab) -> None:
    args = ("fetch", "--json", "--upstream", "snapshots", "--all")
    children = [start(*args) for _ in range(2)]
    outputs = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    for name in ("xllamacpp-2026.1.100.tar.gz", "xllamacpp-2026.3.300.tar.gz"):
        assert index.downloads(name) == [""]


def test_reader_that_goes_away_is_no_crash(index: LocalIndex, lab: Lab) -> None:
    child = start("list", "--json", "--upstream", "snapshots")
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    assert "error" not in child.stderr.read()
    assert child.wait() == 141
    assert not lab.logs.exists()


def test_warm_listing_loads_no_index_client(index: LocalIndex) -> None:
    """Reading an index takes 0.4 s to import, a warm command must not pay for it."""
    run("list", "--upstream", "snapshots")
    script = (
        "import sys; from upstream.lab import open_lab; from upstream.provider import *; "
        "open_upstream(open_lab(), 'snapshots', None).head(); "
        "print([m for m in ('requests', 'pypi_simple') if m in sys.modules])"
    )
    done = subprocess.run(
        (sys.executable, "-c", script), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
