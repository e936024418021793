"""What a change of the draft length costs, and what of it is a new graph, with a real llama-server on one core.

    python docs/evidence/speculation/change_cost.py SERVER MODELS FOLDER [RUNS]

MODELS is what models.py made; synthetic acceptance .95, one thread, 512 tokens behind 256 of warm-up, RUNS (4)
rounds of servers: lengths 0 to 7, lengths 0 to 7 without reuse of graphs (LLAMA_GRAPH_REUSE_DISABLE), adaptive.

A round ends where the server decodes the next batch. A change takes two rounds, its own and the next (the graphs of
drafter and target); what they take beyond the medians of the two lengths is its cost, where no other change is within
two rounds. Medians in ms.
"""

import os
import re
import sys
from collections import defaultdict
from itertools import pairwise, product
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, os.fspath(Path(__file__).parents[3] / "series" / "checks"))

import spec_adaptive_deferred as deferred
import spec_draft_length as lengths

LONGEST = 7
OPTIONS = {"parallel": 1, "ctx_size": 2048, "threads_draft": 1, "no_warmup": None}
DRAFTERS = (
    lengths.Drafter("dflash", "draft-dflash", "deep.gguf", "deep-dflash.gguf", LONGEST),
    lengths.Drafter("mtp", "draft-mtp", "deep.gguf", None, LONGEST),
)
NONE = lengths.Drafter("none", "none", "deep.gguf")
ROUND = re.compile(
    r"^(?P<minutes>\d+)\.(?P<seconds>\d+)\.(?P<ms>\d+)\.(?P<us>\d+) D (?:srv +decode: n_batch"
    r"|spec common_specu: seq_id 0, adaptive draft length = (?P<length>\d))",
    re.M,
)
Rounds = list[tuple[int, float]]


def talk(port: int) -> None:
    for n_predict in (256, 512):
        deferred.complete(port, deferred.words(7), n_predict=n_predict)


def read_rounds(log: str) -> Rounds:
    """Give the draft length and the time of each round of the last request."""
    found: Rounds = []
    length, before = 0, 0.0
    for event in ROUND.finditer(log[log.rindex("launching slot :") :]):
        if event["length"]:
            length = int(event["length"])
            continue
        minutes, seconds, ms, us = (int(event[part]) for part in ("minutes", "seconds", "ms", "us"))
        now = 60_000 * minutes + 1000 * seconds + ms + us / 1000
        found.append((length, now - before))
        length, before = 0, now
    return found[2:]  # the prompt, and the round behind it


def measure(
    server: Path, models: Path, drafter: lengths.Drafter, length: int, reuse: bool = True, **flag: None
) -> Rounds:
    os.environ.pop("LLAMA_GRAPH_REUSE_DISABLE", None)
    if not reuse:
        os.environ["LLAMA_GRAPH_REUSE_DISABLE"] = "1"
    rates = ",".join(f"{0.95 ** (n + 1):.6f}" for n in range(length))
    arm = {"spec_draft_n_max": length, "spec_synth_rates": rates} if length else {}
    log, _ = deferred.play(server, models, "change-cost", talk, drafter if length else NONE, **OPTIONS, **arm, **flag)
    return read_rounds(log)


def list_changes(rounds: Rounds, usual: dict[int, float]) -> list[float]:
    """What each change took that has no other one within two rounds."""
    changed = [i + 1 for i, (a, b) in enumerate(pairwise(rounds)) if a[0] != b[0]]
    return [
        rounds[i][1] + rounds[i + 1][1] - usual[rounds[i - 1][0]] - usual[rounds[i][0]]
        for i in changed
        if i + 1 < len(rounds) and not {i - 2, i - 1, i + 1, i + 2} & set(changed)
    ]


def describe(values: list[float]) -> str:
    low, middle, high = quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    server, models, folder = (Path(word).absolute() for word in sys.argv[1:4])
    runs = int(sys.argv[4]) if len(sys.argv) > 4 else 4
    for name in ("deep.gguf", "deep-dflash.gguf"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(models / name)
    for drafter in DRAFTERS:
        fixed = {True: defaultdict(list), False: defaultdict(list)}
        games: list[Rounds] = []
        for _ in range(runs):
            for length, (reuse, times) in product(range(LONGEST + 1), fixed.items()):
                times[length] += [t for _, t in measure(server, folder, drafter, length, reuse)]
            games += [measure(server, folder, drafter, LONGEST, spec_draft_adaptive=None) for _ in range(2)]
        usual = {n: median(times) for n, times in fixed[True].items()}
        graph = [median(times) - usual[n] for n, times in fixed[False].items()]
        changes = [cost for rounds in games for cost in list_changes(rounds, usual)]
        count = sum(a[0] != b[0] for rounds in games for a, b in pairwise(rounds))
        print(
            f"{drafter.name}: rounds at length 0 to {LONGEST}:",
            *(f"{t:.2f}" for t in usual.values()),
        )
        print(f"  without reuse of graphs, longer by: {describe(graph)}")
        print(
            f"  {count / len(games):.1f} changes in 512 tokens; one takes {describe(changes)}, {len(changes)} of them",
            flush=True,
        )


if __name__ == "__main__":
    main()
