"""How much is measured: `quick` (minutes on two cores) and `full`; and which cells that makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upstream.errors import UsageError
from validate import speed_tools
from validate.cells import Cell
from validate.guards import Placement
from validate.samplers import Job

NONE = "none"


@dataclass(frozen=True)
class Profile:
    """Sizes, thresholds and times of a run.

    prompt, generate: tokens of llama-bench at each of `depths` tokens of context; parallel: the
    sequences of llama-batched-bench (none: not run). threads: 0 takes those of the command line.
    minimum: the smallest relative effects that matter, for prompt, generation and operators.
    looks, control_quads: see comparison.Plan. seconds: for the speed of the whole stack.
    limit: seconds for one process.
    """

    name: str
    prompt: int
    generate: int
    depths: tuple[int, ...]
    parallel: tuple[int, ...]
    threads: int
    minimum: tuple[float, float, float]
    looks: tuple[int, ...]
    control_quads: int
    seconds: float
    limit: float


# One thread: on a shared machine of two cores ggml's threads wait for each other by spinning, and
# one that the system took off its core stops both. Measured on such a machine beside builds, pp32:
# 0.25 s against 1.2 s, standard deviation of the logarithm 0.26 against 0.83.
# Sizes: a process takes 0.9 s there when it is quiet, half of it measured; pp32 and tg16 take 0.6 s
# and spread more than the time they save is worth.
QUICK = Profile(
    name="quick",
    prompt=64,
    generate=32,
    depths=(0,),
    parallel=(),
    threads=1,
    minimum=(0.05, 0.05, 0.05),
    looks=(8, 14, 20),
    control_quads=8,
    seconds=720.0,
    limit=120.0,
)
FULL = Profile(
    name="full",
    prompt=128,
    generate=32,
    depths=(0, 512),
    parallel=(1, 4),
    threads=0,
    minimum=(0.02, 0.015, 0.05),
    looks=(8, 14, 20),
    control_quads=8,
    seconds=4 * 3600.0,
    limit=1800.0,
)
PROFILES = {profile.name: profile for profile in (QUICK, FULL)}


def find_profile(name: str) -> Profile | None:
    """The profile of that name, None for "none". Raises UsageError for an unknown one."""
    if name == NONE:
        return None
    if name not in PROFILES:
        raise UsageError(
            f"there is no profile '{name}'", remedy=f"take one of {', '.join((*PROFILES, NONE))}"
        )
    return PROFILES[name]


def bench_job(profile: Profile, model: str, placement: Placement) -> Job:
    """llama-bench: prompt and generation at every depth, in one process."""
    prompt, generate, _ = profile.minimum
    cells = []
    for depth in profile.depths:
        cells.append(_cell(speed_tools.BENCH, _prompt(profile, depth), prompt))
        cells.append(_cell(speed_tools.BENCH, _generation(profile, depth), generate))
    arguments = speed_tools.bench_arguments(
        model, placement, profile.prompt, profile.generate, profile.depths
    )
    read = _bind(speed_tools.read_bench, placement)
    return Job(speed_tools.BENCH, tuple(cells), arguments, read, profile.limit)


def batched_job(profile: Profile, model: str, placement: Placement) -> Job:
    """llama-batched-bench: several sequences at once, in one process."""
    cells = []
    for parallel in profile.parallel:
        names = speed_tools.name_batched(profile.prompt, profile.generate, parallel)
        for name, minimum in zip(names, profile.minimum[:2], strict=True):
            cells.append(_cell(speed_tools.BATCHED, name, minimum))
    arguments = speed_tools.batched_arguments(
        model, placement, profile.prompt, profile.generate, profile.parallel
    )
    read = _bind(speed_tools.read_batched, placement)
    return Job(speed_tools.BATCHED, tuple(cells), arguments, read, profile.limit, torn=True)


def ops_job(
    profile: Profile,
    placement: Placement,
    arguments: tuple[str, ...],
    cases: Sequence[str],
    skipped: Mapping[str, str] | None = None,
) -> Job:
    """test-backend-ops perf; `cases` and `skipped` are what the parent was found to do."""
    cells = tuple(Cell(speed_tools.OPS, case, "us", profile.minimum[2]) for case in cases)
    read = _bind(speed_tools.read_ops, placement)
    return Job(speed_tools.OPS, cells, arguments, read, profile.limit, skipped=skipped or {})


def _bind(read: speed_tools.PlacedReader, placement: Placement) -> speed_tools.Reader:
    return lambda output: read(output, placement)


def _cell(tool: str, name: str, minimum: float) -> Cell:
    return Cell(tool, name, "t/s", minimum)


def _prompt(profile: Profile, depth: int) -> str:
    return speed_tools.name_test(profile.prompt, 0, depth)


def _generation(profile: Profile, depth: int) -> str:
    return speed_tools.name_test(0, profile.generate, depth)
