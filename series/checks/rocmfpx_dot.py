"""Do the SIMD dot products of the ROCmFPx types give what the scalar ones give, and faster?

    python rocmfpx_dot.py --bin STEPBIN --source TREE --work DIR

On this machine: against the scalar function beside and against double precision, all numbers of
blocks up to 17, invalid scales and the largest sums among them; the FP4 types at least twice as
fast as scalar; and the golden vectors, encoded, decoded and in both dot products. NEON: the same
sources cross-compiled and run under qemu-user, where both are found (packages g++-aarch64-linux-gnu
and qemu-user); the encoder as well, since that compiler forms FMAs.
Exit status: 0 holds, 1 does not hold, 3 no C++ compiler.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from rocmfpx_types import (
    DRIVER,
    FAIL,
    NO_ENVIRONMENT,
    PASS,
    Outcome,
    build,
    golden_lines,
    keeps_contraction_off,
    run_driver,
)

CHECK: Final = "rocmfpx-dot"
SHIM: Final = Path(__file__).with_name("rocmfpx_shim.cpp")
CROSS, EMULATOR = "aarch64-linux-gnu-", "qemu-aarch64"
C_SOURCES: Final = (
    "ggml/src/ggml.c",
    "ggml/src/ggml-quants.c",
    "ggml/src/ggml-quants-rocmfpx.c",
    "ggml/src/ggml-cpu/quants.c",
    "ggml/src/ggml-cpu/arch/arm/quants.c",
)
CXX_SOURCES: Final = ("ggml/src/gguf.cpp", "ggml/src/ggml-threading.cpp")
ARCHITECTURES: Final = ("armv8-a", "armv8.2-a+dotprod")
TOOLS: Final = (f"{CROSS}gcc", f"{CROSS}g++", EMULATOR)
MODES: Final = (("golden",), ("simd", "400", "1"), ("encode", "60", "1"), ("decode",))
VERSION: Final = '#define GGML_VERSION "check"\n#define GGML_COMMIT "check"\n'


def judge_speed(program: Path) -> Iterator[Outcome]:
    """Compare FP4 with its scalar function; the table goes to the report."""
    done = subprocess.run([program, "speed", "60"], capture_output=True, text=True, check=True)
    times = json.loads(done.stdout)
    for name in ("q4_0_rocmfp4", "q4_0_rocmfp4_fast"):
        ratio = times[f"{name} scalar"] / times[name]
        yield f"{name}, {ratio:.1f} times scalar", 1, "" if ratio >= 2 else f"{ratio:.2f} < 2"
    sys.stderr.write(f"ns per 1000 values: {done.stdout}")


def absent_tools() -> list[str]:
    """List what NEON code cannot be compiled or run without."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def compile_neon(source: Path, work: Path, architecture: str) -> Path:
    """Compile the driver and what it needs of ggml; the encoder with the build's own options."""
    folder = work / architecture
    folder.mkdir(exist_ok=True)
    (folder / "ggml-version.h").write_text(VERSION)
    parts = [source / "ggml" / part for part in ("include", "src", "src/ggml-cpu")]
    words = ["-O2", "-DNDEBUG", "-D_GNU_SOURCE", "-ffunction-sections", "-fdata-sections"]
    words += [f"-march={architecture}", f"-I{folder}", *(f"-I{part}" for part in parts)]

    def compile_one(name: str) -> Path:
        out = folder / (name.replace("/", "_") + ".o")
        own = ["-ffp-contract=off"] if keeps_contraction_off(source, name) else []
        command: list[str | Path] = [f"{CROSS}gcc", "-std=gnu11", *words, *own]
        command += ["-c", source / name, "-o", out]
        subprocess.run(command, check=True, capture_output=True)
        return out

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, C_SOURCES))
    command: list[str | Path] = [f"{CROSS}g++", "-std=c++17", *words, "-ffp-contract=off"]
    command += [DRIVER, SHIM, *(source / name for name in CXX_SOURCES), *objects]
    command += ["-Wl,--gc-sections", "-static", "-o", folder / "driver"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "driver"


def run_emulated(program: Path, *mode: str) -> Outcome:
    """Run a mode of the driver under the emulator."""
    return run_driver(Path(shutil.which(EMULATOR) or ""), program, *mode, lines=golden_lines())


def judge_neon(source: Path, work: Path) -> Iterator[Outcome]:
    """Run the driver under the emulator for each architecture."""
    for architecture in ARCHITECTURES:
        try:
            program = compile_neon(source, work, architecture)
        except subprocess.CalledProcessError as error:
            yield architecture, 1, error.stderr.decode(errors="replace")[-600:]
            continue
        for mode in MODES:
            _, cases, wrong = run_emulated(program, *mode)
            yield f"{architecture} {mode[0]}", cases, wrong


def judge(source: Path, folder: Path, work: Path) -> tuple[list[Outcome], str]:
    """Give the outcomes, and what was not run."""
    program = build(source, folder, work)
    found = [run_driver(program, "simd", "3000", "1")]
    if found[0][2]:
        return found, ""
    found.append(run_driver(program, "golden", lines=golden_lines()))
    if platform.machine() == "x86_64":
        found += judge_speed(program)
    if absent := absent_tools():
        return found, f"NEON was not run: no {', '.join(absent)}"
    return [*found, *judge_neon(source, work)], ""


def main() -> int:
    """Read the command line and judge the build."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bin", "--source", "--work"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--root", type=Path, help="not used")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    source, work = arguments.source.resolve(), arguments.work.resolve()
    try:
        found, left_out = judge(source, arguments.bin.resolve(), work)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        sys.stdout.write(json.dumps({"check": CHECK, "cases": 0, "detail": str(error)}) + "\n")
        return NO_ENVIRONMENT
    wrong = {what: text for what, _, text in found if text}
    detail = {"looked at": [what for what, _, _ in found], "wrong": wrong, "not run": left_out}
    cases = sum(cases for _, cases, _ in found)
    document = {"check": CHECK, "cases": cases, "passed": not wrong, "detail": detail}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return FAIL if wrong else PASS


if __name__ == "__main__":
    sys.exit(main())
