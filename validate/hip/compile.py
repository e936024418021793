"""Compile files of ggml-cuda for the GPU and keep what the compiler says about each kernel."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

from upstream.errors import CommandError, InvalidMeasurement
from upstream.process import Completed
from upstream.progress import Meter, show_progress
from validate.hip.compiler import GPU, HipCompiler
from validate.hip.kernels import Kernel, name_kernels
from validate.hip.module import Unit, read_module, weigh
from validate.hip.remarks import PASS, parse_remarks
from validate.hip.sources import BACKEND, SEARCH, HipTree
from validate.isa.compilers import digest, run_first
from validate.isa.statistics import Numbers
from validate.isa.workshop import Workshop, Yard

LOGGER = logging.getLogger("lab")
ANY_CODE = range(-64, 256)
SECONDS = 1800.0  # for one file; the slowest at b11549 takes half a minute
HEAP = 120_000  # lines of intermediate code that one process compiles: some seconds
FRONT = ("-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes")
# What files of ggml-cuda include beside HIP's headers. A precompiled header with these spares each
# front end 0.4 s of one to two.
HEADER = "standard.h"
STANDARD = (
    *("algorithm", "array", "cassert", "cfloat", "climits", "cmath", "condition_variable"),
    *("cstdint", "cstdio", "cstdlib", "cstring", "map", "memory", "mutex", "string"),
    *("type_traits", "unordered_map", "utility", "vector"),
)
# What the driver makes of `-x hip` for the half after the front end.
BACK = (
    *("-target", "amdgcn-amd-amdhsa", f"-mcpu={GPU}", "-nogpulib", "-O3", "-w"),
    *("-fno-caret-diagnostics", f"-Rpass-analysis={PASS}", "-mllvm", "-amdgpu-internalize-symbols"),
    *("-S", "-o", "/dev/null", "-x", "ir"),
)
Document = dict[str, Any]


@dataclass(frozen=True)
class Compiled:
    """A file's kernels with their numbers, or why there are none."""

    kernels: Mapping[Kernel, Numbers] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class HipBench:
    """What compiling takes. bar: progress is shown, which two at once can't."""

    shop: Workshop
    compiler: HipCompiler
    bar: bool = False

    def key(self, tree: HipTree, file: str) -> str:
        """Stands for all that decides a file's answer."""
        return digest(
            "hip file", self.compiler.fingerprint, *STANDARD, *BACK, file, tree.digests[file]
        )

    def kernel_key(self, unit: Unit) -> str:
        """Stands for all that decides the answer about kernels that are compiled together."""
        return digest("hip kernels", self.compiler.fingerprint, *BACK, unit.key)

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Meter | None]:
        """A meter where one is wanted."""
        if not self.bar:
            yield None
            return
        with show_progress(title, total) as meter:
            yield meter


def compile_files(bench: HipBench, wanted: Iterable[tuple[HipTree, str]]) -> dict[str, Compiled]:
    """Compile files of trees, by key; what is known is not compiled again.

    A file at which the compiler fails or crashes is named, gets an error and is not kept.
    """
    places = {bench.key(tree, file): (tree, file) for tree, file in wanted}
    known = bench.shop.look_up(places)
    missing = {key: place for key, place in places.items() if key not in known}
    made = _compile_missing(bench, missing) if missing else {}
    return {key: _read(file, (known | made)[key]) for key, (_, file) in places.items()}


def _compile_missing(
    bench: HipBench, missing: Mapping[str, tuple[HipTree, str]]
) -> dict[str, Document]:
    """The front end for each file, then every kernel that is not known, once."""
    rmtree(bench.shop.folder / "kernels", ignore_errors=True)  # of a run that was killed
    folder = bench.shop.make("kernels")
    codes = {key: folder / f"{key}.ll" for key in missing}
    try:
        precompile(bench, folder)
        units = _read_all(bench, missing, codes)
        kernels = _compile_units(bench, codes, units)
    finally:
        rmtree(folder)
    joined = {key: _join(units[key], kernels) for key in missing}
    made = {key: document for key, document in joined.items() if document is not None}
    rest = [key for key in missing if key not in made]
    alone = bench.shop.share_out(lambda key: _compile_alone(bench, *missing[key]), rest)
    made |= dict(zip(rest, alone, strict=True))
    bench.shop.keep({key: document for key, document in made.items() if "error" not in document})
    return made


def precompile(bench: HipBench, folder: Path) -> None:
    """Make HEADER and its precompiled form in a folder; where that fails, there is no form."""
    compiler, place = bench.compiler, bench.compiler.place
    header = folder / HEADER
    header.write_text("".join(f"#include <{name}>\n" for name in STANDARD))
    words = [compiler.program, *compiler.front_flags, "-S", "-emit-llvm", "-Xclang", "-emit-pch"]
    try:
        place.run(
            [*words, "-o", place.inside(_form(header)), place.inside(header)], timeout=SECONDS
        )
    except CommandError as error:
        LOGGER.info("%s: no precompiled header: %s", compiler.name, error.what)


def _form(header: Path) -> Path:
    return header.with_suffix(".pch")


def _read_all(
    bench: HipBench, missing: Mapping[str, tuple[HipTree, str]], codes: Mapping[str, Path]
) -> dict[str, list[Unit] | None]:
    with bench.progress("HIP files", len(missing)) as meter:

        def read(key: str) -> list[Unit] | None:
            found = read_units(bench, *missing[key], codes[key])
            if meter is not None:
                meter.advance(1)
            return found

        return dict(zip(missing, bench.shop.share_out(read, missing), strict=True))


def read_units(bench: HipBench, tree: HipTree, file: str, target: Path) -> list[Unit] | None:
    """The kernels of a file, and its code in `target`; None where the front end gives none."""
    compiler, place = bench.compiler, bench.compiler.place
    form = _form(target.with_name(HEADER))
    with bench.shop.yard(tree.subtree) as yard:
        rest = [*FRONT, "-o", place.inside(target), *_source(bench, yard, file)]
        words = [compiler.program, *compiler.front_flags]
        quick = ["-Xclang", "-include-pch", "-Xclang", place.inside(form)]
        tried = [[*words, *quick, *rest]] if form.is_file() else []
        try:
            run_first(place, [*tried, [*words, *rest]], SECONDS)
            text = target.read_text("utf-8", "surrogateescape")
        except (CommandError, OSError) as error:
            LOGGER.info("%s: %s is compiled as one: %s", compiler.name, file, error)
            return None
    units = read_module(text).units
    return [replace(unit, key=bench.kernel_key(unit)) for unit in units]


def _compile_units(
    bench: HipBench, codes: Mapping[str, Path], units: Mapping[str, list[Unit] | None]
) -> dict[str, Document]:
    """What is said about each unit, by key; one that can't be compiled is missing."""
    homes = {unit.key: (file, unit) for file, unit in _each_unit(units)}
    known = bench.shop.look_up(homes)
    missing: defaultdict[str, list[Unit]] = defaultdict(list)
    for key, (file, unit) in homes.items():
        if key not in known:
            missing[file].append(unit)
    heaps = [(file, heap) for file, found in missing.items() for heap in weigh(found, HEAP)]
    heaps.sort(key=lambda heap: -sum(unit.lines for unit in heap[1]))
    with bench.progress("HIP kernels", len(heaps)) as meter:

        def work(heap: tuple[str, list[Unit]]) -> dict[str, Document]:
            made = _compile_kernels(bench, codes[heap[0]], heap[1])
            bench.shop.keep(made)
            if meter is not None:
                meter.advance(1)
            return made

        for made in bench.shop.share_out(work, heaps):
            known |= made
    return known


def _each_unit(units: Mapping[str, list[Unit] | None]) -> Iterator[tuple[str, Unit]]:
    for file, found in units.items():
        yield from ((file, unit) for unit in found or [])


def _compile_kernels(bench: HipBench, code: Path, heap: Sequence[Unit]) -> dict[str, Document]:
    """Compile some units of a file in one process; nothing where that fails."""
    compiler, place = bench.compiler, bench.compiler.place
    wanted = {symbol for unit in heap for symbol in unit.kernels}
    part = code.with_name(f"{heap[0].key}.ll")
    text = read_module(code.read_text("utf-8", "surrogateescape")).keep(wanted)
    part.write_text(text, "utf-8", "surrogateescape")
    try:
        done = place.run([compiler.program, *BACK, place.inside(part)], timeout=SECONDS)
        numbers = parse_remarks(done.stderr.decode("utf-8", "replace"))
    except (CommandError, InvalidMeasurement) as error:
        LOGGER.info("%s: kernels are compiled with their file: %s", compiler.name, error.what)
        return {}
    finally:
        part.unlink()
    names = demangle(compiler, list(numbers))
    return {
        unit.key: _document({each: numbers[each] for each in unit.kernels}, names)
        for unit in heap
        if numbers.keys() >= set(unit.kernels)
    }


def _join(units: list[Unit] | None, kernels: Mapping[str, Document]) -> Document | None:
    """What is said about a file; None where something of it is missing."""
    if units is None or any(unit.key not in kernels for unit in units):
        return None
    found = [kernels[unit.key]["kernels"] for unit in units]
    return {"kernels": {symbol: entry for each in found for symbol, entry in each.items()}}


def _source(bench: HipBench, yard: Yard, file: str) -> list[str]:
    inside = bench.compiler.place.inside
    return [
        *(f"-I{inside(yard.ggml / each)}" for each in SEARCH),
        inside(yard.ggml / BACKEND / file),
    ]


def _compile_alone(bench: HipBench, tree: HipTree, file: str) -> Document:
    """The whole file by one process: for one whose kernels can't be told apart, or that fails."""
    place, compiler = bench.compiler.place, bench.compiler
    with bench.shop.yard(tree.subtree) as yard:
        rest = ["-S", "-o", "/dev/null", *_source(bench, yard, file)]
        try:
            done = place.run(
                [compiler.program, *compiler.flags, *rest], ok=ANY_CODE, timeout=SECONDS
            )
            if done.code != 0:
                return _fail(compiler, file, _first_error(done))
            numbers = parse_remarks(done.stderr.decode("utf-8", "replace"))
        except (CommandError, InvalidMeasurement) as error:
            return _fail(compiler, file, error.what.splitlines()[0])
    return _document(numbers, demangle(compiler, list(numbers)))


def _document(numbers: Mapping[str, Numbers], names: Mapping[str, str]) -> Document:
    return {
        "kernels": {
            symbol: {"name": names[symbol], "numbers": asdict(each)}
            for symbol, each in numbers.items()
        }
    }


def _fail(compiler: HipCompiler, file: str, why: str) -> dict[str, Any]:
    LOGGER.warning("%s: %s does not compile: %s", compiler.name, file, why)
    return {"error": why}


def _first_error(done: Completed) -> str:
    """What a compiler says first; clang answers a signal of its own child with code 254."""
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    errors = (line for line in lines if "error:" in line or "PLEASE submit" in line)
    return next(errors, f"exit code {done.code}")[:300]


def demangle(compiler: HipCompiler, symbols: Sequence[str]) -> dict[str, str]:
    """What people call some symbols; as they are where the filter is missing."""
    text = "\n".join(symbols).encode()
    done = compiler.place.run([compiler.filter], stdin=text, ok=ANY_CODE, timeout=60)
    names = done.text.splitlines()
    return dict(zip(symbols, names if len(names) == len(symbols) else symbols, strict=True))


def _read(file: str, document: Mapping[str, Any]) -> Compiled:
    if "error" in document:
        return Compiled(error=str(document["error"]))
    entries = document["kernels"]
    kernels = name_kernels(file, {symbol: each["name"] for symbol, each in entries.items()})
    return Compiled({each: Numbers(**entries[each.symbol]["numbers"]) for each in kernels})
