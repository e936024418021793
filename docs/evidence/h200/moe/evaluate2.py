"""Intervals of what measure2.py wrote: python docs/evidence/h200/moe/evaluate2.py moe2-0.jsonl moe2-1.jsonl

Other arms (../norms): --pairs=head:t,t:nn before the files.

For every model and cell: speed of the second arm over the first, Hodges-Lehmann with the exact 95 % Wilcoxon interval
over quads (validate/statistics.py), Holm's p over the cells of a step; `head -> copy` is the A/A control, whose interval
is the floor of its cell. FASTER/SLOWER as validate.comparison.judge says with margin max(2 %, floor), where Holm upholds it;
INVALID for a model whose control differs from itself. A SLOWER wants a second run.
"""
import json
import math
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))
from validate.cells import Speed  # noqa: E402
from validate.comparison import find_unfit, judge, measure_floor  # noqa: E402
from validate.statistics import hodges_lehmann, holm, signed_rank_p  # noqa: E402

PAIRS = [("b10566", "head"), ("head", "f1"), ("f1", "f2"), ("head", "f2"), ("f2", "f4"), ("f4", "f5"), ("head", "f5"), ("b10566", "f2")]
CONTROL = ("head", "copy")
ALPHA, MARGIN = 0.05, 0.02


def read(paths):
    """Speeds by (model, prompt, ubatch), quad and arm: two a quad. Only complete quads that count."""
    rows = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
    good = {(row["gpu"], row["quad"]) for row in rows if row["end"] and row["complete"] and not row["warm"]}
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        if not row["end"] and (row["gpu"], row["quad"]) in good:
            speed = row["prompt"] * len(row["ns"]) / sum(row["ns"]) * 1e9
            found[row["model"], row["prompt"], row["ubatch"]][row["gpu"], row["quad"]][row["arm"]].append(speed)
    return found


def differences(quads, first, second):
    """The mirrored pairs' difference of logarithms, quad by quad."""
    both = [arms for arms in quads.values() if len(arms.get(first, ())) == len(arms.get(second, ())) == 2]
    return [sum(map(math.log, arms[second])) / 2 - sum(map(math.log, arms[first])) / 2 for arms in both]


def main():
    words = sys.argv[1:]
    pairs = PAIRS
    if words and words[0].startswith("--pairs="):
        pairs = [tuple(each.split(":")) for each in words.pop(0).removeprefix("--pairs=").split(",")]
    found = read(words)
    if not found:
        sys.exit("no complete quad: nothing was measured")
    controls = {cell: differences(quads, *CONTROL) for cell, quads in found.items()}
    unfit = {model: find_unfit({str(c): d for c, d in controls.items() if c[0] == model}, 0.01) for model, _, _ in found}
    print("| from | to | model, prompt, ubatch | ratio (95 %) | quads | margin | Holm p | |\n|---|---|---|---|---|---|---|---|")
    for first, second in pairs:
        step = {cell: differences(quads, first, second) for cell, quads in sorted(found.items())}
        step = {cell: diffs for cell, diffs in step.items() if diffs}
        adjusted = holm({str(cell): signed_rank_p(diffs) for cell, diffs in step.items()})
        for cell, diffs in step.items():
            estimate, margin, p = hodges_lehmann(diffs, ALPHA), max(MARGIN, measure_floor(controls[cell], ALPHA)), adjusted[str(cell)]
            verdict = judge(estimate, margin)
            if verdict in (Speed.FASTER, Speed.SLOWER) and p > ALPHA:
                verdict = Speed.INCONCLUSIVE
            said = "INVALID" if unfit[cell[0]] else verdict.value
            ratio = f"{math.exp(estimate.center):.3f} ({math.exp(estimate.low):.3f} .. {math.exp(estimate.high):.3f})"
            where = f"{cell[0]}, {cell[1]}, {cell[2]}"
            print(f"| {first} | {second} | {where} | {ratio} | {estimate.quads} | {100 * math.expm1(margin):.1f} % | {p:.2g} | {said} |")
    print("\n".join(filter(None, unfit.values())))


main()
