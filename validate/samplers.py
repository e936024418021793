"""Samplers: one process a call, its numbers guarded before anybody counts them."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from upstream.process import Completed
from validate import guards, speed_tools
from validate.artifacts import StepBinaries
from validate.cells import Arm, Cell, Sample
from validate.guards import Placement, Probe, Watch
from validate.quads import Track
from validate.room import Room, last_line
from validate.sample_store import StoredSample
from validate.speed_tools import Reader, Table

TRIES = 4
RECENT_SECONDS = 600.0  # an interrupted quad is finished within this time, else begun anew
CLOCK_SLACK = 0.05  # s: the programs' clock against ours
Arms = Mapping[Arm, StepBinaries]


@dataclass(frozen=True)
class Job:
    """One process that measures several cells.

    limit: seconds after which it is ended with all that it started. torn: the program writes
    through llama.cpp's logger, which may lose the end of the output (see Room.run_whole).
    skipped: cases that the parent skips, with the reasons; the step must skip them too.
    """

    target: str
    cells: tuple[Cell, ...]
    arguments: tuple[str, ...]
    read: Reader
    limit: float
    torn: bool = False
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(cell.name for cell in self.cells)


@dataclass(frozen=True)
class ProcessSampler:
    """Runs the job with the binaries of an arm; `watch` is shared by all samplers of a session."""

    room: Room
    job: Job
    arms: Arms
    watch: Watch = field(default_factory=Watch)

    def sample(self, arm: Arm, quad: int, position: int) -> Mapping[str, Sample]:
        """The numbers of one process by cell.

        Raises InvalidMeasurement when it hangs, dies, prints nonsense, or a guard fails.
        """
        done, table = run_job(self.room, self.job, self.arms[arm])
        planned = {*self.job.names, *self.job.skipped}
        guards.require_cases(self.job.target, planned, table.cases, table.skipped)
        samples = {}
        for name, reading in table.cases.items():
            self.watch.require_same(self.job.target, name, arm, reading.facts)
            facts = dict(reading.facts)
            samples[name] = Sample(name, arm, quad, position, reading.value, done.seconds, facts)
        return samples


def run_job(room: Room, job: Job, binaries: StepBinaries) -> tuple[Completed, Table]:
    """Run once (again while the end of the output was lost) and read what it measured."""
    for _ in range(TRIES if job.torn else 1):
        done = room.run(binaries, job.target, *job.arguments, seconds=job.limit)
        if done.code != 0:
            raise InvalidMeasurement(f"{job.target} {_describe_end(done)}")
        table = job.read(done.text)
        if len(table.cases) >= len(job.cells):
            break
    _require_plausible(job, done, table)
    return done, table


def probe(room: Room, binaries: StepBinaries, placement: Placement, limit: float) -> Probe:
    """Ask the step's llama-bench what it sees and does, and refuse what was not asked for.

    Raises InvalidMeasurement when it cannot load the model, with its own words.
    """
    target = speed_tools.BENCH
    guards.require_own_binaries(binaries, target)
    listed = room.run(binaries, target, "--list-devices", seconds=limit)
    found = speed_tools.read_probe(listed.text, "")
    guards.require_device(found, placement)
    arguments = speed_tools.probe_arguments(room.model.name, placement)
    done = room.run(binaries, target, *arguments, seconds=limit)
    if done.code != 0:
        said = explain_failure(done)
        raise InvalidMeasurement(f"{target} cannot measure with {room.model.name}: {said}")
    found = speed_tools.read_probe(listed.text, done.stderr.decode("utf-8", "replace"))
    guards.require_splits(found)
    guards.require_offloaded(found, placement)
    return found


def explain_failure(done: Completed) -> str:
    """The first error that a program told, with its exit code."""
    lines = (done.stderr + b"\n" + done.stdout).decode("utf-8", "replace").splitlines()
    errors = [line.strip() for line in lines if "error" in line.lower()]
    return f"{errors[0][:300]} (exit code {done.code})" if errors else _describe_end(done)


def make_twin(lab: Lab, binaries: StepBinaries) -> StepBinaries:
    """The step's own copy in another folder: hard links, or copies where links cannot be made.

    The new path is as long as the old one: the length of argv[0] moves the stack, and with it the
    speed (Mytkowicz et al., Producing Wrong Data Without Doing Anything Obviously Wrong, 2009).
    """
    folder = lab.root / "twins" / binaries.key / "bin"
    half = folder.with_name(f".half-{os.getpid()}")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    for name, file in binaries.files.items():
        if file.link:
            (half / name).symlink_to(file.link)
        else:
            _link(binaries.folder / name, half / name)
    shutil.rmtree(folder, ignore_errors=True)
    half.rename(folder)
    return replace(binaries, folder=folder)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or too many links
        shutil.copy2(source, target)


def _describe_end(done: Completed) -> str:
    how = f"was ended by signal {-done.code}" if done.code < 0 else f"ended with {done.code}"
    return f"{how}: {last_line(done.stdout, done.stderr)}"


def _require_plausible(job: Job, done: Completed, table: Table) -> None:
    """What was measured one after the other cannot take longer than the process lived."""
    measured = sum(reading.seconds for reading in table.cases.values())
    if measured > done.seconds * (1 + CLOCK_SLACK) + CLOCK_SLACK:
        raise InvalidMeasurement(
            f"{job.target} measured {measured:.3g} s in a process that lived {done.seconds:.3g} s",
            remedy="look after the machine's clock",
        )


@dataclass(frozen=True)
class StoredSampler:
    """Writes every sample before it is used, and takes those of a quad that was just cut off.

    `recent` holds samples by quad and position; older ones are left to compare(), which measures
    a quad of two distant times again as a whole.
    """

    inner: ProcessSampler
    write: Callable[[Mapping[str, Sample]], None]
    recent: Mapping[tuple[int, int], Mapping[str, Sample]] = field(default_factory=dict)

    def sample(self, arm: Arm, quad: int, position: int) -> Mapping[str, Sample]:
        """A stored sample of this place, or a new one that is stored now."""
        found = self.recent.get((quad, position), {})
        if {*self.inner.job.names} == {*found} and all(s.arm == arm for s in found.values()):
            for name, sample in found.items():
                self.inner.watch.require_same(self.inner.job.target, name, arm, sample.facts)
            return found
        samples = self.inner.sample(arm, quad, position)
        self.write(samples)
        return samples


def watch_stored(job: Job, stored: Sequence[StoredSample]) -> Watch:
    """A watch that has seen the stored samples: they must be of the same fingerprint too."""
    watch = Watch()
    for one in stored:
        watch.require_same(job.target, one.sample.cell, one.sample.arm, one.sample.facts)
    return watch


def find_recent(
    stored: Sequence[StoredSample], track: Track, now: float
) -> dict[tuple[int, int], dict[str, Sample]]:
    """Samples of a moment ago by quad and position: those of a quad that was cut off."""
    found: dict[tuple[int, int], dict[str, Sample]] = defaultdict(dict)
    for one in stored:
        # A calendar that was set back makes the age negative: then nothing is recent.
        if one.track == track and one.sample.quad and 0 <= now - one.taken < RECENT_SECONDS:
            found[one.sample.quad, one.sample.position][one.sample.cell] = one.sample
    return dict(found)
