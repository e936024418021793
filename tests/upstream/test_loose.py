"""Objects that we write ourselves must be the ones that git would have written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from upstream.git import EMPTY_TREE, Git, Person
from upstream.loose import commit_body

NAMES = st.text(min_size=1, max_size=12).filter(lambda text: "\0" not in text and text.strip())
DATES = st.builds(
    "{} {}{:02d}{:02d}".format,
    st.integers(0, 4_000_000_000),
    st.sampled_from("+-"),
    st.integers(0, 13),
    st.integers(0, 59),
)


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """An empty repository of ours."""
    made = Git(tmp_path / "x.git")
    made.create()
    made.run("hash-object", "-w", "-t", "tree", "--stdin")
    return made


@given(content=st.binary(max_size=300))
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_blobs_have_gits_id_and_read_back(git: Git, content: bytes) -> None:
    name = git.write_blob(content)
    assert name == git.text("hash-object", "--stdin", stdin=content)
    assert git.read_blob(name) == content


@given(name=NAMES, email=NAMES, date=DATES, message=st.text(max_size=60))
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_commits_are_gits_commits(git: Git, name: str, email: str, date: str, message: str) -> None:
    text = message.replace("\0", "").rstrip("\n") + "\n"
    author = Person(name, email, date)
    body = commit_body(EMPTY_TREE, (), f"{name} <{email}>", "a <b>", date, text)
    if body is None:  # git has to tidy: there is only git's way then
        return
    ours = git.write_commit(EMPTY_TREE, (), author, text)
    assert ours == git._commit_tree(EMPTY_TREE, (), author, text)


@pytest.mark.parametrize("name", ["Ada.", " Ada", "A<da", "", "A\nda", "\udcff"])
def test_what_git_tidies_is_left_to_git(name: str) -> None:
    assert commit_body(EMPTY_TREE, (), f"{name} <a@b>", "a <b>", "1 +0000", "m\n") is None


def test_a_repository_with_our_objects_passes_gits_check(git: Git) -> None:
    author = Person("Ada Lovelace", "ada@example.org", "1700000000 +0130")
    first = git.write_commit(EMPTY_TREE, (), author, "first\n")
    second = git.write_commit(EMPTY_TREE, (first,), author, "second é\n\nbody\n")
    git.run("fsck", "--strict", "--full")
    assert git.read_commit(second).parents == (first,)
    assert [path.name for path in git.directory.rglob("tmp_obj_*")] == []
