"""Check that draft-simple puts off reading the tokens that no draft needs yet, and loses none.

A slow twin of a random tiny model, with the same output, drafts for it. No draft pays, the adaptive
draft length is mostly 0. Then a round is one decode, that of the target; and the few drafts are
accepted completely, which needs a drafter that has read exactly what its target has: after a pause,
in a later request that continues the text, in two slots, and behind a context shift, where what was
put off has to be read before: with the text that is then discarded, as its target has read it.
Exit status: 0 holds, 1 does not hold, 3 no llama-server, 4 nothing was measured.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, TypeAlias

import spec_adaptive_server as adaptive
import spec_draft_length as lengths
import tiny_drafters as tiny
from spec_adaptive_server import Answer
from spec_draft_length import FAIL, NO_ENVIRONMENT, NOT_MEASURED, PASS, Drafter, NotMeasured

CHECK: Final = "spec-adaptive-deferred"
TWIN: Final = Drafter("twin", "draft-simple", "target.gguf", "slow-twin.gguf")
N_IDLE: Final = 32  # blocks that only take time; with 0 to 8 a draft seemed to pay in 1 run of 20
SHORT: Final = 8  # tokens of an answer, so that the first drafts are in several requests
N_CTX: Final = 256  # of a slot where the context is to be shifted
# Of the drafted tokens; all in 75 runs, a quarter or less with wrong ones, a half with those that
# were read behind a shift.
ACCEPTED: Final = 0.8
DECODES: Final = 1.5  # a round; a drafter that reads every token by itself needs 2 or more
DECODE: Final = "input batch info"

Talk: TypeAlias = Callable[[int], list[Answer]]


class Broken(Exception):
    """The server could not answer: the drafter's memory lacked tokens, for one."""


def complete(port: int, prompt: Sequence[int], slot: int = 0, n_predict: int = 160) -> Answer:
    """Ask for a greedy completion of these tokens."""
    body = lengths.greedy(0, n_predict) | {"prompt": list(prompt), "id_slot": slot}
    try:
        return adaptive.ask(port, body)
    except NotMeasured as error:
        raise Broken(str(error)) from error


def words(n: int) -> list[int]:
    """Give a prompt of n tokens."""
    prompt = lengths.greedy(n, 1)["prompt"]
    assert isinstance(prompt, list)
    return prompt


def alone(port: int) -> list[Answer]:
    """Complete some prompts one after another in one slot."""
    return [complete(port, words(n)) for n in (7, 11, 13)]


def continued(port: int) -> list[Answer]:
    """Go on with the text of the last answer, as a conversation does."""
    # behind 9 words comes a near-tie, which AVX2 kernels for several columns decide differently
    prompt, answers = words(10), []
    for n_predict in (*[SHORT] * 6, 160, 160):
        answers.append(complete(port, prompt, n_predict=n_predict))
        prompt = [*prompt, *answers[-1]["tokens"], *words(5)]
    return answers


def shifted(port: int) -> list[Answer]:
    """Complete beyond the end of the context."""
    return [complete(port, words(n), n_predict=2 * N_CTX) for n in (7, 11)]


def shifted_soon(port: int) -> list[Answer]:
    """Complete from shortly before the end of the context, with the first drafts around it."""
    return [complete(port, words(N_CTX - 12), n_predict=100)]


def together(port: int) -> list[Answer]:
    """Complete in two slots at the same time."""
    with ThreadPoolExecutor(2) as pool:
        prompts = {slot: words(7 + 4 * slot) for slot in (0, 1)}
        jobs = [pool.submit(complete, port, prompts[n % 2], n % 2) for n in range(6)]
        return [job.result() for job in jobs]


def play(
    server: Path, models: Path, name: str, talk: Talk, drafter: Drafter = TWIN, /, **options: object
) -> tuple[str, Any]:
    """Run a talk on a server of its own; returns its log and its answers."""
    named: adaptive.Options = {f"--{key.replace('_', '-')}": v for key, v in options.items()}
    port, log = lengths.free_port(), models / f"{name}.log"
    line = adaptive.command(server, models, drafter, named | {"-lv": 5}, port)
    try:
        with lengths.serving(line, log) as process:
            lengths.wait_ready(process, port)
            answers = talk(port)
    except (OSError, HTTPException, NotMeasured) as error:
        raise NotMeasured(f"{error}: {log.read_text(errors='replace')[-400:]}") from error
    return log.read_text(errors="replace"), answers


def judge(server: Path, models: Path, name: str, talk: Talk, **options: object) -> Answer:
    """Compare a talk with the flag and without it."""
    _, fixed = play(server, models, f"{name}-fixed", talk, **options)
    log, found = play(server, models, name, talk, spec_draft_adaptive=None, **options)
    timings = [answer["timings"] for answer in found]
    drafted = sum(each.get("draft_n", 0) for each in timings)
    accepted = sum(each.get("draft_n_accepted", 0) for each in timings)
    rounds = sum(each["predicted_n"] for each in timings) - accepted
    if drafted == 0:
        raise NotMeasured(f"{name}: no token was drafted")
    shifts = log.count("slot context shift")
    if ("context_shift" in options) != (shifts > 0):
        raise NotMeasured(f"{name}: {shifts} context shifts")
    # behind a shift upstream's own draft lengths differ in text: the cells lie in another order
    same = [a["tokens"] for a in found] == [a["tokens"] for a in fixed]
    return ({} if shifts else {"same text": same}) | {
        "drafts are accepted": accepted >= ACCEPTED * drafted,
        "few decodes": log.count(DECODE) - drafted < DECODES * rounds,
        "accepted, drafted, rounds, decodes": [accepted, drafted, rounds, log.count(DECODE)],
        "drafted by request": [each.get("draft_n", 0) for each in timings],
        "paused": "yes" if rounds > 2 * drafted else "no",
    }


def run(server: Path, models: Path) -> int:
    """Judge all talks."""
    lengths.write_models(models)
    tiny.write_slow_twin(models / "slow-twin.gguf", TWIN.model, N_IDLE)
    shift: adaptive.Options = {"context_shift": None, "ctx_size": N_CTX * adaptive.N_SLOTS}
    detail = {
        "alone": judge(server, models, "alone", alone),
        "continued": judge(server, models, "continued", continued),
        "together": judge(server, models, "together", together),
        "shifted": judge(server, models, "shifted", shifted, **shift),
        "shifted soon": judge(server, models, "shifted-soon", shifted_soon, **shift),
    }
    claims = [v for found in detail.values() for v in found.values() if isinstance(v, bool)]
    if all(claims) and "yes" not in {found["paused"] for found in detail.values()}:
        raise NotMeasured("there was no pause between drafts")
    document = {"check": CHECK, "cases": len(claims), "passed": all(claims), "detail": detail}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return PASS if all(claims) else FAIL


def refuse(code: int, error: str, cases: int = 0, check: str = CHECK) -> int:
    """Report why there is nothing to judge."""
    document = {"check": check, "cases": cases, "passed": False, "detail": {"error": error}}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return code


def main() -> int:
    """Run the check."""
    server, work = lengths.read_arguments(__doc__)
    if not os.access(server, os.X_OK):
        return refuse(NO_ENVIRONMENT, "llama-server is missing")
    try:
        return run(server, work)
    except NotMeasured as error:
        return refuse(NOT_MEASURED, str(error))
    except Broken as error:
        return refuse(FAIL, str(error), cases=1)


if __name__ == "__main__":
    sys.exit(main())
