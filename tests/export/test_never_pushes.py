"""Nothing is ever pushed or posted: a remote sees only reads, and no code could send."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import series.__main__
import upstream.__main__
from tests.export.conftest import MakeExporter
from tests.export.smart_git import SmartGit, serve_git
from tests.series.lab import ROOT
from tests.series.miniature import OFFSET, STEADY, create_upstream, lines, run_git

TOPICS = {"one": ((), ["steady.patch"]), "two": ((), ["offset.patch"])}
PACKAGES = ("upstream", "series", "validate", "ci")
# git commands that send something to somebody.
SENDING = {"push", "send-email", "send-pack", "request-pull", "http-push", "imap-send", "svn", "p4"}
PROGRAMS = {"gh", "hub", "glab", "curl", "wget", "ssh", "scp", "sendmail", "mail", "mutt"}
MODULES = {"smtplib", "ftplib", "xmlrpc", "paramiko", "httpx", "aiohttp"}
WRITING = {"post", "put", "patch", "delete"}
# Where processes may be started: the one module of the tool, the script that holds a lock for
# ninja, what installs the environment, and the patches' own checks, programs of their own.
# the last runs in place of glslc, by itself
STARTERS = (
    "upstream/process.py",
    "validate/hold_and_run.py",
    "ci/",
    "series/checks/",
    "validate/vulkan/spirv_cache.py",
)


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmartGit]:
    """An upstream of two versions behind HTTP that would take a push from anybody."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    mini = create_upstream(tmp_path / "up.git")
    mini.release("b100", {f"src/{name}.c": lines(name) for name in ("alpha", "gamma")})
    mini.release("b200", {"src/alpha.c": "new\n" + lines("alpha")})
    mini.git("config", "http.receivepack", "true")
    with serve_git(mini.path) as served:
        yield served


def writes(served: SmartGit) -> list[tuple[str, str]]:
    """The requests that are no reads; fetching posts what it wants to git-upload-pack."""
    reads = [("GET", r".*/info/refs\?service=git-upload-pack"), ("POST", r".*/git-upload-pack")]
    return [
        (method, path)
        for method, path in served.requests
        if not any(method == m and re.fullmatch(p, path) for m, p in reads)
    ]


def test_a_remote_sees_only_reads(
    remote: SmartGit, make_exporter: MakeExporter, tmp_path: Path
) -> None:
    mini = create_upstream(tmp_path / "writer.git")
    run_git(mini.path, "fetch", "--quiet", str(remote.repository), "refs/tags/*:refs/tags/*")
    exporter = make_exporter(mini.patches("b100", STEADY, OFFSET), TOPICS, remote=remote.url)
    before = run_git(remote.repository, "for-each-ref")
    where = ["--upstream", "remote", "--remote", remote.url]
    run_parser(upstream.__main__, ["fetch", *where, "b100"])
    in_series = ["rebase", *where, "--series", str(exporter.series), "--onto"]
    run_parser(series.__main__, [*in_series, "b200"])
    assert exporter.run(onto="HEAD")[0] == 0
    assert exporter.refs()["refs/heads/pr/two"]
    assert remote.requests
    assert writes(remote) == []
    assert run_git(remote.repository, "for-each-ref") == before
    # The record can fail: a real push shows in it, and succeeds.
    own = str(exporter.lab / "lab.git")
    command = ("git", "-C", own, "push", "--quiet", remote.url, "pr/two:refs/heads/planted")
    subprocess.run(command, check=True, capture_output=True)
    assert ("POST", "/up.git/git-receive-pack") in writes(remote)
    assert run_git(remote.repository, "for-each-ref") != before


def run_parser(module: object, args: Sequence[str]) -> None:
    make = getattr(module, "build_parser", None) or module.make_parser  # type: ignore[attr-defined]
    parsed = make().parse_args(args)
    assert parsed.run(parsed) == 0


# These ask a llama-server that they started, on the loopback.
OWN_SERVERS = (
    "series/checks/spec_draft_length.py",
    "series/checks/spec_adaptive_server.py",
    "validate/speculation/client.py",
)


def find_senders(name: str, source: str) -> Iterator[str]:
    """Places in a module that send, or could: one message each."""
    for node in ast.walk(ast.parse(source)):
        for fault in _judge_node(name, node):
            yield f"{name}:{getattr(node, 'lineno', 0)}: {fault}"


def _judge_node(name: str, node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from _judge_modules(name, [alias.name for alias in names])
        case ast.ImportFrom(module=str(module)):
            yield from _judge_modules(name, [module])
        case ast.Call(func=ast.Attribute(attr=attr), args=args):
            yield from _judge_call(name, attr, _words(args))
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            words = _words(elts)
            yield from (word for word in words[:1] if word in PROGRAMS)
            yield from (f"git {w}" for w in words if words[0] == "git" and w in SENDING)


def _judge_modules(name: str, modules: Sequence[str]) -> Iterator[str]:
    for module in modules:
        top = module.split(".")[0]
        if top in MODULES:
            yield f"import {module}"
        if top in ("subprocess", "pty") and not name.startswith(STARTERS):
            yield f"import {module} outside {', '.join(STARTERS)}"


def _judge_call(name: str, attr: str, words: Sequence[str]) -> Iterator[str]:
    own_server = name in OWN_SERVERS
    sends = attr in WRITING | {"push", "urlopen", "popen", "create_remote"}
    if sends and not (own_server and attr == "post"):
        yield f".{attr}(...)"
    if attr == "system" and words != [""]:  # platform.system() takes nothing
        yield ".system(...)"
    if attr in ("run", "text", "feed", "execute") and words and words[0] in SENDING:
        yield f"git {words[0]}"
    if attr == "request" and words and words[0] not in ("GET", "HEAD") and not own_server:
        yield f".request({words[0]!r})"


def _words(nodes: Sequence[ast.expr]) -> list[str]:
    """Constant strings; anything else stands as an empty one."""
    return [str(n.value) if isinstance(n, ast.Constant) else "" for n in nodes] or [""]


def modules() -> list[Path]:
    found = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return [*found, ROOT / "noxfile.py"]


def test_no_module_sends() -> None:
    assert len(modules()) > 150
    found = [
        fault
        for path in modules()
        for fault in find_senders(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    ]
    assert found == []


def test_no_script_or_workflow_sends() -> None:
    sends = re.compile(r"git\s+(-\S+\s+)*(push|send-email|request-pull)|\bgh\s+\w|-X\s*P(OST|UT)")
    scripts = [path for path in (ROOT / "ci").rglob("*") if path.is_file()]
    assert len(scripts) > 2
    for path in scripts:
        assert not sends.search(path.read_text("utf-8", "replace")), path
    assert sends.search("run: git push origin HEAD")
    assert sends.search("gh pr create --fill")


@pytest.mark.parametrize(
    "planted",
    [
        "git.run('push', url, 'main')",
        "self.git.text('send-email', path)",
        "process.run(('git', '--git-dir=x', 'push', url))",
        "command = ['gh', 'pr', 'create']",
        "repo.remotes.origin.push()",
        "requests.post(url, json={})",
        "session.patch(url)",
        "session.request('POST', url)",
        "import smtplib",
        "import subprocess",
        "os.system('git push')",
        "urllib.request.urlopen(url, data=b'x')",
    ],
)
def test_the_search_finds_what_is_planted(planted: str) -> None:
    assert list(find_senders("validate/planted.py", planted))
