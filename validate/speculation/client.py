"""Conversations with a llama-server: streamed, and timed by the server itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
    """One answer: tok/s and token count as the server gives them, and its rounds in order."""

    speed: float
    tokens: int
    drafted: int
    accepted: int
    text: str = ""
    rounds: tuple[Round, ...] = ()

    @property
    def acceptance(self) -> float | None:
        """Accepted share of the drafted tokens; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


def converse(
    server: Server,
    questions: Sequence[str],
    n_predict: int,
    slots: int = 1,
    *,
    endless: bool = False,
) -> list[list[Turn]]:
    """Ask the questions in one conversation, in every slot at the same time: slots x questions.

    `endless` answers go on to their limit: with synthetic acceptance the text is no text, and the
    server rejects every drafted end of it.

    Raises ServerFault when the server goes away, InvalidMeasurement when it does not time.
    """
    with ThreadPoolExecutor(slots) as pool:
        talks = [pool.submit(_talk, server, questions, n_predict, n, endless) for n in range(slots)]
        return [talk.result() for talk in talks]


def _talk(
    server: Server, questions: Sequence[str], n_predict: int, slot: int, endless: bool
) -> list[Turn]:
    messages: list[dict[str, str]] = []
    turns = []
    for question in questions:
        messages.append({"role": "user", "content": question})
        turn = ask(server, messages, n_predict, slot, endless=endless)
        messages.append({"role": "assistant", "content": turn.text})
        turns.append(turn)
    return turns


def ask(
    server: Server,
    messages: Sequence[Mapping[str, str]],
    n_predict: int,
    slot: int = 0,
    *,
    endless: bool = False,
) -> Turn:
    """One greedy answer.

    The server times every piece of it: that costs it some microseconds, in every arm alike.
    """
    body = {
        "messages": list(messages),
        "max_tokens": n_predict,
        "temperature": 0,
        "seed": SEED,
        "stream": True,
        "cache_prompt": True,
        "id_slot": slot,
        "ignore_eos": endless,
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


def _texts(events: Sequence[dict[str, Any]]) -> Iterator[str]:
    for event in events:
        for choice in event.get("choices", ()):
            yield choice.get("delta", {}).get("content") or ""
