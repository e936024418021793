"""Check that MTP, DFlash and DSpark put off reading what no draft needs yet, and lose none of it.

Random tiny models draft with synthetic acceptance, so that some drafts are accepted in part and the
adaptive draft length is often 0. Then a round is one decode, that of the target. Each draft, many
of them after a pause, is drafted again by a server without the flag that reads the same text as its
prompt: the candidates must be the same. Greedy text must be the same with the flag.
Exit status: 0 holds, 1 does not hold, 3 no llama-server, 4 nothing was measured.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import spec_adaptive_deferred as simple
import spec_adaptive_server as adaptive
import spec_draft_length as lengths
from spec_adaptive_server import Answer
from spec_draft_length import FAIL, NO_ENVIRONMENT, NOT_MEASURED, PASS, Drafter, NotMeasured

CHECK: Final = "spec-adaptive-deferred-states"
NAMES: Final = ("mtp", "dflash", "dspark")
ACCEPTED: Final = ("1,1,1,1", "0.9,0.7,0.5,0.3", "1,0.5,0.5,0.5")  # synthetic, by position
VAIN: Final = "0,0,0,0"
# Decodes a round, 1.02 to 1.31 on a busy machine; a drafter that reads every token by itself needs
# 2. In two slots 0.5 to 1, and 1.4.
DECODES: Final = 1.5
DECODES_TOGETHER: Final = 1.2
SAME: Final = 0.9  # of the drafts; one decode of many tokens rounds differently than many of one
SAME_RECURRENT: Final = 0.6  # with a recurrent target 0.8 without the patch, too
ENOUGH: Final = 20  # drafts that can be compared
DENSE: Final = "target.gguf"  # the other targets are recurrent: nothing shifts their context
EVENT: Final = re.compile(
    r"seq_id \d+, draft candidate +0, pos +\d+: +(?P<token>\d+)"
    r"|called impl \S+ hist size = (?P<read>\d+)"
)
REQUEST: Final = "launching slot :"

Tokens: TypeAlias = Sequence[int]


@dataclass(frozen=True)
class Draft:
    """What was drafted behind a text, whose last token the drafter had not read yet."""

    text: tuple[int, ...]
    tokens: tuple[int, ...]


def read_drafts(log: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Give the drafts of a request in one slot: the tokens read before, and those drafted."""
    found: list[int] = []
    for event in EVENT.finditer(log):
        if event["token"]:
            found.append(int(event["token"]))
        elif found:
            yield int(event["read"]), tuple(found)
            found = []


def find_drafts(log: str, texts: Sequence[Tokens]) -> list[Draft]:
    """Read the drafts of requests that followed each other; `texts`: prompts with answers."""
    parts = log.split(REQUEST)[1:]
    if len(parts) != len(texts):
        raise NotMeasured(f"{len(parts)} requests in the log, {len(texts)} answers")
    return [
        Draft(tuple(text[: n_read + 1]), tokens)
        for part, text in zip(parts, texts, strict=True)
        for n_read, tokens in read_drafts(part)
        if n_read < len(text)
    ]


def converse(port: int) -> list[Answer]:
    """Complete a prompt, go on with the text of the answer, and complete another prompt."""
    answers: list[Answer] = []
    prompt = simple.words(9)
    for _ in range(2):
        answers.append(simple.complete(port, prompt) | {"prompt": prompt})
        prompt = [*prompt, *answers[-1]["tokens"], *simple.words(5)]
    other = simple.words(13)
    return [*answers, simple.complete(port, other) | {"prompt": other}]


def draft_again(server: Path, models: Path, drafter: Drafter, drafts: list[Draft]) -> list[Draft]:
    """Let a server without the flag read each text as its prompt, and draft as many tokens."""

    def talk(port: int) -> list[Answer]:
        return [adaptive.ask(port, ask_again(draft)) for draft in drafts]

    log, _ = simple.play(server, models, f"{drafter.name}-again", talk, drafter)
    parts = [next(read_drafts(part), (0, ())) for part in log.split(REQUEST)[1:]]
    return [Draft(draft.text, part[1]) for draft, part in zip(drafts, parts, strict=True)]


def ask_again(draft: Draft) -> dict[str, object]:
    """Describe a completion that begins with the last token of the text, and then drafts."""
    body = lengths.greedy(0, len(draft.tokens) + 2) | {"prompt": draft.text[:-1], "id_slot": 0}
    return body | {"logit_bias": [[draft.text[-1], 1000.0]], "cache_prompt": False}


def compare(server: Path, models: Path, drafter: Drafter) -> Answer:
    """Draft with pauses, and draft the same again."""
    drafts = [
        draft
        for rates in ACCEPTED
        for draft in draft_with_pauses(server, models, drafter, spec_synth_rates=rates)
    ]
    if len(drafts) < ENOUGH:
        raise NotMeasured(f"{drafter.name}: {len(drafts)} drafts")
    again = draft_again(server, models, drafter, drafts)
    same = sum(one == other for one, other in zip(drafts, again, strict=True))
    share = SAME if drafter.model == DENSE else SAME_RECURRENT
    return {"same drafts": same >= share * len(drafts), "the same, drafts": [same, len(drafts)]}


def draft_with_pauses(
    server: Path, models: Path, drafter: Drafter, **options: object
) -> list[Draft]:
    """Let an adaptive server converse, and give its drafts."""
    options |= {"spec_draft_adaptive": None}
    log, answers = simple.play(server, models, drafter.name, converse, drafter, **options)
    return find_drafts(log, [[*each["prompt"], *each["tokens"]] for each in answers])


def pause(server: Path, models: Path, drafter: Drafter, name: str, **options: object) -> Answer:
    """Count the decodes where no draft pays: alone, in two slots, or behind a context shift."""
    talk = {"together": simple.together, "shifted": simple.shifted}.get(name, simple.alone)
    log, found = simple.play(
        server, models, f"{drafter.name}-{name}", talk, drafter,
        spec_draft_adaptive=None, spec_synth_rates=VAIN, **options,
    )  # fmt: skip
    if ("context_shift" in options) != ("slot context shift" in log):
        raise NotMeasured(f"{drafter.name}: the context was to be shifted, and only then")
    drafted = sum(each["timings"].get("draft_n", 0) for each in found)
    rounds = sum(each["timings"]["predicted_n"] for each in found)
    decodes = log.count(simple.DECODE) - drafted
    bound = DECODES_TOGETHER if name == "together" else DECODES
    return {
        f"few decodes, {name}": decodes < bound * rounds,
        f"decodes, {name}": decodes / rounds,
    }


def keep_text(server: Path, models: Path, drafter: Drafter) -> Answer:
    """Compare greedy text with the flag and without it, where what is accepted is real."""
    texts = [
        [
            each["tokens"]
            for each in simple.play(
                server, models, f"{drafter.name}-text", converse, drafter, **flag
            )[1]
        ]
        for flag in ({}, {"spec_draft_adaptive": None})
    ]
    return {"same text": texts[0] == texts[1]}


def judge(server: Path, models: Path, drafter: Drafter) -> Answer:
    """All claims about one drafter."""
    shift: adaptive.Options = {
        "context_shift": None, "ctx_size": simple.N_CTX * adaptive.N_SLOTS,
    }  # fmt: skip
    found = compare(server, models, drafter) | keep_text(server, models, drafter)
    found |= pause(server, models, drafter, "alone") | pause(server, models, drafter, "together")
    if drafter.model == DENSE:
        found |= pause(server, models, drafter, "shifted", **shift)
    return found


def run(server: Path, models: Path) -> int:
    """Judge all drafters."""
    lengths.write_models(models)
    drafters = [each for each in lengths.DRAFTERS if each.name in NAMES]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = {each.name: pool.submit(judge, server, models, each) for each in drafters}
        detail: dict[str, Any] = {name: job.result() for name, job in jobs.items()}
    claims = [v for found in detail.values() for v in found.values() if isinstance(v, bool)]
    document = {"check": CHECK, "cases": len(claims), "passed": all(claims), "detail": detail}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return PASS if all(claims) else FAIL


def main() -> int:
    """Run the check."""
    server, work = lengths.read_arguments(__doc__)
    if not os.access(server, os.X_OK):
        return simple.refuse(NO_ENVIRONMENT, "llama-server is missing", check=CHECK)
    try:
        return run(server, work)
    except NotMeasured as error:
        return simple.refuse(NOT_MEASURED, str(error), check=CHECK)
    except simple.Broken as error:
        return simple.refuse(FAIL, str(error), cases=1, check=CHECK)


if __name__ == "__main__":
    sys.exit(main())
