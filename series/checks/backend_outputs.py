"""Check that backend samplers give the same candidates whatever was decoded before.

Random tiny models: an EAGLE3 drafter of four sequences encodes, decodes without an output, and
decodes with outputs of some of them. Without the patch more than half of the rows hold numbers that
are no tokens.
Exit status: 0 holds, 1 does not hold, 3 no compiler or library, 4 nothing was measured.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import tiny_drafters as tiny
from spec_draft_length import FAIL, NO_ENVIRONMENT, NOT_MEASURED, PASS

CHECK: Final = "backend-outputs"
DRIVER: Final = Path(__file__).parent / "backend_outputs_driver.cpp"
INCLUDES: Final = ("include", "ggml/include", "common", "vendor", "src")
LIBRARIES: Final = ("llama-common", "llama", "ggml", "ggml-base")


class Missing(Exception):
    """There is no compiler, or the step has no libraries."""


class NotCompiled(Exception):
    """The driver does not fit the step's headers."""


def report(code: int, cases: int, **more: object) -> int:
    """Write the result, the only output of this program."""
    document = {"check": CHECK, "cases": cases, "passed": code == PASS} | more
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return code


def read_arguments() -> tuple[Path, Path, Path]:
    """Give the folder of the step's programs, its source and the work directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bin", "--source", "--work"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--root", type=Path, help="not used")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    return arguments.bin.resolve(), arguments.source.resolve(), arguments.work.resolve()


def find_library(folder: Path, name: str) -> Path:
    """Find a library of the step, whatever its version."""
    found = sorted(folder.glob(f"lib{name}.so*"), key=lambda path: len(path.name))
    if not found:
        raise Missing(f"{folder} has no lib{name}.so")
    return found[0]


def build(folder: Path, source: Path, work: Path, text: Path = DRIVER) -> Path:
    """Compile a driver against the libraries of the step."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++"))), None)
    if compiler is None:
        raise Missing("no C++ compiler (CXX, c++, g++)")
    program = work / "driver"
    words = [compiler, "-std=c++17", "-O1", *(f"-I{source / each}" for each in INCLUDES)]
    libraries = [find_library(folder, name) for name in LIBRARIES]
    link = [f"-Wl,-rpath,{folder}", f"-Wl,-rpath-link,{folder}"]
    done = subprocess.run([*words, text, "-o", program, *libraries, *link], stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise NotCompiled(done.stderr.decode(errors="replace")[-800:])
    return program


def main() -> int:
    """Run the check."""
    folder, source, work = read_arguments()
    models = [work / "target.gguf", work / "eagle3.gguf"]
    tiny.write_target(models[0])
    tiny.write_eagle3(models[1])
    try:
        program = build(folder, source, work)
    except Missing as error:
        return report(NO_ENVIRONMENT, 0, reason=str(error))
    except NotCompiled as error:
        return report(NOT_MEASURED, 0, reason=str(error))
    done = subprocess.run([program, *models], capture_output=True, text=True)
    if done.returncode != 0:
        said = f"the driver ended with {done.returncode}: {done.stderr[-400:]}"
        return report(NOT_MEASURED, 0, reason=said)
    found: dict[str, int] = json.loads(done.stdout)
    held = found["rows"] > 0 and found["wrong"] == 0
    return report(PASS if held else FAIL, found["rows"], wrong=found["wrong"])


if __name__ == "__main__":
    sys.exit(main())
