"""The tile with the best geometric mean over the cells with few rows an expert: pick.py OUT -> threads bm bn bk wm wn, or nothing"""
import json
import math
import sys
from collections import defaultdict

CELLS = {"moe-128": ["512@512", "2048@512"], "moe-512": ["512@512", "2048@512", "512@2048", "2048@2048"]}
found = defaultdict(list)
for gpu in "01":
    for line in open(f"{sys.argv[1]}/explore-{gpu}.jsonl"):
        row = json.loads(line)
        found[row["model"], row["name"]].append(row["speeds"])
scores = {}
for name in {name for _, name in found}:
    logs = [[math.log(max(s[c] for s in found[m, name])) for c in cells] for m, cells in CELLS.items() if (m, name) in found]
    if len(logs) == len(CELLS):
        scores[name] = sum(sum(each) / len(each) for each in logs) / len(logs)
for name, score in sorted(scores.items(), key=lambda item: -item[1]):
    print(f"{name:24} {math.exp(score - scores.get('none', 0)):.3f}", file=sys.stderr)
tiles = {name: score for name, score in scores.items() if "," in name}
best = max(tiles, key=tiles.get, default=None)
if best and tiles[best] > scores.get("rows+b16", -9) + 0.01:
    print(best.replace(",", " "))
