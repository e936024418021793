"""A local stand-in for GitHub's REST API: a real HTTP server that records every request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

PATH = "/repos/ggml-org/llama.cpp/pulls/{}"


class Asked(NamedTuple):
    """One request: method, path, its headers."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class LocalApi:
    """Answers by path: status, headers, body. Any other path is a 404."""

    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, number: int, status: int = 200, body: bytes = b"", **headers: str) -> None:
        """Fix the answer for one pull request; header names with _ for -."""
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        self.answers[PATH.format(number)] = (status, named, body)

    def add(
        self, number: int, *, title: str = "vulkan : a fix", merged: str = "", **more: object
    ) -> None:
        """A pull request; `merged` is the merge commit."""
        table = {
            "number": number,
            "state": "closed" if merged else "open",
            "title": title,
            "merged_at": "2026-08-01T10:00:00Z" if merged else None,
            "merge_commit_sha": merged or "f" * 40,
        }
        body = json.dumps(table | more).encode()
        self.answer(number, body=body, ETag=f'"{number}"')


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: LocalApi

    def handle_any(self) -> None:
        self.api.asked.append(Asked(self.command, self.path, dict(self.headers)))
        status, headers, body = self.api.answers.get(self.path, (404, {}, b"{}"))
        if headers.get("ETag") and self.headers.get("If-None-Match") == headers["ETag"]:
            status, body = 304, b""
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = handle_any

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@contextmanager
def serve_api() -> Iterator[LocalApi]:
    """Serve until the block ends, then check that all requests only read."""
    api = LocalApi()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    api.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert {each.method for each in api.asked} <= {"GET"}
