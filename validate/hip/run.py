"""The HIP half of a run: compile the files in which two trees differ, and judge their kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from series.model import IsaAllowance, Series, Stack
from upstream.errors import InvalidMeasurement
from validate.hip.compile import Compiled, HipBench, compile_files
from validate.hip.compiler import HipCompiler
from validate.hip.gate import judge_kernel
from validate.hip.kernels import WHOLE_FILE, Kernel, KernelPair, pair_kernels
from validate.hip.sources import HipTree, read_hip_tree, removed_lines
from validate.isa.judge import BASE, TIP, Change, StepChanges, loosest
from validate.isa.statistics import Numbers
from validate.isa.workshop import Workshop

FEW = 8  # files in a line for people
# Compiled for all files that differ only in headers outside of ggml-cuda, such as a new block in
# ggml-common.h, or in lines added to headers of it, such as a new function in common.cuh: there are
# 230, which would take an hour and have the same code.
SAMPLE = ("convert.cu", "getrows.cu", "mmvq.cu", "template-instances/mmq-instance-q4_0.cu")
NOTHING = "HIP: no ggml-cuda file changed: 0 cases, nothing was compiled"
Find = Callable[[], HipCompiler]


@dataclass(frozen=True)
class HipSide:
    """A tree that is compared: its name (a patch, base, tip), sources, and what it may do."""

    name: str
    tree: HipTree
    allowance: IsaAllowance | None = None


@dataclass(frozen=True)
class HipStep:
    """A step against its parent. files: those whose sources differ, below ggml/src/ggml-cuda.

    `changes.same` counts kernels of these files only. left_out: files that differ only as SAMPLE
    says and were not compiled.
    """

    files: tuple[str, ...]
    changes: StepChanges
    left_out: int = 0


@dataclass(frozen=True)
class HipRun:
    """The outcome; without a compiler nothing had to be compiled: 0 cases, which is no pass.

    fresh: whether something was compiled that was not known.
    """

    compiler: HipCompiler | None
    steps: tuple[HipStep, ...]
    fresh: bool = False

    @property
    def summary(self) -> str:
        """One line on what was compiled."""
        if self.compiler is None:
            return NOTHING
        files = sorted({file for step in self.steps for file in step.files})
        most = max(step.left_out for step in self.steps)
        return f"HIP: compiled by {self.compiler.version}: {list_few(files)}{say_left_out(most)}"

    @property
    def judged(self) -> tuple[StepChanges, ...]:
        """The comparisons of steps that change a file."""
        return tuple(step.changes for step in self.steps if step.files)


@dataclass(frozen=True)
class HipPlan:
    """What is compared, and of each pair the files that are compiled and how many are left out.

    bench: None where there is nothing to compile.
    """

    bench: HipBench | None
    pairs: Sequence[tuple[HipSide, HipSide]]
    chosen: Sequence[tuple[list[str], int]]


def measure_hip(
    shop: Workshop, series: Series, stack: Stack, find: Find, *, bar: bool = False
) -> HipRun:
    """Judge every step of a stack against its parent, and the tip against upstream."""
    return compare_planned(plan_hip(shop, series, stack, find, bar=bar))


def plan_hip(
    shop: Workshop, series: Series, stack: Stack, find: Find, *, bar: bool = False
) -> HipPlan:
    """Choose what is compiled of a stack; quick.

    `find` is asked for the compiler only when a file changed. Raises InvalidMeasurement when the
    stack has no step.
    """
    if not stack.steps:
        raise InvalidMeasurement("the stack has no step", remedy="add a patch to the series")
    sides = [HipSide(BASE, read_hip_tree(shop, stack.tree))]
    for step in stack.steps:
        allowance = series.claim(step.patch).isa
        sides.append(HipSide(step.patch, read_hip_tree(shop, step.tree), allowance))
    pairs = list(pairwise(sides))
    if len(stack.steps) > 1:
        tip = HipSide(TIP, sides[-1].tree, loosest(side.allowance for side in sides))
        pairs.append((sides[0], tip))
    return _plan(shop, pairs, find, bar=bar)


def compare_sides(
    shop: Workshop, pairs: Sequence[tuple[HipSide, HipSide]], find: Find, *, bar: bool = False
) -> HipRun:
    """Compile what differs in each pair, and judge it."""
    return compare_planned(_plan(shop, pairs, find, bar=bar))


def _plan(
    shop: Workshop, pairs: Sequence[tuple[HipSide, HipSide]], find: Find, *, bar: bool
) -> HipPlan:
    chosen = [
        choose_compiled(*pair, removed_lines(shop, *(side.tree for side in pair))) for pair in pairs
    ]
    bench = HipBench(shop, find(), bar) if any(files for files, _ in chosen) else None
    return HipPlan(bench, pairs, chosen)


def compare_planned(plan: HipPlan) -> HipRun:
    """Compile all that is chosen, and judge it."""
    if plan.bench is None:
        return HipRun(None, tuple(_idle(*pair) for pair in plan.pairs))
    bench = plan.bench
    wanted = [
        (side.tree, file)
        for pair, (files, _) in zip(plan.pairs, plan.chosen, strict=True)
        for side in pair
        for file in files
        if file in side.tree.digests
    ]
    keys = {bench.key(*each) for each in wanted}
    fresh = not keys <= bench.shop.look_up(keys).keys()
    compiled = compile_files(bench, wanted)
    both = zip(plan.pairs, plan.chosen, strict=True)
    steps = (_compare(bench, compiled, *pair, *some) for pair, some in both)
    return HipRun(bench.compiler, tuple(steps), fresh)


def say_left_out(number: int) -> str:
    """The end of a sentence about what was compiled."""
    what = "only in shared headers or lines added to headers"
    return f"; {number} files that differ {what} were left out" if number else ""


def list_few(files: Sequence[str]) -> str:
    """Files by name, and how many more there are."""
    more = len(files) - FEW
    return ", ".join(files[:FEW]) + (f" and {more} more" if more > 0 else "")


def differing_files(parent: HipSide, step: HipSide) -> list[str]:
    """The files whose own text or includes differ, new and removed ones among them."""
    before, after = parent.tree.digests, step.tree.digests
    return [file for file in sorted({*before, *after}) if before.get(file) != after.get(file)]


def choose_compiled(
    parent: HipSide, step: HipSide, removed: Mapping[str, int]
) -> tuple[list[str], int]:
    """The differing files that are compiled, and how many are left out: see SAMPLE.

    removed: the files of ggml-cuda in which the sides differ, and how many lines each has lost.
    """
    files = differing_files(parent, step)
    grown = {file for file, lines in removed.items() if not lines}
    shared = [file for file in files if _differs_as_sampled(file, parent, step, removed, grown)]
    if len(shared) <= FEW:
        return files, 0
    sample = [file for file in shared if file in SAMPLE] or shared[: len(SAMPLE)]
    own = [file for file in files if file not in set(shared)]
    return sorted([*own, *sample]), len(shared) - len(sample)


def _differs_as_sampled(
    file: str, parent: HipSide, step: HipSide, removed: Mapping[str, int], grown: Set[str]
) -> bool:
    sides = (parent.tree.closures, step.tree.closures)
    if file in removed or any(file not in side for side in sides):
        return False
    return all(set(side[file]) & set(removed) <= grown for side in sides)


def _idle(parent: HipSide, step: HipSide) -> HipStep:
    return HipStep((), StepChanges(step.name, parent.name, 0, 0, 0, ()))


def _compare(
    bench: HipBench,
    compiled: Mapping[str, Compiled],
    parent: HipSide,
    step: HipSide,
    files: list[str],
    left_out: int,
) -> HipStep:
    before, after = (
        {file: compiled[bench.key(side.tree, file)] for file in files if file in side.tree.digests}
        for side in (parent, step)
    )
    found: list[tuple[KernelPair, Numbers | None, Numbers | None]] = []
    for file in files:
        found += _pair(file, before.get(file, Compiled()), after.get(file, Compiled()))
    name = bench.compiler.name
    changes = [
        judge_kernel(name, pair, old, new, step.allowance)
        for pair, old, new in found
        if old != new or (old is not None and old.error)
    ]
    return HipStep(tuple(files), _count(parent, step, len(found), changes), left_out)


def _pair(
    file: str, before: Compiled, after: Compiled
) -> Iterator[tuple[KernelPair, Numbers | None, Numbers | None]]:
    """The kernels of a file with both numbers; the file as one where it does not compile."""
    if before.error or after.error:
        whole = Kernel(file, WHOLE_FILE, "")
        sides = [Numbers(error=each.error) if each.error else None for each in (before, after)]
        yield KernelPair(whole, whole), sides[0], sides[1]
        return
    for pair in pair_kernels(list(before.kernels), list(after.kernels)):
        old = before.kernels[pair.before] if pair.before else None
        new = after.kernels[pair.after] if pair.after else None
        yield pair, old, new


def _count(parent: HipSide, step: HipSide, total: int, changes: list[Change]) -> StepChanges:
    return StepChanges(
        step=step.name,
        parent=parent.name,
        same=total - len(changes),
        new=sum(change.pair.before is None for change in changes),
        gone=sum(change.pair.after is None for change in changes),
        changes=tuple(changes),
    )
