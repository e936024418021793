"""Compile files of ggml-cuda for the GPU and keep what the compiler says about each kernel."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from upstream.errors import CommandError, InvalidMeasurement
from upstream.process import Completed
from upstream.progress import show_progress
from validate.hip.compiler import HipCompiler
from validate.hip.kernels import Kernel, name_kernels
from validate.hip.remarks import parse_remarks
from validate.hip.sources import BACKEND, SEARCH, HipTree
from validate.isa.compilers import digest
from validate.isa.statistics import Numbers
from validate.isa.workshop import Workshop

LOGGER = logging.getLogger("lab")
ANY_CODE = range(-64, 256)
SECONDS = 1800.0  # for one file; the slowest at b11549 takes half a minute


@dataclass(frozen=True)
class Compiled:
    """A file's kernels with their numbers, or why there are none."""

    kernels: Mapping[Kernel, Numbers] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class HipBench:
    """What compiling takes; `jobs` compilers run at once."""

    shop: Workshop
    compiler: HipCompiler
    jobs: int = 2

    def key(self, tree: HipTree, file: str) -> str:
        """Stands for all that decides a file's answer."""
        return digest("hip file", self.compiler.fingerprint, file, tree.digests[file])


def compile_files(bench: HipBench, tree: HipTree, files: Sequence[str]) -> dict[str, Compiled]:
    """Compile some files of a tree; what is known is not compiled again.

    A file at which the compiler fails or crashes is named, gets an error and is not kept.
    """
    keys = {file: bench.key(tree, file) for file in files}
    known = bench.shop.look_up(keys.values())
    missing = [file for file in files if keys[file] not in known]
    found = {file: _read(file, known[keys[file]]) for file in files if keys[file] in known}
    if missing:
        bench.shop.move(tree.subtree)
        found |= _compile_missing(bench, tree, missing)
    return {file: found[file] for file in files}


def _compile_missing(bench: HipBench, tree: HipTree, files: Sequence[str]) -> dict[str, Compiled]:
    def compile_one(file: str) -> dict[str, Any]:
        document = _compile(bench, file)
        if "error" not in document:
            bench.shop.keep({bench.key(tree, file): document})
        return document

    found = {}
    with show_progress("HIP files", len(files)) as meter, ThreadPoolExecutor(bench.jobs) as pool:
        for file, document in zip(files, pool.map(compile_one, files), strict=True):
            found[file] = _read(file, document)
            meter.advance(1)
    return found


def _compile(bench: HipBench, file: str) -> dict[str, Any]:
    place, compiler = bench.compiler.place, bench.compiler
    ggml = bench.shop.ggml
    include = [f"-I{place.inside(ggml / each)}" for each in SEARCH]
    source = place.inside(ggml / BACKEND / file)
    command = [compiler.program, *compiler.flags, *include, "-S", "-o", "/dev/null", source]
    try:
        done = place.run(command, ok=ANY_CODE, timeout=SECONDS)
        if done.code != 0:
            return _fail(compiler, file, _first_error(done))
        numbers = parse_remarks(done.stderr.decode("utf-8", "replace"))
    except (CommandError, InvalidMeasurement) as error:
        return _fail(compiler, file, error.what.splitlines()[0])
    names = demangle(compiler, list(numbers))
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
