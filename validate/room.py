"""Where checks run: a model, a cache of results, fixed thread count and time limit."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from upstream import process
from upstream.errors import CommandError, InvalidMeasurement
from upstream.lab import Lab
from validate.artifacts import StepBinaries
from validate.result_cache import ResultCache

SECONDS = 1800.0
ANY_CODE = range(-64, 256)
ENDED_BY_ITSELF = (0, 1)
TRIES = 8
Whole = Callable[[process.Completed], bool]
# Variables that change what llama.cpp's programs do; every option is given explicitly instead.
FOREIGN = ("LLAMA_", "GGML_", "OMP_", "GOMP_", "HF_", "LD_LIBRARY_PATH", "LD_PRELOAD")


@dataclass(frozen=True)
class Model:
    """A model file; programs run in its folder and name it by `name` alone.

    llama-results aborts when the path it was given differs from the one it stored.
    """

    folder: Path
    name: str
    sha256: str


@dataclass(frozen=True)
class Launch:
    """How a program is started: the command before it and variables for it alone.

    `device` is where its layers go, as `--list-devices` names it, "none" for the CPU. `identity`
    stands for the driver behind it; "" for the CPU. On a `slow` one inputs are short.
    """

    start: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    device: str = "none"
    identity: str = ""
    slow: bool = False

    @property
    def inputs(self) -> dict[str, str]:
        """What it adds to the key of a result."""
        return {"driver": self.identity} if self.identity else {}


@dataclass(frozen=True)
class Room:
    """All that the checks of one run share."""

    lab: Lab
    model: Model
    threads: int = 2
    launch: Launch = field(default_factory=Launch)

    @property
    def cache(self) -> ResultCache:
        return ResultCache(self.lab)

    def run_whole(
        self, binaries: StepBinaries, target: str, args: Sequence[str], whole: Whole
    ) -> process.Completed:
        """Run again while a program that ended by itself lost the end of its output.

        llama.cpp's logger is a thread that is not joined at exit: the last messages may be missing,
        with exit code 0 (https://github.com/ggml-org/llama.cpp/issues/22142; seen in 6 of 25 runs
        of test-llama-archs). Raises InvalidMeasurement after TRIES such runs.
        """
        for _ in range(TRIES):
            done = self.run(binaries, target, *args)
            if done.code not in ENDED_BY_ITSELF or whole(done):
                return done
        raise InvalidMeasurement(
            f"{target} lost the end of its output {TRIES} times: {last_line(done.stdout)}"
        )

    def run(
        self,
        binaries: StepBinaries,
        target: str,
        *args: str,
        seconds: float = SECONDS,
        under: Sequence[str] = (),
    ) -> process.Completed:
        """Run a program of a step in the model's folder; any exit code is an answer.

        `under` is a command that starts it (valgrind); after `seconds` all of it is killed.

        Raises InvalidMeasurement when the step does not have it or it does not end in time.
        """
        require_target(binaries, target)
        command = (*under, *self.launch.start, os.fspath(binaries.folder / target), *args)
        env = {**clean(os.environ), **self.launch.variables}
        try:
            return process.run(
                command, cwd=self.model.folder, env=env, timeout=seconds, ok=ANY_CODE
            )
        except CommandError as error:
            raise InvalidMeasurement(f"{target}: {error.what}") from error


def require_target(binaries: StepBinaries, target: str) -> None:
    """Refuse to go on without a program that this version of the source does not have."""
    if target not in binaries.uses:
        raise InvalidMeasurement(
            f"{target} was not built: the source has no such target",
            remedy="use a version of upstream that has it",
        )


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what steers llama.cpp's programs."""
    return {key: value for key, value in environment.items() if not key.startswith(FOREIGN)}


def last_line(*outputs: bytes) -> str:
    """The last line that says something, for a one-line explanation."""
    text = b"\n".join(outputs).decode("utf-8", "replace")
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it says no more"
