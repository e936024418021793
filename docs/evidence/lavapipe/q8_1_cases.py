"""test-backend-ops of the q8_1 mat-vec types with 2 to 8 columns, on software Vulkan, three runs.

    LAB_DIR=LAB python docs/evidence/lavapipe/q8_1_cases.py STEP OUT

STEP is a folder with test-backend-ops, built with Vulkan from the series up to vulkan-mmvq-iq3; LAB
has the toolchain roots. The integer dot product is reported as accelerated; which pipelines ran is
counted. Of the cases with 2 to 8 columns those of 16 and 19 rows run, and the counts say how many
that leaves out. One JSON line a run is added to OUT.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, os.fspath(Path(__file__).parent))
sys.path.insert(0, os.fspath(Path(__file__).parents[3]))

from q8_1 import launch_reporting, start

from upstream.lab import open_lab
from validate.backend_ops import parse_ops, parse_supported
from validate.vulkan.cases import read_fields
from validate.vulkan.integer_dot import take_quantised

DEVICE, RUNS, ROWS = "Vulkan0", 3, ("16", "19")
PLANNED = re.compile(r"MUL_MAT\(type_a=(iq4_nl|nvfp4|iq3_xxs|iq3_s),type_b=f32,m=\d+,n=[2-8],")


def main() -> None:
    step, out = map(Path, sys.argv[1:])
    lab = open_lab()
    launch = launch_reporting(lab)
    program, log = step / "test-backend-ops", lab.scratch / f"bound-{os.getpid()}"
    listing = ("support", "-b", DEVICE, "--output", "csv", "-o", "MUL_MAT")
    listed = parse_supported(start(launch, program, log, *listing)[0], DEVICE)
    planned = [name for name in listed if PLANNED.match(name)]
    chosen = [name for name in planned if read_fields(name)["m"] in ROWS]
    for number in range(1, RUNS + 1):
        before = time.monotonic()
        words = ("test", "-b", DEVICE, "-o", ",".join(chosen))
        said, code, bound, cpu = start(launch, program, log, *words)
        found = parse_ops(said, code, DEVICE)
        row = {
            "run": number,
            "planned": len(planned),
            "supported": sum(listed[name] for name in planned),
            "executed": found.executed,
            "passed": found.passed,
            "failed": found.failed,
            "crashed": found.crashed,
            "bound": take_quantised(bound),
            "cpu_seconds": round(cpu),
            "seconds": round(time.monotonic() - before),
            "cases": chosen,
        }
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
