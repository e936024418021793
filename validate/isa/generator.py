"""What a tree's own vulkan-shaders-gen asks glslc for, so that no define is kept by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copy2, rmtree

from upstream.errors import CommandError
from validate.glslc_features import BACKEND, Feature
from validate.isa.compilers import build_tool, digest, find_cxx, run_first
from validate.isa.place import Place
from validate.isa.sources import Sources
from validate.isa.workshop import Workshop, Yard

RECORDER = Path(__file__).parent / "recording_glslc.c"
SHADERS = BACKEND / "vulkan-shaders"
GENERATOR = SHADERS / "vulkan-shaders-gen.cpp"
HEADER, DATA, COMMANDS = "ggml-vulkan-shaders.hpp", "shaders.cpp", "commands.json"
FLAGS = ("-O0", "-std=c++17", "-pthread")
STATIC = "-static"  # a thousand processes are started: it spares each the dynamic linker
# The programs' folder, glslc's stand-in, then shaders: all in one process of the compilers' place.
LOOP = (
    'set -e; out=$1 glslc=$2; shift 2; run() { "$out/generator" --output-dir "$out/spv" '
    '--target-hpp "$out/ggml-vulkan-shaders.hpp" "$@"; }; run; for shader; do '
    'run --target-cpp "$out/${shader##*/}.cpp" --glslc "$glslc" --source "$shader"; done'
)


@dataclass(frozen=True)
class Generated:
    """commands: glslc's arguments by shader, with paths below `ggml`; folder: HEADER and DATA."""

    folder: Path
    commands: Mapping[str, tuple[str, ...]]


def defines(features: Sequence[Feature]) -> list[str]:
    """What the build defines for the extensions that glslc has."""
    return [f"-D{feature.variable}" for feature in features if feature.supported]


def generate(
    shop: Workshop, place: Place, yard: Yard, features: Sequence[Feature], fingerprint: str
) -> Generated:
    """The generator's files and commands; made once for the same generator, names of shaders and
    extensions: it only hands shaders on to glslc, and here they are not where it is told.
    """
    names = [str(each) for each in list_shaders(yard)]
    text = Sources(yard.ggml).digest((yard.ggml / GENERATOR).resolve())
    key = digest("generated", text, fingerprint, *defines(features), *names)
    folder = shop.make("generated") / key
    with shop.making(folder):
        if not folder.is_dir():
            half = folder.with_suffix(".half")
            rmtree(half, ignore_errors=True)
            (half / "spv").mkdir(parents=True)
            run_generator(shop, place, yard, features, half)
            half.rename(folder)
    commands = json.loads((folder / COMMANDS).read_text())
    return Generated(folder, {name: tuple(words) for name, words in commands.items()})


def list_shaders(yard: Yard) -> list[Path]:
    """What the generator is asked for, in order; below `ggml`."""
    found = sorted((yard.ggml / SHADERS).glob("*.comp"))
    return [path.relative_to(yard.ggml) for path in found]


def run_generator(
    shop: Workshop, place: Place, yard: Yard, features: Sequence[Feature], folder: Path
) -> None:
    """Let the tree's generator ask for all shaders, and keep what it writes and asks for."""
    recorder, log = folder / "glslc", folder / "glslc.log"
    with shop.making(RECORDER):
        copy2(_build_recorder(place), recorder)
    copy2(_build(shop, place, yard, defines(features)), folder / "generator")
    nowhere = folder / "ggml"
    shaders = [nowhere / each for each in list_shaders(yard)]
    words = [place.inside(each) for each in (folder, recorder, *shaders)]
    place.run(["sh", "-c", LOOP, "sh", *words])
    parts = sorted(folder.glob("*.comp.cpp"))
    (folder / DATA).write_text(join(part.read_text() for part in parts))
    commands = read_commands(log, place.inside(nowhere))
    (folder / COMMANDS).write_text(json.dumps(commands))
    rmtree(folder / "spv")
    for path in (recorder, log, folder / "generator", *folder.glob("*.comp.cpp*")):
        path.unlink()


def _build_recorder(place: Place) -> Path:
    flags = ("-std=gnu11", "-O1")
    try:
        return build_tool(place, RECORDER, (*flags, STATIC))
    except CommandError:  # a machine may have no static libraries
        return build_tool(place, RECORDER, flags)


def _build(shop: Workshop, place: Place, yard: Yard, extra: Sequence[str]) -> Path:
    """The generator of a tree; one of the same sources is there already."""
    source = yard.ggml / GENERATOR
    text = Sources(yard.ggml).digest(source.resolve())
    compilers = find_cxx(place)
    key = digest("generator", text, place.identity(), *compilers, *FLAGS, *extra)
    program = shop.make("bin") / f"generator-{key[:16]}"
    with shop.making(program):
        if not program.is_file():
            half = program.with_suffix(".half")
            words = [*FLAGS, *extra, "-o", place.inside(half), place.inside(source)]
            tried = [[compiler, *words, STATIC] for compiler in compilers]
            run_first(place, [*tried, [compilers[-1], *words]])
            half.rename(program)
    return program


def join(parts: Iterable[str]) -> str:
    """The C++ of all shaders as one text that includes their header once: read again for each of
    them, it is 35 MB.
    """
    include = f'#include "{HEADER}"\n'
    return include + "".join(part.replace(include, "") for part in parts)


def read_commands(log: Path, ggml: str) -> dict[str, tuple[str, ...]]:
    """Arguments by shader: without -o and -MF, the source relative to the ggml folder."""
    commands = {}
    for line in log.read_bytes().decode().splitlines():
        words = line.rstrip("\0").split("\0")
        out = words.index("-o")
        name = Path(words[out + 1]).stem
        del words[out : out + 2]
        if "-MF" in words:
            del words[words.index("-MF") : words.index("-MF") + 2]
        kept = [word for word in words if word != "-MD"]
        commands[name] = tuple(word.removeprefix(f"{ggml}/") for word in kept)
    return commands
