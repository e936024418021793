"""Every pipeline that the host code of a tree sets up on Strix Halo's kind of device.

The tree's own vulkan-shaders-gen runs with a recording glslc, and the tree's own ggml-vulkan runs
on the amdgpu drm-shim with a hook in the function that all pipelines go through. So neither the
defines of shaders nor specialization constants are kept by hand.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeVar

from upstream.errors import CommandError, EnvironmentFault, InvalidMeasurement
from validate.glslc_features import BACKEND, Feature, try_features
from validate.isa.compilers import Compiler, build_tool, digest
from validate.isa.place import Place
from validate.isa.sources import Sources
from validate.isa.variants import Variant, is_judged, read_variant
from validate.isa.workshop import Workshop

LOGGER = logging.getLogger("lab")
HERE = Path(__file__).parent
RECORDER, HOOK, DRIVER = "recording_glslc.c", "record_pipelines.h", "record_pipelines.cpp"
SHADERS = BACKEND / "vulkan-shaders"
HOST, HEADER = "ggml-vulkan.cpp", "ggml-vulkan-shaders.hpp"
# The one place through which all pipelines go; it is the same text in b10566 to b11549.
ANCHOR = "        vk_pipeline *ptr = &base_pipeline;\n"
CALL = (
    "        lab_record_pipeline(name, spv_data, spv_size, parameter_count, push_constant_size, "
    "specialization_constants, disable_robustness, require_full_subgroups, "
    "required_subgroup_size);\n"
)
GENERATED = "generated.json"
UNUSED = "ggml-opt.cpp"  # of the library's own files, in ggml/src
VERSION_HEADER = '#define GGML_VERSION "lab"\n#define GGML_COMMIT "lab"\n'
SECONDS = 600.0
R = TypeVar("R")


@dataclass(frozen=True)
class Recorded:
    """What a tree sets up. commands: glslc's arguments by shader, with paths below `ggml`.

    idle: shaders of the judged families that are generated but that no pipeline of this device
    uses; off: extensions that glslc lacks, so that the tree generates less.
    """

    subtree: str
    variants: tuple[Variant, ...]
    commands: Mapping[str, tuple[str, ...]]
    idle: tuple[str, ...]
    off: tuple[str, ...]


@dataclass(frozen=True)
class Bench:
    """What recording and compiling takes: the folder, the place with glslc, processes at once."""

    shop: Workshop
    recorder: Compiler
    glslc: str
    jobs: int = 2

    @property
    def place(self) -> Place:
        return self.recorder.place

    @property
    def fingerprint(self) -> str:
        """Stands for all that decides which pipelines are recorded."""
        own = [(HERE / name).read_text() for name in (RECORDER, HOOK, DRIVER, Path(__file__).name)]
        return digest(self.recorder.fingerprint, self.glslc, *own)


def open_bench(shop: Workshop, compilers: Sequence[Compiler], jobs: int) -> Bench:
    """Choose the compiler on which a whole backend runs. Raises EnvironmentFault without one."""
    recorder = next((each for each in compilers if each.shim), None)
    if recorder is None:
        raise EnvironmentFault(
            "no compiler here carries the whole Vulkan backend (it takes the amdgpu drm-shim), "
            "so nothing tells the specialization constants",
            remedy="run: nox -s toolchain -- --suite trixie-backports",
        )
    version = recorder.place.run(["glslc", "--version"], timeout=60).text
    return Bench(shop, recorder, version, jobs)


def read_tree(bench: Bench, tree: str) -> Recorded:
    """The pipelines of a tree, from the last time where nothing that decides them changed."""
    subtree = bench.shop.subtree(tree)
    key = digest("recorded", subtree, bench.fingerprint)
    if (known := bench.shop.look_up([key]).get(key)) is None:
        LOGGER.info("recording the pipelines of %s", tree[:12])
        found = _record(bench, subtree)
        bench.shop.keep({key: asdict(found)})
        return found
    return _read_recorded(known)


def _read_recorded(document: dict[str, Any]) -> Recorded:
    variants = tuple(read_variant(each) for each in document["variants"])
    commands = {name: tuple(words) for name, words in document["commands"].items()}
    idle, off = tuple(document["idle"]), tuple(document["off"])
    return Recorded(document["subtree"], variants, commands, idle, off)


def _record(bench: Bench, subtree: str) -> Recorded:
    shop = bench.shop
    shop.move(subtree)
    features = try_features(bench.place.glslc, shop.ggml)
    commands = _generate(bench, subtree, features)
    _write_host_sources(bench)
    lines = _run_host(bench, features)
    used = {line["shader"] for line in lines}
    sources = _name_sources(bench, commands, used)
    return Recorded(
        subtree,
        tuple(_make_variant(line, sources) for line in lines),
        {name: commands[name] for name in sorted(used)},
        tuple(sorted(name for name in commands if is_judged(name) and name not in used)),
        tuple(feature.extension for feature in features if not feature.supported),
    )


def _make_variant(line: Mapping[str, Any], sources: Mapping[str, str]) -> Variant:
    return Variant(
        pipeline=line["pipeline"],
        shader=line["shader"],
        source=sources[line["shader"]],
        spec=tuple(line["spec"]),
        bindings=line["bindings"],
        push=line["push"],
        subgroup=line["subgroup"],
        full=line["full"],
        robust=line["robust"],
    )


def _defines(features: Sequence[Feature]) -> list[str]:
    return [f"-D{feature.variable}" for feature in features if feature.supported]


def _generate(
    bench: Bench, subtree: str, features: Sequence[Feature]
) -> dict[str, tuple[str, ...]]:
    """The generator's files and commands; those of the last tree where its shaders are the same."""
    shop = bench.shop
    shaders = shop.git.resolve(f"{subtree}:{SHADERS}") or subtree
    key = digest("generated", shaders, bench.fingerprint, *_defines(features))
    marker = shop.work / GENERATED
    if marker.is_file():
        known = json.loads(marker.read_text())
        if known["key"] == key:
            return {name: tuple(words) for name, words in known["commands"].items()}
    rmtree(shop.work, ignore_errors=True)
    shop.make("work/spv")
    commands = _run_generator(bench, features)
    marker.write_text(json.dumps({"key": key, "commands": commands}))  # last: all is there
    return commands


def _run_generator(bench: Bench, features: Sequence[Feature]) -> dict[str, tuple[str, ...]]:
    """Let the tree's generator ask for all shaders; the arguments that glslc would have got."""
    shop, place = bench.shop, bench.place
    recorder = build_tool(place, HERE / RECORDER, ("-std=gnu11", "-O1"))
    log = recorder.with_name(f"{recorder.name}.log")
    log.unlink(missing_ok=True)
    source = place.inside(shop.ggml / SHADERS / "vulkan-shaders-gen.cpp")
    program = place.inside(shop.work / "generator")
    flags = ["-O0", "-std=c++17", "-pthread", *_defines(features)]
    place.run(["g++", *flags, "-o", program, source])
    work = place.inside(shop.work)
    common = [program, "--output-dir", f"{work}/spv", "--target-hpp", f"{work}/{HEADER}"]
    place.run(common)

    def generate(shader: Path) -> None:
        target = ["--target-cpp", f"{work}/{shader.name}.cpp", "--glslc", place.inside(recorder)]
        place.run([*common, *target, "--source", place.inside(shader)])

    _at_once(bench, generate, sorted((shop.ggml / SHADERS).glob("*.comp")))
    return _read_commands(log, place.inside(shop.ggml))


def _read_commands(log: Path, ggml: str) -> dict[str, tuple[str, ...]]:
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


def _name_sources(
    bench: Bench, commands: Mapping[str, tuple[str, ...]], used: Iterable[str]
) -> dict[str, str]:
    """The digest of all that a shader is compiled from, by shader."""
    sources = Sources(bench.shop.ggml)
    closures: dict[str, str] = {}
    names = {}
    for shader in used:
        words = commands[shader]
        (file,) = (word for word in words if word.endswith(".comp"))
        if file not in closures:
            closures[file] = sources.digest((bench.shop.ggml / file).resolve())
        names[shader] = digest("shader", bench.glslc, closures[file], *words)
    return names


def _write_host_sources(bench: Bench) -> None:
    """The host code with the hook, and the generated files as one."""
    shop = bench.shop
    text = (shop.ggml / BACKEND / HOST).read_text("utf-8")
    if text.count(ANCHOR) != 1:
        raise InvalidMeasurement(
            f"{HOST} no longer holds the line at which pipelines are recorded: {ANCHOR.strip()}",
            remedy="see what ggml_vk_create_pipeline became and mend validate/isa/recording.py",
        )
    (shop.work / HOST).write_text(text.replace(ANCHOR, CALL + ANCHOR), "utf-8")
    (shop.work / "version.h").write_text(VERSION_HEADER)
    (shop.work / "ggml-version.h").write_text(VERSION_HEADER.replace("#define", "//"))
    for name in (HOOK, DRIVER):
        (shop.work / name).write_text((HERE / name).read_text())
    parts = sorted(shop.work.glob("*.comp.cpp"))
    (shop.work / "shaders.cpp").write_text("".join(part.read_text() for part in parts))


def _run_host(bench: Bench, features: Sequence[Feature]) -> list[dict[str, Any]]:
    """Build the backend, open it, and read the pipelines that it set up."""
    program = bench.shop.work / "record_pipelines"
    _link(bench, program, _defines(features))
    inside = bench.place.inside(program)
    variables = dict(bench.recorder.variables) | {"LAB_RECORD_FD": "1"}
    done = bench.place.run([inside], variables, timeout=SECONDS)
    texts = [text for text in done.text.splitlines() if text.startswith('{"pipeline"')]
    lines = [json.loads(text) for text in texts]
    judged = [line for line in lines if is_judged(line["shader"])]
    if not judged:
        raise InvalidMeasurement(
            "the backend set up no matrix pipeline: "
            + done.stderr.decode("utf-8", "replace")[-500:],
            remedy="run with -v, and see docs/how-to/check-shaders.md",
        )
    return judged


def _link(bench: Bench, program: Path, defines: Sequence[str]) -> None:
    shop, place = bench.shop, bench.place
    folders = (shop.ggml / "src", shop.ggml / BACKEND)
    files = [path for folder in folders for path in sorted(folder.glob("*.c*"))]
    files = [path for path in files if path.suffix in (".c", ".cpp")]
    files = [path for path in files if path.name not in (HOST, UNUSED)]
    files += [shop.work / name for name in (HOST, "shaders.cpp", DRIVER)]
    objects = _compile(bench, files, defines)
    names = [place.inside(path) for path in objects]
    place.run(["g++", "-o", place.inside(program), *names, "-lvulkan", "-ldl", "-pthread"])


def _compile(bench: Bench, files: Sequence[Path], defines: Sequence[str]) -> list[Path]:
    """Object files of sources; those whose sources did not change are there already."""
    shop, place = bench.shop, bench.place
    folders = [shop.ggml / name for name in ("include", "src", str(BACKEND))] + [shop.work]
    flags = ["-O0", "-w", "-D_GNU_SOURCE", "-DGGML_USE_VULKAN", *defines]
    flags += ["-include", place.inside(shop.work / "version.h")]
    flags += [f"-I{place.inside(folder)}" for folder in folders]
    sources = Sources(shop.folder, folders)
    shop.make("objects")

    def compile_one(file: Path) -> Path:
        hooked = ["-include", place.inside(shop.work / HOOK)] if file.name == HOST else []
        text = (HERE / HOOK).read_text() if hooked else ""
        key = digest(sources.digest(file.resolve()), text, bench.place.identity(), *flags)
        target = shop.folder / "objects" / f"{key}.o"
        if not target.is_file():
            half = target.with_suffix(".half")
            words = ["gcc", "-std=gnu11"] if file.suffix == ".c" else ["g++", "-std=c++17"]
            out = ["-c", place.inside(file), "-o", place.inside(half)]
            _run_compiler(place, [*words, *flags, *hooked, *out], file)
            half.rename(target)
        return target

    return _at_once(bench, compile_one, files)


def _run_compiler(place: Place, command: Sequence[str], file: Path) -> None:
    try:
        place.run(command, timeout=SECONDS)
    except CommandError as error:
        raise InvalidMeasurement(
            f"{file.name} does not compile with the hook: {error.failure.stderr_tail[-1500:]}",
            remedy="does the step build with Vulkan at all? else mend validate/isa/recording.py",
        ) from error


def _at_once(bench: Bench, work: Callable[[Path], R], items: Sequence[Path]) -> list[R]:
    with ThreadPoolExecutor(bench.jobs) as pool:
        return list(pool.map(work, items))
