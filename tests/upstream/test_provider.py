"""The choice of a source, what is remembered, and what needs no network."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.upstream.local_index import LocalIndex
from tests.upstream.packages import expected_tree, make_sdist, tree_files
from upstream.errors import EnvironmentFault, UsageError
from upstream.lab import Lab
from upstream.listing import Listing, read_listing, write_listing
from upstream.provider import Choice, Upstream, nearest, open_upstream
from upstream.version import Version

NOWHERE = "file:///nowhere/llama.cpp"
CLOSED = "http://127.0.0.1:9/simple/"


def open_auto(lab: Lab, choice: Choice = "auto") -> Upstream:
    return open_upstream(lab, choice, NOWHERE)


def forget(lab: Lab) -> None:
    for path in (lab.root / "listings").glob("*"):
        path.unlink()


def test_auto_falls_back_to_snapshots_and_says_so_once(
    lab: Lab, index: LocalIndex, messages: pytest.LogCaptureFixture
) -> None:
    upstream = open_auto(lab)
    assert upstream.head() == Version(300)
    assert upstream.versions() == [Version(100), Version(200), Version(300)]
    assert upstream.provider_name == "snapshots"
    assert [r.message.split(":")[0] for r in messages.records] == ["using snapshots"]
    assert "the git remote does not answer" in messages.text


def test_provide_imports_the_right_tree(lab: Lab, index: LocalIndex, tmp_path: Path) -> None:
    upstream = open_auto(lab)
    commit = upstream.provide(upstream.resolve("b200"))
    assert upstream.git.tree_of(commit) == expected_tree(tmp_path / "plain", tree_files(200))
    assert list(lab.downloads.iterdir()) == []


def test_imported_version_needs_no_network(lab: Lab, index: LocalIndex) -> None:
    commit = open_auto(lab).provide(Version(200))
    forget(lab)
    asked = len(index.requests)
    again = open_auto(lab)
    assert again.provide(again.resolve("b200")) == commit
    assert len(index.requests) == asked
    assert not list((lab.root / "listings").iterdir())  # the remote was not asked either


def test_warm_head_asks_nobody(lab: Lab, index: LocalIndex) -> None:
    open_auto(lab).head()
    asked = len(index.requests)
    started = time.monotonic()
    assert open_auto(lab).head() == Version(300)
    assert time.monotonic() - started < 0.1
    assert len(index.requests) == asked


def test_old_listing_is_asked_for_again(
    lab: Lab, index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_auto(lab).head()
    index.add("xllamacpp-2026.4.400.tar.gz", make_sdist("2026.4.400", tree_files(400)))
    assert open_auto(lab).head() == Version(300)
    monkeypatch.setattr("upstream.listing.KEEP_SECONDS", 0.0)
    assert open_auto(lab).head() == Version(400)


def test_version_that_came_after_the_listing_is_found(lab: Lab, index: LocalIndex) -> None:
    upstream = open_auto(lab)
    assert upstream.head() == Version(300)
    index.add("xllamacpp-2026.4.400.tar.gz", make_sdist("2026.4.400", tree_files(400)))
    assert upstream.resolve("b400") == Version(400)
    assert upstream.head() == Version(400)


def test_unknown_version_names_the_nearest(lab: Lab, index: LocalIndex) -> None:
    with pytest.raises(UsageError, match=r"b150 is not known .* b100, b200, b300"):
        open_auto(lab).resolve("b150")
    with pytest.raises(UsageError, match="not an upstream version"):
        open_auto(lab).resolve("v0.5.0")


def test_nearest_are_close_and_in_order() -> None:
    known = [Version(build) for build in (1, 50, 90, 101, 120, 999)]
    assert [each.build for each in nearest(Version(100), known)] == [50, 90, 101, 120]


def test_offline_and_empty_says_what_was_tried(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", CLOSED)
    with pytest.raises(EnvironmentFault) as caught:
        open_auto(lab).head()
    assert "the git remote does not answer: " in caught.value.what
    assert "the package index does not answer: " in caught.value.what
    assert "refused" in caught.value.what
    assert "PIP_INDEX_URL" in caught.value.remedy


def test_offline_head_is_the_newest_imported(
    lab: Lab,
    index: LocalIndex,
    messages: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for build in (100, 200):
        open_auto(lab).provide(Version(build))
    monkeypatch.setenv("PIP_INDEX_URL", CLOSED)
    forget(lab)
    messages.clear()
    upstream = open_auto(lab)
    assert upstream.resolve("HEAD") == Version(200)
    assert upstream.provider_name == "imported"
    assert "HEAD is the newest imported version, b200" in messages.text
    with pytest.raises(EnvironmentFault, match="b300 is not imported, and no source answers"):
        upstream.provide(Version(300))


def test_network_that_comes_back_is_used_at_once(
    lab: Lab, index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.files.clear()  # the index answers, but has nothing
    with pytest.raises(EnvironmentFault, match="snapshots has no version"):
        open_auto(lab).head()
    index.add("xllamacpp-2026.4.400.tar.gz", make_sdist("2026.4.400", tree_files(400)))
    assert open_auto(lab).head() == Version(400)


def test_explicit_snapshots_do_not_ask_the_remote(lab: Lab, index: LocalIndex) -> None:
    open_auto(lab, "snapshots").provide(Version(100))
    assert [path.name[:9] for path in (lab.root / "listings").iterdir()] == ["snapshots"]


def test_explicit_snapshots_never_fall_back(
    lab: Lab, index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_auto(lab).provide(Version(100))
    monkeypatch.setenv("PIP_INDEX_URL", CLOSED)
    with pytest.raises(EnvironmentFault, match="the package index does not answer"):
        open_auto(lab, "snapshots").head()


def test_remembered_failure_is_fast(
    lab: Lab, index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remote is a server that accepts and never answers."""
    import socket

    monkeypatch.setattr("upstream.provider.ASK_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/llama.cpp"
        started = time.monotonic()
        assert open_upstream(lab, "auto", url).head() == Version(300)
        assert time.monotonic() - started > 0.3
        monkeypatch.setattr("upstream.provider.ASK_SECONDS", 60.0)
        started = time.monotonic()
        assert open_upstream(lab, "auto", url).head() == Version(300)
        assert time.monotonic() - started < 0.2


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"at": "x", "failure": "", "versions": [1]}', '{"versions": null}']
)
def test_damaged_memory_is_no_memory(lab: Lab, text: str) -> None:
    path = lab.root / "listing.json"
    path.write_text(text)
    assert read_listing(path) is None


def test_listing_from_the_future_is_old(lab: Lab) -> None:
    path = lab.root / "listing.json"
    write_listing(path, Listing((Version(1),), "", time.time() + 5000))
    assert read_listing(path) is None
    write_listing(path, Listing((Version(1),), "", time.time()))
    assert read_listing(path) is not None


def test_memory_holds_no_password(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:secret@127.0.0.1:9/simple/")
    with pytest.raises(EnvironmentFault):
        open_upstream(lab, "auto", "http://me:secret@127.0.0.1:9/x").head()
    for path in (lab.root / "listings").iterdir():
        assert "secret" not in path.name + path.read_text()
        assert json.loads(path.read_text())["failure"]
