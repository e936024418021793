"""A local package index (PEP 691 JSON) on the loopback, with the faults that real ones have.

It is a real HTTP server; only the index and the packages it serves are made up.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

JSON = "application/vnd.pypi.simple.v1+json"


@dataclass
class LocalIndex:
    """The served files and how the server misbehaves.

    `cut_after` ends the connection after so many bytes of a body, `cuts` times; `ignore_range`
    always answers with the whole file; `status` answers every file with an error; `pause` is a
    delay in seconds after each 16 KiB.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    dates: dict[str, str] = field(default_factory=dict)
    cut_after: int = 0
    cuts: int = 0
    ignore_range: bool = False
    status: int = 200
    pause: float = 0.0
    port: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/simple/"

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/files/{name}"

    def add(self, name: str, content: bytes, date: str = "2026-10-10T15:54:57.042696Z") -> None:
        self.files[name] = content
        self.hashes[name] = sha256(content).hexdigest()
        self.dates[name] = date

    def downloads(self, name: str) -> list[str]:
        """The Range headers of the requests for one file."""
        return [ranges for path, ranges in self.requests if path == f"/files/{name}"]

    def page(self) -> bytes:
        files = [
            {
                "filename": name,
                "url": f"/files/{name}",
                "hashes": {"sha256": self.hashes[name]},
                "size": len(content),
                "upload-time": self.dates[name],
            }
            for name, content in self.files.items()
        ]
        document = {"meta": {"api-version": "1.1"}, "name": "xllamacpp", "files": files}
        return json.dumps({**document, "versions": []}).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    index: LocalIndex

    def do_GET(self) -> None:
        self.index.requests.append((self.path, self.headers.get("Range", "")))
        if self.path == "/simple/xllamacpp/":
            self._send(200, self.index.page(), {"Content-Type": JSON})
        elif self.path.removeprefix("/files/") in self.index.files:
            self._send_file(self.index.files[self.path.removeprefix("/files/")])
        else:
            self._send(404, b"no such thing", {})

    def _send_file(self, content: bytes) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(wanted[1]) if wanted and not self.index.ignore_range else 0
        if self.index.status != 200:
            self._send(self.index.status, b"sorry", {})
        elif start >= len(content):
            self._send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        elif start:
            place = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self._send(206, content[start:], {"Content-Range": place})
        else:
            self._send(200, content, {})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.index.cuts > 0 and self.path.startswith("/files/"):
            self.index.cuts -= 1
            body, self.close_connection = body[: self.index.cut_after], True
        for at in range(0, len(body), 1 << 14):
            self.wfile.write(body[at : at + (1 << 14)])
            time.sleep(self.index.pause if self.path.startswith("/files/") else 0)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A killed client is what these tests are about."""


@contextmanager
def serve_index() -> Iterator[LocalIndex]:
    index = LocalIndex()
    handler = type("Handler", (_Handler,), {"index": index})
    with _QuietServer(("127.0.0.1", 0), handler) as server:
        index.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield index
        server.shutdown()
        thread.join()
