"""What is compared: upstream's versions, the steps of the stack, its tip; and with what.

b10566 -> b11549 (HEAD) -> step -> step -> tip      one leg from each point to the next
HEAD -> tip, b10566 -> tip                          totals, measured directly
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from series.model import Stack
from upstream.download import hash_file
from upstream.errors import EnvironmentFault, UsageError
from upstream.provider import Upstream
from upstream.version import Version
from validate.artifacts import Binary, StepBinaries
from validate.build import Builder, Plan, StepBuild, build_plans
from validate.speed import Pairing
from validate.speed_tools import BENCH, OPS
from validate.toolchain import step_key

TARGETS = (BENCH, OPS)
NUMBER = "LLAMA_BUILD_NUMBER="
ORIGIN = b"$ORIGIN"
Kind = Literal["upstream", "patches", "total"]
_VERSION = re.compile(r"b\d+")


@dataclass(frozen=True)
class Point:
    """A build by its name: a version of upstream, or a patch with all before it.

    `patches` came since the point before it on the chain. `error`: why there is no build.
    """

    name: str
    upstream: bool
    patches: tuple[str, ...] = ()
    binaries: StepBinaries | None = None
    error: str = ""


@dataclass(frozen=True)
class Leg:
    """From one point to another; `across` versions of upstream."""

    kind: Kind
    first: Point
    second: Point
    across: bool = False

    @property
    def name(self) -> str:
        """`b10566 -> b11549`, the patch's name, or how many patches."""
        if self.kind == "patches" and len(self.second.patches) == 1:
            return self.second.name
        more = len(self.second.patches) - 1
        before = f" and {more} before it" if self.kind == "patches" and more > 0 else ""
        return f"{self.first.name} -> {self.second.name}{before}"

    @property
    def pairing(self) -> Pairing:
        """The same as what speed is measured of."""
        assert self.first.binaries
        assert self.second.binaries
        pair = (self.second.binaries, self.first.binaries)
        return Pairing(self.second.name, self.first.name, *pair, self.across)


def list_legs(points: Sequence[Point]) -> list[Leg]:
    """One leg from each built point to the next, then the totals that they should make.

    Raises EnvironmentFault where fewer than two points were built.
    """
    built = [point for point in points if point.binaries]
    if len(built) < 2:
        why = "; ".join(f"{point.name}: {point.error}" for point in points if point.error)
        raise EnvironmentFault(
            f"there are {len(built)} builds, two make a comparison{f' ({why})' if why else ''}",
            remedy="name another version with --base, or more --steps",
        )
    legs = [_join(a, b) for a, b in pairwise(built)]
    head = max((i for i, point in enumerate(built) if point.upstream), default=0)
    starts = [start for start in sorted({head, 0}, reverse=True) if len(built) - start > 2]
    return legs + [Leg("total", built[s], built[-1], across=s < head) for s in starts]


def _join(first: Point, second: Point) -> Leg:
    return Leg("upstream" if second.upstream else "patches", first, second, second.upstream)


def choose_steps(stack: Stack, wanted: str) -> list[int]:
    """Which steps of a stack are named: `all`, `none`, or names with or without `.patch`.

    Raises UsageError for an unknown one.
    """
    names = [step.patch.removesuffix(".patch") for step in stack.steps]
    if wanted in ("all", "none"):
        return list(range(len(names))) if wanted == "all" else []
    asked = [part.strip().removesuffix(".patch") for part in wanted.split(",")]
    if unknown := [name for name in asked if name not in names]:
        raise UsageError(
            f"the series has no patch {', '.join(unknown)}",
            remedy=f"name some of {', '.join(names)}, or all, or none",
        )
    return sorted(names.index(name) for name in asked)


def list_places(chosen: Sequence[int], count: int) -> list[int]:
    """Places on the chain: 0 is the base, n the n-th step; each chosen step with its parent."""
    near = {place for index in chosen for place in (index, index + 1)}
    return sorted({0, count} | near)


def build_points(
    builder: Builder, upstream: Upstream, stack: Stack, bases: Sequence[Version], wanted: str
) -> list[Point]:
    """Build what is compared; finished builds are reused.

    A step that does not build is left out, with its error. Raises what build_plans raises.
    """
    older = sorted(version for version in set(bases) if version != stack.version)
    if late := [str(version) for version in older if version > stack.version]:
        raise UsageError(
            f"{', '.join(late)} is newer than the stack's base {stack.version}",
            remedy="name older versions with --base, or carry the stack there: nox -s rebase",
        )
    points = [_build_version(builder, upstream, version) for version in older]
    places = list_places(choose_steps(stack, wanted), len(stack.steps))
    plans = builder.plan(stack)
    chosen = tuple(plans[place] for place in places)
    before = 0
    for place, build in zip(places, build_plans(builder, chosen), strict=True):
        patches = tuple(step.patch for step in stack.steps[before:place])
        name = build.name if place else str(stack.version)
        points.append(_make_point(name, not place, patches, build))
        before = place if build.binaries else before
    return points


def _build_version(builder: Builder, upstream: Upstream, version: Version) -> Point:
    commit = upstream.provide(version)
    tree = builder.git.tree_of(commit)
    kept = [option for option in builder.recipe.options if not option.startswith(NUMBER)]
    options = (*kept, f"{NUMBER}{version.build}")
    recipe = replace(builder.recipe, targets=TARGETS, options=options)
    older = replace(builder, recipe=recipe)
    plan = Plan(str(version), tree, step_key(tree, builder.toolchain, recipe))
    (build,) = build_plans(older, (plan,))
    return _make_point(str(version), True, (), build)


def _make_point(name: str, upstream: bool, patches: tuple[str, ...], build: StepBuild) -> Point:
    error = f"does not build: {build.error}" if build.error else ""
    return Point(name, upstream, patches, build.binaries, error)


def open_prebuilt(texts: Sequence[str]) -> list[Point]:
    """`NAME=FOLDER` in the order of the chain; a name like b10566 is a version of upstream.

    Raises UsageError for a folder without the programs.
    """
    points: list[Point] = []
    for text in texts:
        name, _, folder = text.partition("=")
        if not name or not folder or name in (point.name for point in points):
            raise UsageError(
                f"--prebuilt {text!r} is no new NAME=FOLDER", remedy="for example b11549=build/bin"
            )
        upstream = _VERSION.fullmatch(name) is not None
        binaries = read_binaries(Path(folder).absolute())
        points.append(Point(name, upstream, () if upstream else (name,), binaries))
    if len(points) == 1:
        raise UsageError("one --prebuilt is no comparison", remedy="name two or more")
    return points


def read_binaries(folder: Path) -> StepBinaries:
    """The programs of a folder with the libraries beside them.

    Raises UsageError where llama-bench is missing or would load libraries from elsewhere.
    """
    if not os.access(folder / BENCH, os.X_OK) or not (folder / BENCH).is_file():
        raise UsageError(f"there is no program {folder / BENCH}", remedy="name its folder")
    files = dict(_list_files(folder))
    libraries = [name for name, file in files.items() if ".so" in name and not file.link]
    if libraries and ORIGIN not in (folder / BENCH).read_bytes():
        raise UsageError(
            f"{folder / BENCH} does not look for libraries beside it: it may run another build",
            remedy="configure with -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
        )
    uses = {name: (name, *libraries) for name in TARGETS if name in files}
    text = "\n".join(f"{name} {file.sha256}" for name, file in sorted(files.items()))
    key = hashlib.sha256(text.encode()).hexdigest()
    return StepBinaries(key, folder, files, uses, tuple(n for n in TARGETS if n not in uses))


def _list_files(folder: Path) -> Iterator[tuple[str, Binary]]:
    for path in sorted(folder.iterdir()):
        if path.name not in TARGETS and ".so" not in path.name:
            continue
        if path.is_symlink():
            yield path.name, Binary(link=os.fspath(path.readlink()))
        elif path.is_file():
            yield path.name, Binary(hash_file(path), path.stat().st_size)
