"""A git server over HTTP on the loopback that keeps a record of every request.

It is git's own `git http-backend`, with receive-pack switched on: a push would succeed, and show.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from upstream.git_settings import clean_environment


@dataclass
class SmartGit:
    """The served repository and the requests so far: method, path with query."""

    repository: Path
    port: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.repository.name}"


@contextmanager
def serve_git(repository: Path) -> Iterator[SmartGit]:
    """Serve a bare repository until the block ends."""
    served = SmartGit(repository)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body: bytes) -> None:
            served.requests.append((self.command, self.path))
            head, content = _run_backend(self, repository, body)
            status = next((v for k, v in head if k == "Status"), "200 OK")
            self.send_response(int(status.split()[0]))
            for name, value in head:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _run_backend(
    handler: BaseHTTPRequestHandler, repository: Path, body: bytes
) -> tuple[list[tuple[str, str]], bytes]:
    path, _, query = handler.path.partition("?")
    env = clean_environment(
        {
            "GIT_PROJECT_ROOT": os.fspath(repository.parent),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": handler.command,
            "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "anyone",
        }
    )
    # gzip bodies are unpacked by the backend; the length is that of what we hand over.
    env["CONTENT_LENGTH"] = str(len(body))
    done = subprocess.run(
        ("git", "http-backend"), input=body, env=env, capture_output=True, check=False
    )
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    pairs = (line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
    return [(name, value) for name, value in pairs], content
