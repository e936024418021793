"""The search for pull requests against a real local HTTP server: GET only, and never a crash."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from upstream.errors import EnvironmentFault
from validate.export.search import PullRequestSearch
from validate.policy import Search

FOUND = {"total_count": 7, "items": [{"number": 12, "title": "vulkan :  pad\n"}]}


@dataclass
class Api:
    """What the server answers, and what it was asked: method, query, authorization."""

    url: str = ""
    status: int = 200
    body: bytes = json.dumps(FOUND).encode()
    asked: list[tuple[str, str, str]] = field(default_factory=list)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "GITHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    served = Api()

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            query = parse_qs(urlsplit(self.path).query)["q"][0]
            served.asked.append((self.command, query, self.headers.get("Authorization", "")))
            self.send_response(served.status)
            self.send_header("Content-Length", str(len(served.body)))
            self.end_headers()
            self.wfile.write(served.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield served
    server.shutdown()
    server.server_close()


def test_a_query_is_asked_once_with_get(api: Api) -> None:
    search = PullRequestSearch(api.url, token="secret")
    assert search("is:pr is:open pad") == Search(7, ("#12 vulkan : pad",))
    assert search("is:pr is:open pad").total == 7
    assert api.asked == [("GET", "repo:ggml-org/llama.cpp is:pr is:open pad", "Bearer secret")]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (403, b"{}", r"the API refuses \(403\)"),
        (500, b"", r"the API refuses \(500\)"),
        (302, b"", r"the API refuses \(302\)"),
        (200, b"<html>", "no search result"),
        (200, b"[]", "no search result"),
        (200, b'{"total_count": 1, "items": [{}]}', "no search result"),
    ],
)
def test_after_a_failure_nothing_is_asked_any_more(
    api: Api, status: int, body: bytes, said: str
) -> None:
    api.status, api.body = status, body
    search = PullRequestSearch(api.url, token="")
    for query in ("one", "two"):
        with pytest.raises(EnvironmentFault, match=said):
            search(query)
    assert [method for method, _, _ in api.asked] == ["GET"]


def test_offline_is_said_without_the_token(api: Api) -> None:
    gone = PullRequestSearch("http://127.0.0.1:1", token="secret")
    with pytest.raises(EnvironmentFault, match=r"offline: 127\.0\.0\.1") as caught:
        gone("one")
    assert "secret" not in str(caught.value)
