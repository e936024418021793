"""A whole run: record every tree, compile what differs, judge, and add up."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise, starmap

from series.model import IsaAllowance, Series, Stack
from upstream.errors import InvalidMeasurement
from validate.hip.compiler import HipCompiler
from validate.hip.run import HipRun
from validate.isa.compilers import Compiler
from validate.isa.judge import BASE, TIP, Change, StepChanges, add_changes, judge, loosest
from validate.isa.recording import Bench, Recorded, read_trees
from validate.isa.spirv import Shader, compile_shaders
from validate.isa.statistics import Numbers, Request, ask_compilers, code_key, known_numbers
from validate.isa.variants import (
    FAMILY_NAMES,
    Pair,
    Variant,
    halve_rows,
    pair_variants,
    sweep_rows,
)

LOGGER = logging.getLogger("lab")


class Scope(Enum):
    """How much is compiled beside what differs: nothing; of base and tip the float mat-vecs of one
    subgroup; all mat-vecs; everything.
    """

    CHANGED = "changed"
    USUAL = "usual"
    MAT_VEC = "mat-vec"
    ALL = "all"


@dataclass(frozen=True)
class Tree:
    """A tree that is compared: its name (a patch, base, tip) and what it sets up."""

    name: str
    recorded: Recorded
    allowance: IsaAllowance | None = None


@dataclass(frozen=True)
class Scan:
    """All numbers of one tree under one compiler; a variant that was not compiled is missing.

    `swept`: the float mat-vecs with 2 and 4 rows, whatever the host chooses. `halved`: the numbers
    with half the rows, by the host's variant.
    """

    tree: str
    compiler: str
    numbers: Mapping[Variant, Numbers]
    swept: Mapping[Variant, Numbers]
    recorded: int
    halved: Mapping[Variant, Numbers] = field(default_factory=dict)


@dataclass(frozen=True)
class IsaRun:
    """The outcome: one comparison a step, and tip against base; scans of base and tip.

    hip: what was compiled for ROCm beside the shaders.
    """

    upstream: str
    scope: Scope
    compilers: tuple[Compiler | HipCompiler, ...]
    glslc: str
    steps: tuple[StepChanges, ...]
    scans: tuple[Scan, ...]
    idle: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    hip: str = ""


@dataclass
class Session:
    """What is known while a run goes on: compiled shaders by source, numbers by key.

    large: changed mat-vecs of several subgroups are compiled too; they take most of the time.
    """

    bench: Bench
    compilers: Sequence[Compiler]
    large: bool = False
    shaders: dict[str, Shader] = field(default_factory=dict)
    numbers: dict[str, Numbers] = field(default_factory=dict)
    fresh: int = 0  # pipelines that no earlier run compiled

    def compile(self, wanted: Iterable[tuple[Recorded, Iterable[Variant]]]) -> None:
        """Make sure of the SPIR-V of some variants of trees."""
        names = {
            each.source: (recorded, each.shader)
            for recorded, variants in wanted
            for each in variants
            if each.source not in self.shaders
        }
        self.shaders |= compile_shaders(self.bench, list(names.values()))

    def ask(self, compared: Iterable[Variant], scanned: Iterable[Variant] = ()) -> None:
        """Make sure of the numbers of variants whose shaders are compiled; nothing is said about
        the LDS instructions of a scanned one that is not compared too.
        """
        requests = self._requests(compared)
        full = {each.key for each in requests}
        plain = self._requests(scanned, access=False)
        known = known_numbers(self.bench.shop, [*requests, *map(_with_access, plain), *plain])
        requests += [each for each in plain if _with_access(each).key not in full | known.keys()]
        missing = [each for each in requests if each.key not in known]
        self.fresh += len(missing)
        self.numbers |= known | ask_compilers(self.bench.shop, missing)

    def recall(self, variants: Iterable[Variant]) -> None:
        """Look up numbers from earlier runs, and compile nothing."""
        known = [each for each in variants if each.source in self.shaders]
        plain = self._requests(known, access=False)
        self.numbers |= known_numbers(self.bench.shop, [*map(_with_access, plain), *plain])

    def find(self, compiler: Compiler, variant: Variant | None) -> Numbers | None:
        """The numbers of a variant; with an error where its shader does not compile."""
        shader = self.shaders.get(variant.source) if variant else None
        if variant is None or shader is None:
            return None
        if shader.error:
            return Numbers(error=shader.error)
        plain = Request(compiler, variant, shader, access=False)
        return self.numbers.get(_with_access(plain).key) or self.numbers.get(plain.key)

    def differ(self, pair: Pair) -> bool:
        """Whether a compiler could tell the two apart."""
        sides = [each for each in (pair.before, pair.after) if each]
        shaders = [self.shaders[each.source] for each in sides]
        if len(sides) == 1 or any(shader.error for shader in shaders):
            return True
        return code_key(sides[0], shaders[0]) != code_key(sides[1], shaders[1])

    def wants(self, pair: Pair) -> bool:
        """Whether a pair that differs is compiled."""
        return self.large or not pair.variant.large

    def _requests(self, variants: Iterable[Variant], *, access: bool = True) -> list[Request]:
        found = [(each, self.shaders[each.source]) for each in dict.fromkeys(variants)]
        return [
            Request(compiler, variant, shader, access)
            for compiler in self.compilers
            for variant, shader in found
            if not shader.error
        ]


def _with_access(request: Request) -> Request:
    return replace(request, access=True)


def run_isa(
    bench: Bench, compilers: Sequence[Compiler], series: Series, stack: Stack, scope: Scope
) -> IsaRun:
    """Judge every step of a stack against its parent, and the tip against upstream.

    Raises InvalidMeasurement when the stack has no step.
    """
    if not stack.steps:
        raise InvalidMeasurement("the stack has no step", remedy="add a patch to the series")
    trees = record_stack(bench, series, stack)
    base, tip = trees[0], Tree(TIP, trees[-1].recorded, loosest(tree.allowance for tree in trees))
    session = Session(bench, compilers, large=scope in (Scope.MAT_VEC, Scope.ALL))
    pairs = list(pairwise(trees))
    pairs += [(base, tip)] if len(stack.steps) > 1 else []
    _compile_all(session, scope, pairs, (base.recorded, tip.recorded))
    steps = tuple(compare_trees(session, *pair) for pair in pairs)
    scans = tuple(_scan(session, each, tree) for tree in (base, tip) for each in compilers)
    return IsaRun(
        upstream=str(stack.version),
        scope=scope,
        compilers=tuple(compilers),
        glslc=bench.glslc.splitlines()[0],
        steps=steps,
        scans=scans,
        idle=tip.recorded.idle,
        off=tip.recorded.off,
    )


def add_hip(run: IsaRun, hip: HipRun) -> IsaRun:
    """One table and one gate for both: each step with its kernels after its pipelines."""
    both = zip(run.steps, (each.changes for each in hip.steps), strict=True)
    compilers = (*run.compilers, hip.compiler) if hip.compiler else run.compilers
    steps = tuple(starmap(add_changes, both))
    return replace(run, compilers=compilers, steps=steps, hip=hip.summary)


def record_stack(bench: Bench, series: Series, stack: Stack) -> list[Tree]:
    """The base and every step, recorded."""
    recorded = read_trees(bench, [stack.tree, *(step.tree for step in stack.steps)])
    allowances = [series.claim(step.patch).isa for step in stack.steps]
    steps = [
        Tree(step.patch, tree, allowance)
        for step, tree, allowance in zip(stack.steps, recorded[1:], allowances, strict=True)
    ]
    return [Tree(BASE, recorded[0]), *steps]


def compare_trees(session: Session, parent: Tree, step: Tree) -> StepChanges:
    """Compile what differs between two trees, and judge it."""
    before, after = parent.recorded, step.recorded
    pairs = pair_variants(before.variants, after.variants)
    session.compile(_sides(before, after, pairs))
    differing = [pair for pair in pairs if session.differ(pair)]
    changed = [pair for pair in differing if session.wants(pair)]
    session.ask(each for pair in changed for each in (pair.before, pair.after) if each)
    changes = [_judge(session, each, pair, step) for pair in changed for each in session.compilers]
    new = sum(pair.before is None for pair in changed)
    same = len(after.variants) - sum(pair.after is not None for pair in differing)
    gone = sum(pair.after is None for pair in changed)
    left = len(differing) - len(changed)
    return StepChanges(step.name, parent.name, same, new, gone, tuple(changes), left)


def _judge(session: Session, compiler: Compiler, pair: Pair, step: Tree) -> Change:
    sides = (session.find(compiler, pair.before), session.find(compiler, pair.after))
    return judge(compiler.name, pair, *sides, step.allowance)


def _sides(
    before: Recorded, after: Recorded, pairs: Sequence[Pair]
) -> list[tuple[Recorded, list[Variant]]]:
    return [
        (before, [pair.before for pair in pairs if pair.before]),
        (after, [pair.after for pair in pairs if pair.after]),
    ]


def _compile_all(
    session: Session,
    scope: Scope,
    compared: Sequence[tuple[Tree, Tree]],
    scanned: Sequence[Recorded],
) -> None:
    """All that the comparisons and a scope take, at once: so no compiler waits for another step."""
    chosen = {tree.subtree: (tree, choose(scope, tree.variants)) for tree in scanned}
    wanted: list[tuple[Recorded, list[Variant]]] = list(chosen.values())
    pairs: list[Pair] = []
    for parent, step in compared:
        found = pair_variants(parent.recorded.variants, step.recorded.variants)
        wanted += _sides(parent.recorded, step.recorded, found)
        pairs += found
    session.compile(wanted)
    scanned_variants = [each for _, variants in chosen.values() for each in variants]
    changed = [pair for pair in pairs if session.wants(pair) and session.differ(pair)]
    compared_variants = [each for pair in changed for each in (pair.before, pair.after) if each]
    session.ask(compared_variants, scanned_variants)


def choose(scope: Scope, variants: Sequence[Variant]) -> list[Variant]:
    """What a scope compiles of a tree beside that which differs."""
    if scope is Scope.CHANGED:
        return []
    if scope is Scope.USUAL:
        return [each for each in variants if each.small and each.input == "f32"]
    wanted = ("mat-vec", "mat-vec id") if scope is Scope.MAT_VEC else tuple(FAMILY_NAMES)
    chosen = [each for each in variants if each.family in wanted]
    return [*sweep_rows(variants), *halve_rows(variants).values(), *chosen]


def _scan(session: Session, compiler: Compiler, tree: Tree) -> Scan:
    """The numbers at hand, those of earlier runs among them."""
    variants, swept = tree.recorded.variants, sweep_rows(tree.recorded.variants)
    halves = halve_rows(variants)
    session.recall([*variants, *swept, *halves.values()])
    halved = _collect(session, compiler, halves.values())
    return Scan(
        tree.name,
        compiler.name,
        _collect(session, compiler, variants),
        _collect(session, compiler, swept),
        len(variants),
        {each: halved[half] for each, half in halves.items() if half in halved},
    )


def _collect(
    session: Session, compiler: Compiler, variants: Iterable[Variant]
) -> dict[Variant, Numbers]:
    pairs = ((each, session.find(compiler, each)) for each in variants)
    return {each: numbers for each, numbers in pairs if numbers is not None}
