"""Lookups of pull requests against a real local HTTP server: every fault is a reason, no error."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from series.model import Landed
from series.pull_request import (
    FRESH_SECONDS,
    NotChecked,
    PullRequest,
    PullRequests,
    Reference,
    find_references,
    list_references,
    parse_reference,
)
from tests.series.local_api import PATH, LocalApi, serve_api
from upstream.lab import Lab
from upstream.version import Version

COMMIT = "ab" * 20
TOKEN = "ghp_very-secret"
UPSTREAM = "ggml-org/llama.cpp"


@pytest.fixture
def api() -> Iterator[LocalApi]:
    with serve_api() as served:
        yield served


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    return Lab(tmp_path / "lab")


def age(lab: Lab, seconds: float = FRESH_SECONDS + 1) -> None:
    """Make what is remembered older."""
    for path in (lab.root / "pull-requests").iterdir():
        document = json.loads(path.read_text())
        document["pull"]["checked"] -= seconds
        path.write_text(json.dumps(document))


def reason(api: LocalApi, lab: Lab, text: str = "#7") -> str:
    found = PullRequests(lab, api.url).look_up(text)
    assert isinstance(found, NotChecked)
    return found.reason


def test_merged_pull_request_is_read_with_one_get(api: LocalApi, lab: Lab) -> None:
    api.add(27449, title="vulkan : fix  iq3_s", merged=COMMIT)
    found = PullRequests(lab, api.url).look_up("ggml-org/llama.cpp#27449")
    assert isinstance(found, PullRequest)
    assert (found.state, found.merge_commit, found.title) == (
        "merged",
        COMMIT,
        "vulkan : fix iq3_s",
    )
    assert found.describe() == (
        "ggml-org/llama.cpp#27449 merged as abababababab on 2026-08-01: vulkan : fix iq3_s"
    )
    (asked,) = api.asked
    assert (asked.method, asked.path) == ("GET", PATH.format(27449))
    assert "Authorization" not in asked.headers


@pytest.mark.parametrize(
    ("more", "state"), [({}, "open"), ({"state": "closed"}, "closed"), ({"draft": True}, "open")]
)
def test_what_is_not_merged_has_no_merge_commit(
    api: LocalApi, lab: Lab, more: dict[str, object], state: str
) -> None:
    api.add(5, **more)
    found = PullRequests(lab, api.url).look_up("#5")
    assert isinstance(found, PullRequest)
    assert (found.state, found.merge_commit) == (state, "")


def test_young_answer_is_not_asked_for_again_and_an_old_one_by_its_etag(
    api: LocalApi, lab: Lab
) -> None:
    api.add(5)
    for _ in range(2):
        PullRequests(lab, api.url).look_up("#5")
    assert len(api.asked) == 1
    age(lab)
    found = PullRequests(lab, api.url).look_up("#5")
    assert api.asked[1].headers["If-None-Match"] == '"5"'
    assert isinstance(found, PullRequest)
    assert (found.note, time.time() - found.checked < 60) == ("", True)
    PullRequests(lab, api.url).look_up("#5")
    assert len(api.asked) == 2


def test_rate_limit_says_when_it_ends_and_asks_no_more(api: LocalApi, lab: Lab) -> None:
    api.answer(7, 403, b"{}", X_RateLimit_Remaining="0", X_RateLimit_Reset="1800000000")
    lookups = PullRequests(lab, api.url)
    first, second = lookups.look_up("#7"), lookups.look_up("#8")
    words = "rate limit of the API reached, free again at 08:00:00 UTC; a token in GITHUB_TOKEN"
    assert words in first.describe()
    assert words in second.describe()
    assert len(api.asked) == 1


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (429, {"Retry_After": "60"}, "rate limit of the API reached, free again in 60 s"),
        (429, {"Retry_After": "Fri, 01 Jan"}, "rate limit of the API reached;"),
        (403, {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "soon"}, "reached;"),
        (403, {}, "the API refuses (403)"),
        (401, {}, "refuses the token"),
        (404, {}, "no such pull request"),
        (503, {}, "the API answers 503"),
        (301, {"Location": "https://elsewhere.example/x"}, "another host, elsewhere.example"),
        (301, {"Location": PATH.format(7)}, "more than 3 times"),
        (301, {}, "more than 3 times"),
    ],
)
def test_refusals_are_reasons(
    api: LocalApi, lab: Lab, status: int, headers: dict[str, str], words: str
) -> None:
    api.answer(7, status, b"{}", **headers)
    assert words in reason(api, lab)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>login</html>", b"[]", b"{}", b"\xff", b'{"number": 7}', b"[" * 100_000,
     b'{"number": 8, "title": "t", "state": "open", "merged_at": null, "merge_commit_sha": ""}',
     b'{"number": 7, "title": "t", "state": "odd", "merged_at": null, "merge_commit_sha": ""}'],
)  # fmt: skip
def test_malformed_answers_are_reasons(api: LocalApi, lab: Lab, body: bytes) -> None:
    api.answer(7, body=body)
    assert "no pull request" in reason(api, lab)


def test_endless_answer_is_cut(api: LocalApi, lab: Lab) -> None:
    api.answer(7, body=b" " * 5_000_000)
    assert "too long" in reason(api, lab)


def test_renamed_repository_is_followed_on_the_same_host(api: LocalApi, lab: Lab) -> None:
    api.add(7)
    api.answers["/repositories/1/pulls/7"] = api.answers[PATH.format(7)]
    api.answer(7, 301, Location="/repositories/1/pulls/7")
    assert isinstance(PullRequests(lab, api.url).look_up("#7"), PullRequest)


def test_offline_is_said_and_old_knowledge_stays(api: LocalApi, lab: Lab) -> None:
    api.add(5, merged=COMMIT)
    PullRequests(lab, api.url).look_up("#5")
    age(lab)
    gone = PullRequests(lab, api.url)
    api.answer(5, 503)
    found = gone.look_up("#5")
    assert isinstance(found, PullRequest)
    assert (found.state, found.note) == ("merged", "not checked: the API answers 503")
    assert "known since" in found.describe()
    nowhere = PullRequests(lab, "http://127.0.0.1:9")
    assert "offline: 127.0.0.1 does not answer" in nowhere.look_up("#5").describe()


@pytest.mark.parametrize("content", ["", "[]", '{"etag": "x", "pull": {"odd": 1}}', "\0"])
def test_rotten_memory_is_forgotten(api: LocalApi, lab: Lab, content: str) -> None:
    api.add(5)
    PullRequests(lab, api.url).look_up("#5")
    for path in (lab.root / "pull-requests").iterdir():
        path.write_text(content)
    assert isinstance(PullRequests(lab, api.url).look_up("#5"), PullRequest)
    assert len(api.asked) == 2


def test_memory_that_cannot_be_written_ends_nothing(api: LocalApi, lab: Lab) -> None:
    api.add(5)
    lab.root.mkdir()
    (lab.root / "pull-requests").write_text("a file is in the way")
    assert isinstance(PullRequests(lab, api.url).look_up("#5"), PullRequest)


@pytest.mark.parametrize("token", [TOKEN, f"  {TOKEN}\n"])
def test_token_is_sent_and_kept_nowhere(
    api: LocalApi, lab: Lab, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    api.add(5)
    api.answer(6, 401)
    lookups = PullRequests(lab, api.url, token)
    said = [lookups.look_up(text).describe() for text in ("#5", "#6", "#7")]
    assert api.asked[0].headers["Authorization"] == f"Bearer {TOKEN}"
    kept = b"".join(p.read_bytes() for p in lab.root.rglob("*") if p.is_file())
    assert kept
    assert TOKEN.encode() not in kept
    assert TOKEN not in f"{said} {caplog.text} {lookups!r} {vars(lookups)!r}"


@pytest.mark.parametrize("token", ["two\nlines-secret", "secret\u00e9", "a secret"])
def test_token_that_no_header_can_hold_is_not_used(api: LocalApi, lab: Lab, token: str) -> None:
    api.add(5)
    found = PullRequests(lab, api.url, token).look_up("#5")
    assert isinstance(found, PullRequest)
    assert "Authorization" not in api.asked[0].headers


def test_token_is_not_sent_in_the_clear_and_netrc_never(
    api: LocalApi, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from requests import PreparedRequest

    from series.github import Bearer

    far = PreparedRequest()
    far.prepare("GET", "http://api.example/x", auth=Bearer(TOKEN))
    assert "Authorization" not in (far.headers or {})
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    api.add(5)
    PullRequests(lab, api.url).look_up("#5")
    assert "Authorization" not in api.asked[0].headers


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ggml-org/llama.cpp#27449", Reference(UPSTREAM, 27449)),
        (" #7 ", Reference(UPSTREAM, 7)),
        ("https://github.com/ggml-org/llama.cpp/pull/7", Reference(UPSTREAM, 7)),
        ("https://github.com/ggml-org/llama.cpp/pull/7/", Reference(UPSTREAM, 7)),
        ("https://elsewhere.example/ggml-org/llama.cpp/pull/7", None),
        ("../x#7", None),
        ("x/..#7", None),
        ("commit 1234abcd", None),
        ("#", None),
        ("", None),
    ],
)
def test_references(text: str, wanted: Reference | None) -> None:
    assert parse_reference(text) == wanted


def test_no_pull_request_is_said_without_asking(api: LocalApi, lab: Lab) -> None:
    assert "names no pull request" in reason(api, lab, "1234abcd")
    assert api.asked == []


def test_trailers_are_read_from_the_last_paragraph_alone() -> None:
    message = (
        "subject\n\nUpstream-PR: #1 is only mentioned here.\n\n"
        "Upstream-PR: ggml-org/llama.cpp#2\nSigned-off-by: A <a@b>\nupstream-pr: #3\n"
        "Upstream-PR: ggml-org/llama.cpp#2\n"
    )
    assert find_references(message) == ("ggml-org/llama.cpp#2", "#3")
    assert find_references("subject\n") == ()
    record = Landed("t", "p.patch", "#9", Version(1), "e")
    assert list_references(message, record) == ("ggml-org/llama.cpp#2", "#3", "#9")
