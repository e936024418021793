"""A llama-server that runs for as long as a block does."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from upstream import process
from upstream.errors import CommandFailure, EnvironmentFault, describe_failure
from validate.room import clean

HOST = "127.0.0.1"
HEALTH_SECONDS = 600.0
POLL = 0.1
ENVIRONMENT = {"GGML_NO_BACKTRACE": "1"}  # a debugger attached to an abort takes long
# What the server says, and what to do about it; the first words that occur decide.
REMEDIES = {
    "requires an initialized speculative": "name a drafter with --drafter",
    "n_min <= n_max": "lower --n-min, or name longer --lengths",
    "vocab": "name a drafter made for this target: both must share one vocabulary",
    "spec-synth-rates": "name one rate for each position up to the longest draft",
    "synth": "name one rate for each position up to the longest draft that this drafter makes",
    "MTP layers": "name a target with an MTP head, or another type of drafter",
    "MTP context": "name a target with an MTP head, or another type of drafter",
    "draft model is not": "name a file of the type that --drafter says",
    "address already in use": "end what holds the port, or leave out --port",
    "couldn't bind": "end what holds the port, or leave out --port",
    "invalid device": "name a device that `llama-server --list-devices` lists, or cpu",
    "invalid argument": "use a llama-server of the stack's tip: it knows the flags asked for",
}


# Lines of the log that say why: its errors, asserts, uncaught exceptions, unknown options; warnings
# where there is nothing else, a model has many.
REASON = re.compile(r"^\S+ E |\berror\b|GGML_ASSERT|what\(\)|terminate called|must ", re.I)
WARNING = re.compile(r"^\S+ W ")
REASONS = 8
NOT_DRAFTING = "failed to initialize speculative decoding context"


class ServerFault(EnvironmentFault):
    """llama-server did not start, did not get healthy, or went away; with its last words."""

    def __init__(self, what: str, server: process.Held) -> None:
        words = read_reasons(server)
        failure = CommandFailure(server.command, server.code or 0, words, server.log)
        said = describe_failure(failure).partition("\n")[2]
        super().__init__(f"{what}\n{said}", remedy=choose_remedy(words, server.log))


@dataclass(frozen=True)
class Server:
    """A healthy llama-server: its address and the process."""

    url: str
    process: process.Held


def read_reasons(server: process.Held) -> str:
    """What it said against itself, else its last lines (an abort ends in a useless backtrace)."""
    lines = server.log.read_text("utf-8", "replace").splitlines()
    reasons = [line for line in lines if REASON.search(line)]
    reasons = reasons or [line for line in lines if WARNING.search(line)]
    return "\n".join(reasons[-REASONS:]) or server.last_words()


def require_drafting(server: Server) -> None:
    """Refuse a server that gave up its drafter and serves without (another vocabulary)."""
    if NOT_DRAFTING in server.process.log.read_text("utf-8", "replace"):
        raise ServerFault("llama-server serves without its drafter", server.process)


def choose_remedy(words: str, log: Path) -> str:
    """What to do about what the server said last."""
    lower = words.lower()
    for said, remedy in REMEDIES.items():
        if said.lower() in lower:
            return remedy
    return f"read its log: {log}"


def find_port() -> int:
    """A port that is free now; should another take it, the server says so and ends."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


@contextmanager
def serve(
    command: Sequence[str | os.PathLike[str]],
    log: Path,
    *,
    port: int | None = None,
    seconds: float = HEALTH_SECONDS,
) -> Iterator[Server]:
    """Run a server at a free port (or the one named) and give it once it is healthy.

    Raises ServerFault when it ends before, or is not healthy within `seconds`.
    """
    port = require_free(port) if port else find_port()
    whole = [*command, "--host", HOST, "--port", str(port)]
    with process.hold(whole, log, env=ENVIRONMENT | clean(os.environ)) as held:
        server = Server(f"http://{HOST}:{port}", held)
        wait_healthy(server, seconds)
        yield server


def require_free(port: int) -> int:
    """The port itself. Raises EnvironmentFault when somebody listens there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        if probe.connect_ex((HOST, port)) == 0:
            raise EnvironmentFault(
                f"port {port} is taken", remedy="end what holds it, or leave out --port"
            )
    return port


def wait_healthy(server: Server, seconds: float) -> None:
    """Wait until /health says ok. Raises ServerFault."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        code = server.process.code
        if code is not None:
            raise ServerFault(f"llama-server ended with {code} before it was ready", server.process)
        if is_healthy(server):
            return
        time.sleep(POLL)
    raise ServerFault(f"llama-server was not healthy within {seconds:g} s", server.process)


def is_healthy(server: Server) -> bool:
    """Whether the server answers /health with 200 (503: it is loading)."""
    try:
        return requests.get(f"{server.url}/health", timeout=2).ok
    except requests.RequestException:
        return False


def read_counters(server: Server) -> dict[str, float]:
    """The counters of /metrics, by name without its prefix; those with labels are left out."""
    response = requests.get(f"{server.url}/metrics", timeout=10)
    found = re.findall(r"^llamacpp:(\w+) (\S+)$", response.text, re.M)
    return {name: float(value) for name, value in found}
