"""The ROCmFPx kernels after and before, by pairs in the order measured: fpx_pairs.py FPX.JSONL

A pair is the n-th process of `tip` and the n-th of `told` (tip, told, told, tip in each of four rounds): the ratio of
their times, Hodges-Lehmann and exact 95 % interval over the eight pairs, no correction for the number of cases.
"""

import json
import math
import os
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

sys.path.insert(0, os.fspath(Path(__file__).parents[4]))

from validate.statistics import hodges_lehmann

times = defaultdict(list)
for line in Path(sys.argv[1]).read_text().splitlines():
    row = json.loads(line)
    kind, columns = re.search(r"type_a=(\w+),.*?n=(\d+),", row["case"]).groups()
    times[kind, int(columns), row["name"]].append(row["us"])
print("| type | columns | path | before, us | after, us | times as fast (95 %) | pairs |")
print("|---|---|---|---|---|---|---|")
for (kind, columns, name), after in sorted(times.items()):
    before = times.get((kind, columns, name.replace("tip", "told")), [])
    if not name.startswith("tip") or not before:
        continue
    pairs = [math.log(b / a) for a, b in zip(after, before, strict=True)]
    found = hodges_lehmann(pairs, 0.05)
    center, low, high = (math.exp(each) for each in (found.center, found.low, found.high))
    path = "KHR" if name.endswith("khr") else "default"
    print(
        f"| {kind} | {columns} | {path} | {median(before):.0f} | {median(after):.0f} "
        f"| {center:.2f} ({low:.2f} to {high:.2f}) | {len(pairs)} |"
    )
