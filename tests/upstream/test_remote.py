"""The git remote, as a real repository behind file://."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.upstream.local_index import LocalIndex
from tests.upstream.packages import run_git, tree_files
from upstream.errors import CommandError, CommandFailure, EnvironmentFault
from upstream.git import Git
from upstream.lab import Lab
from upstream.provider import Upstream, open_upstream
from upstream.remote import last_words
from upstream.version import Version


def commit_build(folder: Path, build: int) -> None:
    for name, content in tree_files(build).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-q", "-m", f"build {build}")


@pytest.fixture
def upstream_repository(tmp_path: Path) -> Path:
    """Three commits; b100 and b200 carry the files of the packages, b200 is an annotated tag."""
    folder = tmp_path / "upstream repo"
    folder.mkdir()
    run_git(folder, "init", "-q", "-b", "master")
    run_git(folder, "config", "core.autocrlf", "false")
    commit_build(folder, 100)
    run_git(folder, "tag", "b100")
    commit_build(folder, 150)
    commit_build(folder, 200)
    run_git(folder, "tag", "-a", "-m", "release", "b200")
    for name in ("v0.5.0", "b0100", "backup", "b12x"):
        run_git(folder, "tag", name)
    return folder


@pytest.fixture
def remote(lab: Lab, upstream_repository: Path) -> Upstream:
    return open_upstream(lab, "remote", upstream_repository.as_uri())


def test_build_tags_are_the_versions(remote: Upstream) -> None:
    assert remote.versions() == [Version(100), Version(200)]
    assert remote.head() == Version(200)
    assert remote.provider_name == "remote"


def test_true_commit_comes_with_its_history(remote: Upstream, upstream_repository: Path) -> None:
    commit = remote.provide(Version(200))
    assert commit == run_git(upstream_repository, "rev-parse", "b200^{commit}")
    assert remote.git.text("rev-list", "--count", commit) == "3"
    assert remote.git.resolve(Version(200).ref) == commit
    assert list(remote.git.list_refs("refs/")) == [Version(200).ref]


def test_imported_version_needs_no_remote(
    remote: Upstream, lab: Lab, upstream_repository: Path
) -> None:
    commit = remote.provide(Version(100))
    upstream_repository.rename(upstream_repository.with_name("away"))
    again = open_upstream(lab, "remote", upstream_repository.as_uri())
    assert again.provide(again.resolve("b100")) == commit


def test_shallow_remote_is_refused(lab: Lab, tmp_path: Path, upstream_repository: Path) -> None:
    shallow = tmp_path / "shallow"
    url = upstream_repository.as_uri()
    run_git(tmp_path, "clone", "-q", "--depth=1", "--branch=b200", url, os.fspath(shallow))
    upstream = open_upstream(lab, "remote", shallow.as_uri())
    with pytest.raises(EnvironmentFault, match="shallow clone") as caught:
        upstream.provide(upstream.head())
    assert "--unshallow" in caught.value.remedy
    assert upstream.git.list_refs("refs/tags") == {}
    assert not (lab.repository / "shallow").exists()


def test_snapshots_give_way_to_true_commits(
    lab: Lab, index: LocalIndex, upstream_repository: Path
) -> None:
    snapshots = open_upstream(lab, "snapshots", None)
    for build in (100, 200, 300):
        snapshots.provide(Version(build))
    remote = open_upstream(lab, "remote", upstream_repository.as_uri())
    true = remote.provide(Version(200))
    held = remote.imported()
    assert [each.origin for each in held.values()] == ["remote", "remote", "xllamacpp 2026.3.300"]
    assert remote.git.walk(held[Version(100)].commit, true)[-1] == true
    assert remote.git.read_commit(held[Version(300)].commit).parents == ()
    # and a run that prefers snapshots keeps the true commit
    assert open_upstream(lab, "snapshots", None).provide(Version(200)) == true


def test_snapshot_that_is_not_upstreams_tree_is_an_error(
    lab: Lab, index: LocalIndex, upstream_repository: Path
) -> None:
    (upstream_repository / "extra").write_text("in no package")
    run_git(upstream_repository, "add", "-A")
    run_git(upstream_repository, "commit", "-q", "-m", "other")
    run_git(upstream_repository, "tag", "-f", "b100")
    snapshot = open_upstream(lab, "snapshots", None).provide(Version(100))
    remote = open_upstream(lab, "remote", upstream_repository.as_uri())
    with pytest.raises(EnvironmentFault, match="b100 from the git remote has tree"):
        remote.provide(Version(100))
    assert remote.git.resolve(Version(100).ref) == snapshot


def test_explicit_remote_never_falls_back(lab: Lab, index: LocalIndex, tmp_path: Path) -> None:
    open_upstream(lab, "snapshots", None).provide(Version(100))
    upstream = open_upstream(lab, "remote", (tmp_path / "nowhere").as_uri())
    with pytest.raises(EnvironmentFault, match="the git remote does not answer"):
        upstream.head()


def test_path_relative_to_the_callers_folder(
    lab: Lab, upstream_repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(upstream_repository.parent)
    assert open_upstream(lab, "remote", upstream_repository.name).head() == Version(200)


def test_hooks_and_settings_of_the_user_do_not_matter(
    remote: Upstream, upstream_repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, witness = tmp_path / "home", tmp_path / "witness"
    home.mkdir()
    hook = home / "reference-transaction"
    hook.write_text(f"#!/bin/sh\necho ran >> '{witness}'\n")
    hook.chmod(0o755)
    config = f'[core]\n hooksPath = "{home}"\n autocrlf = true\n[fetch]\n prune = true\n'
    (home / ".gitconfig").write_text(config + "[remote]\n pushDefault = x\n")
    monkeypatch.setenv("HOME", os.fspath(home))
    commit = remote.provide(Version(200))
    assert commit == run_git(upstream_repository, "rev-parse", "b200^{commit}")
    assert not witness.exists()


def test_a_password_in_an_address_is_not_repeated() -> None:
    said = "fatal: unable to access 'https://me:secret@localhost/x/': no"
    text = last_words(CommandError(CommandFailure(("git",), 128, said)))
    assert "secret" not in text
    assert "localhost/x/" in text


def test_tag_that_names_no_commit(lab: Lab, git: Git, upstream_repository: Path) -> None:
    blob = run_git(upstream_repository, "rev-parse", "b100:README.md")
    run_git(upstream_repository, "tag", "b900", blob)
    upstream = open_upstream(lab, "remote", upstream_repository.as_uri())
    with pytest.raises(EnvironmentFault, match="b900 names no commit"):
        upstream.provide(Version(900))
