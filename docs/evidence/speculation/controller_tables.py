"""The tables of docs/evidence/spec-adaptive.md section 1, from what the check of the controller prints.

python series/checks/spec_adaptive_controller.py --bin BIN --source TREE --work DIR > found.json
python docs/evidence/speculation/controller_tables.py found.json
"""

import json
import re
import sys
from pathlib import Path

EARLY = "of the best fixed, early"
CHANGING = "of the best fixed, a change takes "
COMMON = "of the best common"
GAIN = "geometric mean of the gain over the EMA rule"


def split(found: dict[str, float]) -> list[tuple[str, str, str, float]]:
    """Give machine, condition, what was judged, value."""
    parts = [(name.split("/"), value) for name, value in found.items()]
    return [(part[0], "/".join(part[1:-1]), part[-1], value) for part, value in parts]


def write_table(title: str, rows: dict[str, dict[str, str]]) -> None:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    print(f"\n{title}\n\n| machine | {' | '.join(columns)} |")
    print("|---|" + "---|" * len(columns))
    for machine, row in rows.items():
        print(f"| {machine} | {' | '.join(row.get(column, '') for column in columns)} |")


def group(rows, wanted, column, text):
    """Rows by machine: `column` and `text` give a cell's place and words."""
    found: dict[str, dict[str, str]] = {}
    for machine, condition, judged, value in rows:
        if wanted(judged, condition):
            found.setdefault(machine, {})[column(condition, judged)] = text(value, judged)
    return found


def percent(value: float, _judged: str = "") -> str:
    return f"{100 * value:.1f}"


def summarise(rows, wanted, key):
    """Worst and mean of the rows, by machine and by what `key` names."""
    found: dict[str, dict[str, list[float]]] = {}
    for machine, condition, judged, value in rows:
        if wanted(judged):
            found.setdefault(machine, {}).setdefault(key(condition, judged), []).append(value)
    return {
        machine: {name: f"{percent(min(v))}, {percent(sum(v) / len(v))}" for name, v in row.items()}
        for machine, row in found.items()
    }


def main() -> None:
    document = json.loads(Path(sys.argv[1]).read_text())
    rows = split({name: each["value"] for name, each in document["detail"].items()})
    print(f"{document['cases']} cases, passed: {document['passed']}")
    write_table(
        "steady",
        group(
            rows,
            lambda j, c: j == "of the best fixed" and "," not in c and c,
            lambda c, j: c,
            percent,
        ),
    )
    write_table(
        "window of a contest: worst, mean",
        summarise(rows, lambda j: j == EARLY, lambda c, j: c.split(", ", 1)[1]),
    )
    write_table(
        "a change takes (batch, drafting) of a batch of one token: worst, mean",
        summarise(rows, lambda j: j.startswith(CHANGING), lambda c, j: j.removeprefix(CHANGING)),
    )
    write_table(
        "alternating, percent above the best fixed length (in reach)",
        group(
            rows,
            lambda j, c: " in reach" in j,
            lambda c, j: c,
            lambda v, j: (
                f"{100 * v - 100:+.1f} ({100 * float(re.findall(r'[0-9.]+', j)[-1]) - 100:+.1f})"
            ),
        ),
    )
    slots = group(rows, lambda j, c: j == COMMON, lambda c, j: c.removeprefix("slots "), percent)
    for machine, _, judged, value in rows:
        if judged == GAIN:
            slots[machine][GAIN] = f"{value:.2f}x"
    write_table("several slots", slots)
    write_table(
        "right-tailed noise after a long pause (recovery), and a new request whose first draft is rejected",
        group(
            rows,
            lambda j, c: j == "of the best" and ("after" in c or "first draft" in c),
            lambda c, j: c,
            percent,
        ),
    )


if __name__ == "__main__":
    main()
