"""Check --spec-draft-adaptive on a real llama-server with every kind of drafter.

Random tiny models (see `tiny_drafters.py`). Greedy text must be the same with the flag on, off and
without a drafter, over reused slots. With synthetic acceptance 0 the server must give up drafting.
Without the flag, the drafts must be as long as they were. Bad command lines must say what is wrong.
Exit status: 0 holds, 1 does not hold, 3 no llama-server, 4 nothing was measured.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, TypeAlias

import spec_draft_length as lengths
from spec_draft_length import FAIL, NO_ENVIRONMENT, NOT_MEASURED, PASS, Drafter, NotMeasured

CHECK: Final = "spec-adaptive-server"
ADAPTIVE: Final = "--spec-draft-adaptive"
N_DRAFT: Final = 4
N_PREDICT: Final = 96
N_SLOTS: Final = 2
ATTEMPTS: Final = 3

Options: TypeAlias = dict[str, object]
Answer: TypeAlias = dict[str, Any]


def command(
    server: Path, models: Path, drafter: Drafter | None, options: Options, port: int
) -> list[str]:
    """Give the command line of a server; an option without a value is a flag."""
    words: Options = {
        "-m": models / (drafter.model if drafter else "target.gguf"),
        "--port": port,
        "--host": "127.0.0.1",
        "-np": N_SLOTS,
        "-c": 512 * N_SLOTS,
        "-t": 1,
        "-ngl": 0,
    }
    if drafter:
        words |= {"--spec-type": drafter.spec_type, "--spec-draft-n-max": drafter.limit}
    if drafter and drafter.draft_model:
        words["-md"] = models / drafter.draft_model
    flat = [
        str(word) for option in (words | options).items() for word in option if word is not None
    ]
    return [str(server), *flat]


def completion(port: int, n_prompt: int) -> Answer:
    """Ask for a greedy completion."""
    return ask(port, lengths.greedy(n_prompt, N_PREDICT))


def ask(port: int, body: dict[str, object]) -> Answer:
    """Ask for a completion, with its tokens."""
    body = body | {"return_tokens": True}
    with lengths.connect(port) as connection:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/completion", json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        if response.status != HTTPStatus.OK:
            raise NotMeasured(text.decode(errors="replace"))
        answer: Answer = json.loads(text)
        return answer


@contextmanager
def running(
    server: Path, models: Path, drafter: Drafter | None, **options: object
) -> Iterator[int]:
    """Run a server until the block ends, and give its port."""
    named = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    with tempfile.NamedTemporaryFile(suffix=".log", dir=models, delete=False) as file:
        log = Path(file.name)
    port = lengths.free_port()
    try:
        with lengths.serving(command(server, models, drafter, named, port), log) as process:
            lengths.wait_ready(process, port)
            yield port
    except (OSError, HTTPException, NotMeasured) as error:
        raise NotMeasured(f"{error}: {log.read_text(errors='replace')[-800:]}") from error


def texts(server: Path, models: Path, drafter: Drafter | None, **options: object) -> list[Answer]:
    """Answer some prompts one after another, so that slots are reused."""
    for _ in range(ATTEMPTS - 1):
        with suppress(NotMeasured), running(server, models, drafter, **options) as port:
            return [completion(port, n_prompt) for n_prompt in (7, 11, 7, 13)]
    with running(server, models, drafter, **options) as port:
        return [completion(port, n_prompt) for n_prompt in (7, 11, 7, 13)]


def tokens(answers: list[Answer]) -> list[list[int]]:
    """Give the tokens of the answers."""
    return [answer["tokens"] for answer in answers]


def drafted(answers: list[Answer]) -> list[int]:
    """Count the drafted tokens of each answer."""
    return [answer["timings"].get("draft_n", 0) for answer in answers]


def judge(server: Path, models: Path, drafter: Drafter) -> dict[str, object]:
    """Compare the texts of a drafter, and let it give up."""
    plain = texts(server, models, Drafter("none", "none", drafter.model))
    off = texts(server, models, drafter)
    on = texts(server, models, drafter, spec_draft_adaptive=None)
    rates = ",".join(["0"] * drafter.limit)
    vain = texts(server, models, drafter, spec_draft_adaptive=None, spec_synth_rates=rates)
    fixed = texts(server, models, drafter, spec_synth_rates=rates)
    return {
        "same text with the flag": tokens(on) == tokens(off),
        "same text as without a drafter": tokens(plain) == tokens(off),
        "fixed drafts go on": drafted(fixed)[-1] > N_PREDICT,
        "adaptive drafts end": drafted(vain)[-1] < N_PREDICT,
        "drafted in vain": drafted(vain),
        "drafted, fixed": drafted(fixed),
    }


def refusals(server: Path, models: Path) -> dict[str, object]:
    """Start servers that must refuse, and look for the reason in their words."""
    simple = lengths.DRAFTERS[0]
    cases: dict[str, tuple[Drafter | None, Options, str]] = {
        "no drafter": (None, {}, "adaptive draft length requires"),
        "n-gram only": (None, {"spec_type": "ngram-simple"}, "adaptive draft length requires"),
        "n_min above n_max": (simple, {"spec_draft_n_min": N_DRAFT + 1}, "n_min <= n_max"),
    }
    return {name: refused(server, models, *case) for name, case in cases.items()}


def refused(
    server: Path, models: Path, drafter: Drafter | None, options: Options, words: str
) -> bool:
    """Tell whether the server ends by itself and says these words."""
    try:
        with running(server, models, drafter, spec_draft_adaptive=None, **options):
            return False
    except NotMeasured as error:
        return words in str(error)


def knows_flag(server: Path, models: Path) -> bool:
    """Tell whether the server has the flag at all, a parent of the patch has not."""
    try:
        with running(server, models, lengths.DRAFTERS[0], spec_draft_adaptive=None):
            return True
    except NotMeasured as error:
        if "invalid argument" in str(error):
            return False
        raise


def report(n_cases: int, passed: bool, detail: object) -> None:
    """Write the result, the only output of this program."""
    document = {"check": CHECK, "cases": n_cases, "passed": passed, "detail": detail}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def run(server: Path, models: Path) -> int:
    """Judge all drafters and all refusals."""
    lengths.write_models(models)
    if not knows_flag(server, models):
        report(1, False, {"error": f"llama-server does not know {ADAPTIVE}"})
        return FAIL
    detail = {drafter.name: judge(server, models, drafter) for drafter in lengths.DRAFTERS}
    detail["refused"] = refusals(server, models)
    claims = [v for found in detail.values() for v in found.values() if isinstance(v, bool)]
    report(len(claims), all(claims), detail)
    return PASS if all(claims) else FAIL


def main() -> int:
    """Run the check."""
    server, work = lengths.read_arguments(__doc__)
    if not os.access(server, os.X_OK):
        report(0, False, {"error": "llama-server is missing"})
        return NO_ENVIRONMENT
    try:
        return run(server, work)
    except NotMeasured as error:
        report(0, False, {"error": str(error)})
        return NOT_MEASURED


if __name__ == "__main__":
    sys.exit(main())
