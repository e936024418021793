"""Which work the Vulkan backend gives the device for an operation, and whether the result is right.

test-backend-ops runs some of its cases with vulkan_dispatches.c before it, which writes down every
dispatch: the pipeline by upstream's name, the groups, its first specialization constants. Checks of
matmuls want a device with VK_KHR_cooperative_matrix; lavapipe of Mesa 26.1 has.

`nox -s validate` says in LAB_VULKAN (JSON) which programs, how they are started, and where the
headers are. Without it a check takes the machine's own driver, if --bin was built with Vulkan.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from check_rows import report_rows

NO_ENVIRONMENT, NOT_MEASURED = 3, 4
VARIABLE: Final = "LAB_VULKAN"
PROGRAM: Final = "test-backend-ops"
SHIM: Final = Path(__file__).with_name("vulkan_dispatches.c")
FLAGS: Final = ("-std=c11", "-O1", "-shared", "-fPIC")
KHR_PATH: Final = "KHR_coopmat"
SECONDS: Final = 1500.0
# Of NVIDIA's devices this is the path too that is checked here.
KHR_ONLY: Final = {"GGML_VK_DISABLE_COOPMAT2": "1"}
_DEVICE: Final = re.compile(r"^ggml_vulkan: \d+ = (.*)matrix cores: (\S+)", re.MULTILINE)
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
# A case is named after it ran: what it was told comes first.
_CASE: Final = re.compile(r"  ([A-Z_]+\(.*?\)): .*?(OK|FAIL|not supported)", re.MULTILINE)
_LINE: Final = re.compile(r"^(\S+) \d+ \d+ \d+ : ([\d ]+)$", re.MULTILINE)

Row = dict[str, Any]


class NotThereError(Exception):
    """What the check takes is not on this machine: not a verdict on the patch."""


class NothingRanError(Exception):
    """No case was run, or no dispatch was seen."""


@dataclass(frozen=True)
class Place:
    """Programs built with Vulkan and how they are started."""

    bin: Path
    start: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    device: str = "Vulkan0"
    headers: str = "/usr/include"
    compiler: str = "cc"


@dataclass(frozen=True)
class Dispatch:
    """One dispatch: the pipeline's name and its specialization constants, 0 where none is given."""

    name: str
    constants: tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """What test-backend-ops said of its cases, and what it dispatched meanwhile."""

    cases: Mapping[str, bool]
    dispatches: tuple[Dispatch, ...]
    device: str

    def named(self, start: str) -> list[Dispatch]:
        """The dispatches of pipelines whose name begins so."""
        return [each for each in self.dispatches if each.name.startswith(start)]

    @property
    def right(self) -> list[Row]:
        """A row for each case: the device agrees with the CPU."""
        return [{"case": f"result of {name}", "passed": good} for name, good in self.cases.items()]


def find_place(folder: Path) -> Place:
    """As told, else the programs of --bin and the machine's driver."""
    if told := os.environ.get(VARIABLE):
        said = json.loads(told)
        paths = {"bin": Path(said["bin"]), "start": tuple(said["start"])}
        return Place(**{**said, **paths})
    if not any(folder.glob("libggml-vulkan.*")):
        raise NotThereError(
            "no Vulkan: run nox -s toolchain and nox -s validate, or give --bin of a Vulkan build"
        )
    return Place(folder)


def build_shim(place: Place, work: Path) -> Path:
    """The library that writes dispatches down."""
    made = work / "dispatches.so"
    command = [place.compiler, *FLAGS, "-I", place.headers, str(SHIM), "-o", str(made), "-ldl"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotThereError(f"no C compiler: {error}") from error
    if done.returncode:
        raise NotThereError(f"{SHIM.name} does not compile: {done.stderr.strip()[-300:]}")
    return made


@dataclass(frozen=True)
class Bench:
    """Where cases run, with the library before them. `path`: of matmuls, None if any will do."""

    place: Place
    shim: Path
    log: Path
    path: str | None

    def run(self, op: str, parameters: str) -> Run:
        """All cases of an operation whose parameters match a regular expression.

        Raises NotThereError on another device and NothingRanError without a case.
        """
        self.log.unlink(missing_ok=True)
        place = self.place
        program = [*place.start, str(place.bin / PROGRAM)]
        command = [*program, "test", "-b", place.device, "-o", op, "-p", parameters]
        watched = {"GGML_VK_DEBUG_MARKERS": "1", "LAB_DISPATCHES": str(self.log)}
        watched |= {**KHR_ONLY, "LD_PRELOAD": str(self.shim)}
        env = {**os.environ, **place.variables, **watched}
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, check=False, timeout=SECONDS
        )
        device = require_device(done.stderr, self.path)
        cases = read_cases(done.stdout)
        dispatches = read_dispatches(self.log.read_text()) if self.log.is_file() else ()
        if not cases or not dispatches:
            said = f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"
            raise NothingRanError(f"{op} {parameters}: no case or no dispatch seen; {said}")
        return Run(cases, dispatches, device)


def require_device(said: str, path: str | None) -> str:
    """The device; refused where matmuls take another path than the wanted one."""
    found = _DEVICE.search(said)
    if found is None or path not in (None, found[2]):
        have = found[2] if found else "none said"
        raise NotThereError(f"the device has no {path or 'Vulkan'}: matrix cores {have}")
    return found[1]


def read_cases(said: str) -> dict[str, bool]:
    """Each case that was run, and whether it passed."""
    found = _CASE.findall(_ANSI.sub("", said))
    return {name: word == "OK" for name, word in found if word != "not supported"}


def read_dispatches(log: str) -> tuple[Dispatch, ...]:
    """The lines of vulkan_dispatches.c."""
    return tuple(Dispatch(name, tuple(map(int, each.split()))) for name, each in _LINE.findall(log))


def run_dispatch_check(
    script: Path,
    purpose: str | None,
    measure: Callable[[Bench], list[Row]],
    path: str | None = KHR_PATH,
) -> int:
    """Read the command line of a check, run it, and return the exit status."""
    arguments = _read_arguments(purpose, sys.argv[1:])
    try:
        place = find_place(arguments.bin)
        arguments.work.mkdir(parents=True, exist_ok=True)
        log = arguments.work / "dispatches"
        bench = Bench(place, build_shim(place, arguments.work), log, path)
        return report_rows(script.stem, measure(bench))
    except NotThereError as error:
        report_rows(script.stem, [], str(error))
        return NO_ENVIRONMENT
    except NothingRanError as error:
        report_rows(script.stem, [], str(error))
        return NOT_MEASURED


def _read_arguments(purpose: str | None, words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=purpose, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=Path, required=True, help="the step's programs")
    parser.add_argument("--work", type=Path, required=True, help="for what is compiled")
    parser.add_argument("--source", type=Path, help="not used")
    parser.add_argument("--root", type=Path, help="not used")
    return parser.parse_args(words)
