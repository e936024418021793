"""Check the controller of adaptive draft lengths without a model.

The controller's file compiles alone. `spec_adaptive_driver.cpp` plays generated tokens against it:
seeded acceptance, times from cost curves (also jagged ones) with noise. What is known exactly is
priced exactly: a fixed length's goodput is expected tokens over expected time, so the oracle has
no noise. Exit status: 0 holds, 1 does not hold, 3 no C++ compiler.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from spec_adaptive_bounds import bounds, conditions, quiet, speed
from spec_adaptive_gains import (
    alternating,
    baseline,
    changing,
    cold,
    disturbed,
    early,
    recovery,
    several_slots,
    short,
    steady,
    unlucky,
)
from spec_adaptive_machines import COLD, DENSE, MACHINES, ROUNDS, TWO_TOPS, Machine
from spec_adaptive_play import SOURCE, Case, Player, build

CHECK: Final = "spec-adaptive-controller"
PASS, FAIL, NO_ENVIRONMENT = 0, 1, 3
CASES: Final[tuple[tuple[Case, Sequence[Machine]], ...]] = (
    (steady, (*MACHINES, *TWO_TOPS)),
    (early, (*MACHINES, *TWO_TOPS)),
    (changing, TWO_TOPS),
    (alternating, MACHINES),
    (several_slots, MACHINES),
    (recovery, MACHINES),
    (cold, (COLD, *MACHINES[1:])),
    (short, (DENSE,)),
    (unlucky, ROUNDS),
    (disturbed, MACHINES),
    (quiet, MACHINES),
    (bounds, MACHINES),
    (conditions, MACHINES),
    (baseline, MACHINES),
    (speed, MACHINES),
)


def report(n_cases: int, passed: bool, detail: object) -> int:
    """Write the result, the only output of this program, and give the exit status."""
    document = {"check": CHECK, "cases": n_cases, "passed": passed, "detail": detail}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return PASS if passed else FAIL


def run(player: Player, cases: str) -> int:
    """Play all cases on all machines and report each ratio beside its bound."""
    jobs = [
        (case, machine)
        for case, machines in CASES
        for machine in machines
        if case.__name__ in cases.split(",")
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda job: list(job[0](player, job[1])), jobs)
        outcomes = [outcome for group in found for outcome in group]
    detail = {
        outcome.name: {"value": round(outcome.value, 4), "bound": outcome.bound}
        | ({} if outcome.passed else {"passed": False})
        for outcome in outcomes
    }
    return report(len(outcomes), all(outcome.passed for outcome in outcomes), detail)


def main() -> int:
    """Read the command line, all checks take a folder of binaries though this one needs none."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bin", "--source", "--work"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--root", type=Path, help="not used")
    parser.add_argument("--cases", default=",".join(case.__name__ for case, _ in CASES))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    if not (arguments.source / SOURCE).is_file():
        return report(1, False, {"error": f"{SOURCE} is missing"})
    try:
        player = build(arguments.source, arguments.work.resolve())
    except FileNotFoundError as error:
        report(0, False, {"error": str(error)})
        return NO_ENVIRONMENT
    return run(player, arguments.cases)


if __name__ == "__main__":
    sys.exit(main())
