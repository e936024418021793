"""Conversations with a llama-server: streamed, and timed by the server itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import requests

from upstream.errors import InvalidMeasurement
from validate.speculation.server import Server, ServerFault

TIME_LIMITS = (10.0, 600.0)  # to connect; between two pieces of an answer
SEED = 1
DONE = b"[DONE]"


@dataclass(frozen=True)
class Round:
    """One look of the target: tokens drafted for it and how many of them it accepted."""

    drafted: int
    accepted: int


@dataclass(frozen=True)
class Turn:
    """One answer: tok/s and token count as the server gives them, and its rounds in order.

    `marks`: tokens and milliseconds since the first, after each piece; not kept in the store.
    """

    speed: float
    tokens: int
    drafted: int
    accepted: int
    text: str = ""
    rounds: tuple[Round, ...] = ()
    marks: tuple[tuple[int, float], ...] = field(default=(), compare=False, repr=False)

    @property
    def acceptance(self) -> float | None:
        """Accepted share of the drafted tokens; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True)
class Request:
    """What is asked of an answer.

    `endless` answers go on to their limit: with synthetic acceptance the text is no text, and the
    server rejects every drafted end of it. `seed` also decides what is accepted then.
    `temperatures`: of the questions of a conversation, in turns. `fresh`: each question begins a
    new conversation.
    """

    n_predict: int
    endless: bool = False
    seed: int = SEED
    temperatures: tuple[float, ...] = (0.0,)
    fresh: bool = False


def converse(
    server: Server, questions: Sequence[str], slots: Sequence[Request]
) -> list[list[Turn]]:
    """Ask the questions in one conversation in every slot at the same time: slots x questions.

    Raises ServerFault when the server goes away, InvalidMeasurement when it does not time.
    """
    with ThreadPoolExecutor(len(slots)) as pool:
        talks = [pool.submit(_talk, server, questions, each, n) for n, each in enumerate(slots)]
        return [talk.result() for talk in talks]


def _talk(server: Server, questions: Sequence[str], request: Request, slot: int) -> list[Turn]:
    messages: list[dict[str, str]] = []
    turns = []
    for question, temperature in zip(questions, cycle(request.temperatures), strict=False):
        messages = [] if request.fresh else messages
        messages.append({"role": "user", "content": question})
        turn = ask(server, messages, request, slot, temperature)
        messages.append({"role": "assistant", "content": turn.text})
        turns.append(turn)
    return turns


def ask(
    server: Server,
    messages: Sequence[Mapping[str, str]],
    request: Request,
    slot: int = 0,
    temperature: float = 0.0,
) -> Turn:
    """One answer.

    The server times every piece of it: that costs it some microseconds, in every arm alike.
    """
    body = {
        "messages": list(messages),
        "max_tokens": request.n_predict,
        "temperature": temperature,
        "seed": request.seed + slot,
        "stream": True,
        "cache_prompt": True,
        "id_slot": slot,
        "ignore_eos": request.endless,
        "timings_per_token": True,
    }
    try:
        with requests.post(
            f"{server.url}/v1/chat/completions", json=body, stream=True, timeout=TIME_LIMITS
        ) as response:
            if response.status_code != requests.codes.ok:
                raise InvalidMeasurement(
                    f"llama-server answers {response.status_code}: {response.text[:300]}",
                    remedy=f"read its log: {server.process.log}",
                )
            return read_turn(list(read_events(response)), server)
    except requests.RequestException as error:
        raise ServerFault(
            f"llama-server broke off its answer: {type(error).__name__}", server.process
        ) from error


def read_events(response: requests.Response) -> Iterator[dict[str, Any]]:
    """The pieces of a streamed answer; a stream without its end raises ConnectionError."""
    for line in response.iter_lines():
        kind, _, data = line.partition(b": ")
        if data == DONE:
            return
        if kind == b"error":
            raise requests.ConnectionError(data.decode(errors="replace"))
        if kind == b"data":
            yield json.loads(data)
    raise requests.ConnectionError("the stream has no end")


def read_turn(events: Sequence[dict[str, Any]], server: Server) -> Turn:
    """The turn of a complete stream. Raises InvalidMeasurement when it has no timings."""
    timings = [event["timings"] for event in events if "timings" in event]
    if not timings or timings[-1].get("predicted_n", 0) < 1:
        raise InvalidMeasurement(
            "llama-server gave no timings, or no token",
            remedy=f"read its log: {server.process.log}",
        )
    last = timings[-1]
    return Turn(
        float(last["predicted_per_second"]),
        int(last["predicted_n"]),
        int(last.get("draft_n", 0)),
        int(last.get("draft_n_accepted", 0)),
        "".join(_texts(events)),
        tuple(list_rounds(timings)),
        tuple((int(each["predicted_n"]), float(each.get("predicted_ms", 0))) for each in timings),
    )


def list_rounds(timings: Sequence[Mapping[str, Any]]) -> Iterator[Round]:
    """The rounds behind the running totals of the pieces of one answer.

    A round with k accepted tokens sends k + 1; of those that follow only a token beyond them
    shows a round without a draft. The first token comes from the prompt and is no round.
    """
    drafted = accepted = 0
    covered = 1  # tokens that the rounds so far account for
    for each in timings:
        tokens, now = int(each["predicted_n"]), int(each.get("draft_n", 0))
        if now > drafted:
            hits = int(each.get("draft_n_accepted", 0)) - accepted
            yield Round(now - drafted, hits)
            drafted, accepted, covered = now, accepted + hits, tokens + hits
        elif tokens > covered:
            yield Round(0, 0)
            covered = tokens


def total_speed(talks: Sequence[Sequence[Turn]]) -> float:
    """Tok/s of all slots while all of them generate: until the first of their last answers ends.

    Afterwards the others have the machine to themselves. One slot: its tokens over their time.
    """
    if len(talks) == 1:
        (talk,) = talks
        return sum(turn.tokens for turn in talk) / sum(turn.tokens / turn.speed for turn in talk)
    curves = [talk[-1].marks for talk in talks]
    end = min(curve[-1][1] for curve in curves)
    return 1000 * sum(_tokens_at(curve, end) for curve in curves) / end


def _tokens_at(curve: Sequence[tuple[int, float]], end: float) -> float:
    """Tokens that a slot had at a time (ms), between two pieces in proportion."""
    before = max((mark for mark in curve if mark[1] <= end), default=(0, 0.0))
    after = min((mark for mark in curve if mark[1] > end), default=before)
    share = (end - before[1]) / (after[1] - before[1]) if after[1] > before[1] else 0.0
    return before[0] + share * (after[0] - before[0])


def _texts(events: Sequence[dict[str, Any]]) -> Iterator[str]:
    for event in events:
        for choice in event.get("choices", ()):
            yield choice.get("delta", {}).get("content") or ""
