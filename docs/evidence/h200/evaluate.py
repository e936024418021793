"""Hodges-Lehmann estimates and exact Wilcoxon intervals over quads: evaluate.py SAMPLES.jsonl..."""
import json
import math
import statistics
import sys
from collections import defaultdict

CONTRASTS = {
    "iq3s": [(("b10566-base", None), ("b10566-tip", None))],
    "pad": [(("b11549-base", None), ("b11549-tip", None)),
            (("b11549-tip", None), ("b11549-tip", "2")), (("b11549-tip", None), ("b11549-tip", "6"))],
}


def wilcoxon_k(n, alpha):  # largest k with P(W <= k - 1) <= alpha / 2
    counts = [1]
    for r in range(1, n + 1):
        longer = [0] * (len(counts) + r)
        for i, c in enumerate(counts):
            longer[i] += c
            longer[i + r] += c
        counts = longer
    total = 0
    for k, c in enumerate(counts):
        total += c
        if 2 * total > alpha * 2**n:
            return k
    return 0


def hodges_lehmann(d, alpha=0.05):
    walsh = sorted((a + b) / 2 for i, a in enumerate(d) for b in d[i:])
    k = wilcoxon_k(len(d), alpha)
    if k == 0:
        return statistics.median(walsh), -math.inf, math.inf
    return statistics.median(walsh), walsh[k - 1], walsh[-k]


def main():
    quads = defaultdict(lambda: defaultdict(list))  # (experiment, case, arm) -> quad -> us
    for path in sys.argv[1:]:
        for line in open(path):
            row = json.loads(line)
            if row["quad"] > 0:
                quads[row["experiment"], row["case"], (row["arm"], row["pad"])][row["quad"]].append(row["us"])
    experiments = {key[:2]: None for key in quads}
    print("| case | A | B | quads | A median us | B median us | B/A - 1 of the time | 95 % interval |\n" + "|---" * 8 + "|")
    for experiment, case in experiments:
        for a, b in CONTRASTS[experiment]:
            us = [quads[experiment, case, arm] for arm in (a, b)]
            whole = [q for q in sorted(us[0]) if len(us[0][q]) == len(us[1][q]) == 2]
            d = [sum(math.log(x) for x in us[1][q]) / 2 - sum(math.log(x) for x in us[0][q]) / 2 for q in whole]
            if not d:
                continue
            est, lo, hi = (100 * math.expm1(x) for x in hodges_lehmann(d))
            medians = [statistics.median(x for q in whole for x in side[q]) for side in us]
            names = [arm if pad is None else f"{arm} pad {pad}" for arm, pad in (a, b)]
            print(f"| {case} | {names[0]} | {names[1]} | {len(d)} | {medians[0]:.1f} | {medians[1]:.1f} "
                  f"| {est:+.2f} % | {lo:+.2f} .. {hi:+.2f} % |")


main()
