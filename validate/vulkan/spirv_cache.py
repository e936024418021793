"""Compile a shader with glslc, or take what the same shader was compiled into before.

    python spirv_cache.py CACHE IDENTITY GLSLC [glslc options]

Run as a script of its own in place of glslc, it imports nothing of the project. `IDENTITY` stands
for the compiler. What is found again, in CACHE/xx:

1. by the options and the content of the source and all that it includes;
2. else by the options and what the preprocessor makes of them: a change in a shared file then
   compiles only the variants in which it shows.

Paths count only where the compiler writes a list of dependencies, which holds them. What is not a
compilation into a file, fails, or says anything goes to the compiler each time.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FORMAT = "1"
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+"([^"\n]+)"', re.MULTILINE)
_LINE = re.compile(rb"^#line .*$", re.MULTILINE)
_TAKES_VALUE = ("-o", "-MF", "-MT", "-I", "-x", "-std")


@dataclass(frozen=True)
class Job:
    """One command of glslc: its options, its one source, its output and dependency file."""

    options: tuple[str, ...]
    source: Path
    output: Path
    dependencies: Path | None


def main(argv: Sequence[str]) -> int:
    """Exit code of the compiler; 0 for what was found."""
    cache, identity, glslc, *arguments = argv
    job = read_job(arguments)
    if job is None:
        return os.execv(glslc, (glslc, *arguments))  # noqa: S606
    return compile_cached(Path(cache), identity, glslc, job, arguments)


def read_job(arguments: Sequence[str]) -> Job | None:
    """The command in parts; None for what is not one compilation of a file into a file."""
    options, sources, values = [], [], dict[str, str]()
    words = iter(arguments)
    for word in words:
        if word in _TAKES_VALUE:
            values[word] = next(words, "")
            options += [] if word in ("-o", "-MF") else [word, values[word]]
        elif word.startswith("-"):
            options.append(word)
        else:
            sources.append(word)
    output = values.get("-o", "-")
    whole = len(sources) == 1 and sources[0] != "-" and output != "-"
    if not whole or not {"-E", "-S", "-M", "-MM"}.isdisjoint(options):
        return None
    listed = Path(values["-MF"]) if "-MF" in values else None
    return Job(tuple(options), Path(sources[0]), Path(output), listed)


def compile_cached(
    cache: Path, identity: str, glslc: str, job: Job, arguments: Sequence[str]
) -> int:
    """Find the shader or compile and keep it."""
    first = cache / _name(identity, job, *_read_closure(job.source))
    if _restore(first, job):
        return 0
    second = None if job.dependencies else _preprocess(cache, identity, glslc, job)
    if second is not None and _restore(second, job):
        _keep(second.read_bytes(), first)
        return 0
    done = subprocess.run((glslc, *arguments), capture_output=True, check=False)
    sys.stdout.buffer.write(done.stdout)
    sys.stderr.buffer.write(done.stderr)
    if done.returncode == 0 and not done.stderr and not done.stdout:
        for place in filter(None, (first, second)):
            _keep(job.output.read_bytes(), place)
        if job.dependencies:
            _keep(job.dependencies.read_bytes(), first.with_suffix(".d"))
    return done.returncode


def _preprocess(cache: Path, identity: str, glslc: str, job: Job) -> Path | None:
    command = (glslc, "-E", *job.options, os.fspath(job.source))
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode or done.stderr or not done.stdout:
        return None
    return cache / _name(identity, job, _LINE.sub(b"", done.stdout))


def _name(identity: str, job: Job, *contents: bytes) -> Path:
    places = [str(each) for each in (job.source, job.output) if job.dependencies]
    hasher = hashlib.sha256()
    for part in (FORMAT, identity, job.source.name, *places, "options", *job.options):
        hasher.update(f"{part}\0".encode())
    for content in contents:
        hasher.update(f"{len(content)}\0".encode() + content)
    digest = hasher.hexdigest()
    return Path(digest[:2], f"{digest}.spv")


def _read_closure(source: Path) -> Iterator[bytes]:
    """The source and what it includes, in the order in which they are met."""
    waiting, seen = [source], {source}
    while waiting:
        here = waiting.pop()
        try:
            content = here.read_bytes()
        except FileNotFoundError:
            continue  # behind an #if, or the compiler will say it
        yield here.name.encode()
        yield content
        for name in _INCLUDE.findall(content):
            path = here.parent / name.decode()
            if path not in seen:
                seen.add(path)
                waiting.append(path)


def _restore(place: Path, job: Job) -> bool:
    listed = place.with_suffix(".d")
    if not place.is_file() or (job.dependencies and not listed.is_file()):
        return False
    job.output.write_bytes(place.read_bytes())
    if job.dependencies:
        job.dependencies.write_bytes(listed.read_bytes())
    return True


def _keep(content: bytes, place: Path) -> None:
    """A file appears by one rename: a half-written one never counts."""
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_name(f".{place.name}.{os.getpid()}")
    half.write_bytes(content)
    half.replace(place)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
