"""Find the first error in a build log: which file, which line, what the compiler said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FAILED = re.compile(r"^FAILED: (?:\[code=-?\d+\] )?(\S+)")
_COMPILER = re.compile(
    r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)"
)
_CMAKE = re.compile(r"^CMake Error at (?P<file>.+?):(?P<line>\d+)(?: \((?P<text>\w+)\))?:?")
_LINKER = re.compile(r"undefined reference to|multiple definition of|cannot find -l")
_QUOTE = re.compile(r"\s*\d*\s*\|")  # source text that the compiler shows
# The machine's fault, not the patch's: the step is not blamed for these.
_MACHINE = re.compile(
    r"No space left on device|Disk quota exceeded|virtual memory exhausted|Cannot allocate memory|"
    r"Killed signal terminated program|internal compiler error: Killed|File too large|"
    r"Too many open files"
)


@dataclass(frozen=True)
class CompileError:
    """Where a step does not compile. `file` is relative to the source; `line` 0 when unknown."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.message}"


def find_machine_fault(log: str) -> str | None:
    """The line that says that the machine, not the code, stopped the build."""
    lines = log.splitlines()
    said = (line for line in lines[_find_failed(lines) or 0 :] if not _QUOTE.match(line))
    return next((line.strip() for line in said if _MACHINE.search(line)), None)


def find_compile_error(log: str, source: Path) -> CompileError | None:
    """The first error of the first failed build edge, or CMake's; None where the log has none."""
    lines = log.splitlines()
    start = _find_failed(lines)
    found = _find_in(lines[start or 0 :], source)
    if found is not None or start is None:
        return found
    match = _FAILED.match(lines[start])
    assert match is not None
    # After "FAILED:" ninja repeats the command, then prints what it said.
    said = next((line for line in lines[start + 2 :] if line.strip()), "no output")
    return CompileError(match[1], 0, said.strip())


def _find_failed(lines: list[str]) -> int | None:
    return next((number for number, line in enumerate(lines) if _FAILED.match(line)), None)


def _find_in(lines: list[str], source: Path) -> CompileError | None:
    for number, line in enumerate(lines):
        if match := _COMPILER.match(line):
            return CompileError(_relative(match["file"], source), int(match["line"]), match["text"])
        if match := _CMAKE.match(line):
            text = next((rest.strip() for rest in lines[number + 1 :] if rest.strip()), "")
            return CompileError(_relative(match["file"], source), int(match["line"]), text)
        if _LINKER.search(line):
            return CompileError(_name_linked(lines), 0, line.strip())
    return None


def _name_linked(lines: list[str]) -> str:
    match = _FAILED.match(lines[0]) if lines else None
    return match[1] if match else "link"


def _relative(file: str, source: Path) -> str:
    prefix = f"{source}/"
    return file.removeprefix(prefix)
