"""What each round of an adaptive server took, by draft length, from the log of a server with round_log.diff.

    SPEC_DUMP=PATH llama-server ...          (writes PATH.SECONDS)
    python docs/evidence/speculation/round_log.py PATH.SECONDS...

Microseconds, medians: the whole round, its batch as the controller was told, drafting, and what is neither. A change is a
round of another length than the one before; what it costs is the median of its time less that of the next, equal one.
"""

import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean, median


def read(path: Path) -> list[dict[str, float]]:
    rounds: list[dict[str, float]] = []
    for line in path.read_text().splitlines():
        words = line.split()
        if words[0] == "P":
            rounds.append({"at": float(words[1]), "length": int(words[3][5:]), "draft": 0.0, "tokens": 1})
        elif rounds and words[0] == "D":
            rounds[-1]["draft"] = float(words[2][2:])
        elif rounds and words[0] == "A":
            rounds[-1]["tokens"] = int(words[3][2:]) + 1
        elif rounds and words[0] == "B":
            # a server that times whole rounds reports them before it plans the next: the same line order holds
            rounds[-1]["batch"] = float(words[3][2:])
    for one, after in zip(rounds, rounds[1:], strict=False):
        one["whole"] = after["at"] - one["at"]
    return [each for each in rounds if "whole" in each and "batch" in each]


def describe(path: Path) -> None:
    rounds = read(path)
    by_length = defaultdict(list)
    for each in rounds:
        by_length[each["length"]].append(each)
    print(f"{path.name}: {len(rounds)} rounds, lengths {sorted(Counter(r['length'] for r in rounds).items())}")
    for length, found in sorted(by_length.items()):
        whole, batch, draft = (median(each[key] for each in found) for key in ("whole", "batch", "draft"))
        rest = median(each["whole"] - each["batch"] - each["draft"] for each in found)
        tokens = mean(each["tokens"] for each in found)
        print(f"{length} {len(found):4d} x: whole {whole:.0f} batch {batch:.0f} draft {draft:.0f} rest {rest:.0f}, {tokens:.2f} tokens")
    changes = [
        b["whole"] - c["whole"]
        for a, b, c in zip(rounds, rounds[1:], rounds[2:], strict=False)
        if a["length"] != b["length"] == c["length"]
    ]
    if changes:
        print(f"a change costs {median(changes):.0f}, {len(changes)} seen")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        describe(Path(name))
