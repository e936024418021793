"""Check that every draft implementation stops drafting at the requested draft length.

A server asks its drafter for at most as many tokens as the request or the context has room for.
A drafter that ignores this gives the same text, as the surplus is cut off: only its work shows it.
Random tiny models drive EAGLE3, MTP (with one head and with chained heads), DFlash and DSpark, with
draft-simple as control. The debug log of llama-server tells the requested length of each draft, the
tokens read from it and the tokens decoded for it.
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

import tiny_drafters as tiny
from tiny_drafters import FIRST_WORD, N_WORDS

CHECK: Final = "spec-draft-length"
PASS, FAIL, NO_ENVIRONMENT, NOT_MEASURED = 0, 1, 3, 4

N_DRAFT: Final = 4
N_CHAINED: Final = 3
N_NEIGHBOUR: Final = 300  # long enough to outlive the other slot
START_TIMEOUT_S, REQUEST_TIMEOUT_S = 15.0, 15.0
ATTEMPTS: Final = 3


class NotMeasured(Exception):
    """The build could not be brought to draft, which says nothing about the draft length."""


# --- what a drafter may do ----------------------------------------------------------------


class End(Enum):
    """What makes the server ask for less than the drafter may draft."""

    REQUEST = auto()  # the request wants only a few more tokens
    CONTEXT = auto()  # the context is nearly full
    NEIGHBOUR = auto()  # as the first, while another slot drafts at full length


@dataclass(frozen=True)
class Drafter:
    """A draft implementation and its limit, which is lower than the option for chained heads."""

    name: str
    spec_type: str
    model: str
    draft_model: str | None = None
    limit: int = N_DRAFT

    def decoded(self, drafts: Sequence[int]) -> int:
        """Count the tokens to decode for these drafts: all blocks are as wide as the longest."""
        match self.name:
            case "dflash":
                return len(drafts) * (max(drafts) + 1)
            case "dspark":
                return len(drafts) * max(drafts)
            case "mtp-chained":
                return sum(n * (n + 1) // 2 for n in drafts)
        return sum(drafts)


DRAFTERS: Final = (
    Drafter("simple", "draft-simple", "target.gguf", "mtp.gguf"),
    Drafter("eagle3", "draft-eagle3", "target.gguf", "eagle3.gguf"),
    Drafter("mtp", "draft-mtp", "mtp.gguf"),
    Drafter("mtp-chained", "draft-mtp", "mtp-chained.gguf", limit=N_CHAINED),
    Drafter("dflash", "draft-dflash", "target.gguf", "dflash.gguf"),
    Drafter("dspark", "draft-dspark", "target.gguf", "dspark.gguf"),
)


@dataclass(frozen=True)
class Case:
    """One drafter that meets one kind of end."""

    drafter: Drafter
    end: End

    @property
    def name(self) -> str:
        """Name the case in the report and its log."""
        return f"{self.drafter.name}/{self.end.name.lower()}"

    @property
    def n_slots(self) -> int:
        """Give the number of slots."""
        return 2 if self.end is End.NEIGHBOUR else 1

    @property
    def n_ctx(self) -> int:
        """Give the context of a slot, the neighbour's must not be what limits it."""
        return 2 * N_NEIGHBOUR if self.end is End.NEIGHBOUR else 256


def write_models(folder: Path) -> None:
    """Write the models of all cases."""
    tiny.write_target(folder / "target.gguf")
    tiny.write_eagle3(folder / "eagle3.gguf")
    tiny.write_dflash(folder / "dflash.gguf")
    tiny.write_dspark(folder / "dspark.gguf")
    tiny.write_mtp(folder / "mtp.gguf", 1)
    tiny.write_mtp(folder / "mtp-chained.gguf", N_CHAINED)


# --- the log of a run ---------------------------------------------------------------------


@dataclass
class Round:
    """One call of the drafter: what was requested, read and decoded, the first two by slot."""

    requested: dict[int, int] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    decoded: int = 0

    def expected(self, case: Case) -> dict[int, int]:
        """Give the length of each draft: a slot without room does not draft."""
        limit = case.drafter.limit
        return {slot: min(wish, limit) for slot, wish in self.requested.items() if wish > 0}

    def binds(self, case: Case) -> bool:
        """Tell whether a request limits a draft, and not all alike if there is a neighbour."""
        lengths = self.expected(case).values()
        alike = case.end is End.NEIGHBOUR and min(lengths) == max(lengths)
        return min(lengths) < case.drafter.limit and not alike

    def honours(self, case: Case) -> bool:
        """Tell whether the drafter did the work of the expected drafts, no more and no less."""
        return self.read == self.expected(case) and self.surplus(case) == 0

    def surplus(self, case: Case) -> int:
        """Count the tokens decoded beyond what the expected drafts need."""
        return self.decoded - case.drafter.decoded(list(self.expected(case).values()))


EVENT: Final = re.compile(
    r"id +(?P<slot>\d+) .*max possible draft: (?P<wish>-?\d+)"
    r"|seq_id (?P<seq>\d+), draft candidate +0, pos"
    r"|(?P<batch>input batch info)"
    r"|ubatch_print: +n_tokens += (?P<tokens>\d+)"
    r"|(?P<done>called impl)"
)


class Rounds:
    """Collects rounds: requests open one, the first result ends its decodes."""

    def __init__(self) -> None:
        """Start before the first round."""
        self.found: list[Round] = []
        self.asking = self.drafting = self.at_batch = False

    def see(self, event: re.Match[str]) -> None:
        """Take the next event of the log."""
        if event["wish"] is not None:
            self.ask(int(event["slot"]), int(event["wish"]))
            return
        if event["done"]:
            self.drafting = False
        if not self.drafting:
            return
        self.asking = False
        if event["seq"]:
            read = self.found[-1].read
            read[int(event["seq"])] = read.get(int(event["seq"]), 0) + 1
        if event["tokens"] and self.at_batch:
            self.found[-1].decoded += int(event["tokens"])
        self.at_batch = bool(event["batch"])

    def ask(self, slot: int, wish: int) -> None:
        """Add a request, the requests of all slots come before the drafter works."""
        if not self.asking:
            self.found.append(Round())
        self.asking = self.drafting = True
        self.found[-1].requested[slot] = wish


def rounds_of(log: str, case: Case) -> list[Round]:
    """Read the rounds of a log in which some slot could draft."""
    rounds = Rounds()
    for event in EVENT.finditer(log):
        rounds.see(event)
    return [found for found in rounds.found if found.expected(case)]


# --- the server ---------------------------------------------------------------------------


def free_port() -> int:
    """Let the system pick a port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def command(case: Case, server: Path, models: Path, port: int) -> list[str]:
    """Give the command line of the server, with one thread so that sums do not vary."""
    drafter = case.drafter
    options: dict[str, object] = {
        "-m": models / drafter.model,
        "--port": port,
        "--host": "127.0.0.1",
        "--spec-type": drafter.spec_type,
        "--spec-draft-n-max": N_DRAFT,
        "--spec-draft-n-min": 0,
        "--spec-draft-p-min": 0,
        "-np": case.n_slots,
        "-c": case.n_ctx * case.n_slots,
        "-t": 1,
        "-ngl": 0,
        "-lv": 5,
    }
    if drafter.draft_model:
        options["-md"] = models / drafter.draft_model
    return [str(server), *(str(word) for option in options.items() for word in option)]


@contextmanager
def serving(words: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server, and end its process group however the block ends."""
    environment = os.environ | {"LLAMA_BATCH_DEBUG": "1"}
    with log.open("wb") as sink:
        process = subprocess.Popen(
            words, stdout=sink, stderr=sink, env=environment, start_new_session=True
        )
        try:
            yield process
            process.terminate()
            process.wait(timeout=REQUEST_TIMEOUT_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def connect(port: int) -> closing[HTTPConnection]:
    """Open a connection that closes itself."""
    return closing(HTTPConnection("127.0.0.1", port, timeout=REQUEST_TIMEOUT_S))


def healthy(port: int) -> bool:
    """Tell whether the server listens and has loaded its models."""
    with suppress(OSError, HTTPException), connect(port) as connection:
        connection.request("GET", "/health")
        return connection.getresponse().status == HTTPStatus.OK
    return False


def wait_ready(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait for the models to be loaded."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not healthy(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise NotMeasured("the server did not start")
        time.sleep(0.05)


def greedy(n_prompt: int, n_predict: int) -> dict[str, object]:
    """Describe a greedy completion of plain words that goes on to its end."""
    prompt = [FIRST_WORD + index * 37 % N_WORDS for index in range(n_prompt)]
    return {"prompt": prompt, "n_predict": n_predict, "temperature": 0.0, "ignore_eos": True}


def completions(case: Case) -> list[dict[str, object]]:
    """List the requests that lead to the end in question, to be sent at once."""
    match case.end:
        case End.REQUEST:
            return [greedy(7, 8)]
        case End.CONTEXT:
            return [greedy(case.n_ctx - 10, 64)]
        case End.NEIGHBOUR:
            return [greedy(11, N_NEIGHBOUR), greedy(7, 8)]


def generate(case: Case, port: int) -> None:
    """Send the requests of a case and wait for all answers."""
    with ExitStack() as stack:
        bodies = completions(case)
        connections = [stack.enter_context(connect(port)) for _ in bodies]
        for connection, body in zip(connections, bodies, strict=True):
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/completion", json.dumps(body), headers)
        for response in [connection.getresponse() for connection in connections]:
            if response.status != HTTPStatus.OK:
                raise NotMeasured(response.read().decode(errors="replace"))


def attempt(case: Case, server: Path, models: Path) -> list[Round]:
    """Run one case and read what its drafter did."""
    log, port = models / f"{case.name.replace('/', '-')}.log", free_port()
    try:
        with serving(command(case, server, models, port), log) as process:
            wait_ready(process, port)
            generate(case, port)
    except (OSError, HTTPException, subprocess.TimeoutExpired) as error:
        raise NotMeasured(str(error)) from error
    rounds = rounds_of(log.read_text(errors="replace"), case)
    if not any(found.binds(case) for found in rounds):
        raise NotMeasured("no request limited a draft")
    return rounds


def measure(case: Case, server: Path, models: Path) -> list[Round]:
    """Run one case, again if the port was taken or the neighbour was not there in time."""
    for _ in range(ATTEMPTS - 1):
        with suppress(NotMeasured):
            return attempt(case, server, models)
    return attempt(case, server, models)


# --- the verdict --------------------------------------------------------------------------


def describe(case: Case, rounds: Sequence[Round]) -> dict[str, object]:
    """Sum up a case and show its first wrong round."""
    wrong = [found for found in rounds if not found.honours(case)]
    summary: dict[str, object] = {
        "rounds": len(rounds),
        "limited": sum(found.binds(case) for found in rounds),
        "wrong": len(wrong),
        "surplus_decoded": sum(found.surplus(case) for found in rounds),
    }
    return summary | ({"first_wrong": vars(wrong[0])} if wrong else {})


def report(n_cases: int, passed: bool, detail: object) -> None:
    """Write the result, the only output of this program."""
    document = {"check": CHECK, "cases": n_cases, "passed": passed, "detail": detail}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def run(server: Path, models: Path) -> int:
    """Run all cases and report them."""
    write_models(models)
    detail: dict[str, object] = {}
    passed = True
    for case in (Case(drafter, end) for drafter in DRAFTERS for end in End):
        try:
            rounds = measure(case, server, models)
        except NotMeasured as error:
            report(len(detail), False, detail | {case.name: str(error)})
            return NOT_MEASURED
        passed = passed and all(found.honours(case) for found in rounds)
        detail[case.name] = describe(case, rounds)
    report(len(detail), passed, detail)
    return PASS if passed else FAIL


def read_arguments(purpose: str | None) -> tuple[Path, Path]:
    """Read the command line of a check that asks a llama-server: the server, and the work folder.

    All checks take a source tree and a toolchain root though these need none.
    """
    parser = argparse.ArgumentParser(description=purpose)
    for name in ("--bin", "--source", "--work"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--root", type=Path, help="not used")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    return arguments.bin.resolve() / "llama-server", arguments.work.resolve()


def main() -> int:
    """Run the check."""
    server, work = read_arguments(__doc__)
    if not os.access(server, os.X_OK):
        report(0, False, {"error": "llama-server is missing"})
        return NO_ENVIRONMENT
    return run(server, work)


if __name__ == "__main__":
    sys.exit(main())
