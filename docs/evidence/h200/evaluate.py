"""Tables of estimates and exact intervals over quads, by validate/statistics.py: evaluate.py SAMPLES.jsonl...

Hodges-Lehmann estimates of B/A - 1 of the time with 95 % Wilcoxon intervals. A quad is whole where both arms have two
samples of the case; warm-ups (quad 0, or "warm") are left out. A quad is known by its file, call and number. Where
there are fewer than six quads, which have no 95 % interval, the forward and the backward half of each count as a pair
of their own: a linear drift then widens the interval instead of cancelling.
"""
import json
import os
import statistics
import sys
from collections import defaultdict
from math import expm1, inf, log
from pathlib import Path

sys.path.insert(0, os.fspath(Path(__file__).parents[3]))

from validate.statistics import hodges_lehmann

# by the experiment: which arms are compared, in order, of those that the samples hold
CONTRASTS = {
    "iq3s": [("b10566-base", "b10566-tip")],
    "mmvq": [("b11549", "tip")],
    "history": [("b10566", "tip"), ("b11549", "tip"), ("b10566", "b11549")],
    "float": [("b11549", "tip")],
    "id": [("b11549", "tip")],
    "pad": [("b11549-base", "b11549-tip"), ("b11549-tip", "b11549-tip pad 2"), ("b11549-tip", "b11549-tip pad 6"),
            ("b11549", "tip pad 4"), *(("tip pad 4", f"tip pad {pad}") for pad in (0, 2, 6, 8))],
}


def arm_of(row):
    pad = row.get("pad") or row.get("env", {}).get("GGML_VK_MUL_MM_PAD")
    return row["arm"] if pad is None else f"{row['arm']} pad {pad}"


def read(paths):
    """(experiment, case, arm) -> quad -> its two times in us."""
    quads = defaultdict(lambda: defaultdict(list))
    for path in paths:
        for line in Path(path).read_text().splitlines():
            row = json.loads(line)
            if not row.get("warm", row["quad"] == 0):
                quad = (path, row.get("call"), row["quad"])
                quads[row["experiment"], row["case"], arm_of(row)][quad].append(row["us"])
    return quads


def compare(a, b):
    """Medians in us of A and B and the estimate of log B - log A over whole quads; None without one."""
    whole = [quad for quad in a if len(a[quad]) == 2 == len(b.get(quad, ()))]
    halves = [[log(after) - log(before) for before, after in zip(a[quad], b[quad], strict=True)] for quad in whole]
    differences = [sum(two) / 2 for two in halves] if len(whole) >= 6 else [one for two in halves for one in two]
    medians = [statistics.median(us for quad in whole for us in side[quad]) for side in (a, b)] if whole else None
    return medians and (*medians, hodges_lehmann(differences, 0.05))


def short(case):
    return case.replace("type_a=", "").replace(",type_b=f32", "").replace(",n_mats=128,n_used=8,b=0", "")


def line(case, names, medians, estimate):
    low, high = (100 * expm1(x) if abs(x) < inf else x for x in (estimate.low, estimate.high))
    sign = "slower" if low > 0 else "faster" if high < 0 else "undecided"
    return (f"| {short(case)} | {names[0]} | {names[1]} | {estimate.quads} | {medians[0]:.1f} | {medians[1]:.1f} "
            f"| {estimate.percent:+.2f} % | {low:+.2f} .. {high:+.2f} % | {sign} |")


def by_case(case):
    return [int(part) if part.isdigit() else part for part in case.replace("=", ",").split(",")]


def main():
    quads = read(sys.argv[1:])
    for experiment in dict.fromkeys(key[0] for key in quads):
        print(f"\n## {experiment}\n\n| case | A | B | quads or pairs | A median us | B median us | B/A - 1 of the time "
              "| 95 % interval | |\n" + "|---" * 9 + "|")
        cases = sorted({key[1] for key in quads if key[0] == experiment}, key=by_case)
        for names in CONTRASTS[experiment]:
            for case in cases:
                found = compare(*(quads.get((experiment, case, name), {}) for name in names))
                if found:
                    print(line(case, names, found[:2], found[2]))


main()
