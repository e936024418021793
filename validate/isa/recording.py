"""Every pipeline that the host code of a tree sets up on Strix Halo's kind of device.

The tree's own vulkan-shaders-gen runs with a recording glslc, and the tree's own ggml-vulkan runs
on the amdgpu drm-shim with a hook in the function that all pipelines go through. So neither the
defines of shaders nor specialization constants are kept by hand.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from upstream.errors import EnvironmentFault
from validate.glslc_features import BACKEND, Feature, try_features
from validate.isa.compilers import Compiler, digest
from validate.isa.generator import RECORDER, defines, generate
from validate.isa.host import DRIVER, HERE, HOOK, Host, is_visible, list_pipelines
from validate.isa.place import Place
from validate.isa.sources import Sources
from validate.isa.variants import PATTERNS, Variant, is_judged, read_variant
from validate.isa.workshop import Workshop, Yard

LOGGER = logging.getLogger("lab")
OWN = (RECORDER.name, HOOK, DRIVER, "recording.py", "generator.py", "host.py")


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

    @cached_property
    def sources(self) -> dict[str, str]:
        """The digest of its sources, by shader."""
        return {each.shader: each.source for each in self.variants}


@dataclass(frozen=True)
class Bench:
    """What recording and compiling takes: the folder, and the place with glslc."""

    shop: Workshop
    recorder: Compiler
    glslc: str

    @property
    def place(self) -> Place:
        return self.recorder.place

    @property
    def fingerprint(self) -> str:
        """Stands for all that decides which pipelines are recorded."""
        own = [(HERE / name).read_text() for name in OWN]
        return digest(self.recorder.fingerprint, self.glslc, *own)


def open_bench(shop: Workshop, compilers: Sequence[Compiler]) -> Bench:
    """Choose the compiler on which a whole backend runs. Raises EnvironmentFault without one."""
    recorder = next((each for each in compilers if each.shim), None)
    if recorder is None:
        raise EnvironmentFault(
            "no compiler here carries the whole Vulkan backend (it takes the amdgpu drm-shim), "
            "so nothing tells the specialization constants",
            remedy="run: nox -s toolchain -- --suite trixie-backports",
        )
    version = recorder.place.run(["glslc", "--version"], timeout=60).text
    return Bench(shop, recorder, version)


def read_tree(bench: Bench, tree: str) -> Recorded:
    """The pipelines of one tree."""
    return read_trees(bench, [tree])[0]


def read_trees(bench: Bench, trees: Sequence[str]) -> list[Recorded]:
    """The pipelines of trees, from the last time where nothing that decides them changed.

    Trees that differ only where the recorded program can't look are recorded once.
    """
    subtrees = [bench.shop.subtree(tree) for tree in trees]
    keys = {subtree: _key(bench, subtree) for subtree in subtrees}
    known = bench.shop.look_up(keys.values())
    missing = {key: subtree for subtree, key in reversed(keys.items()) if key not in known}

    def record(item: tuple[str, str]) -> dict[str, Any]:
        key, subtree = item
        LOGGER.info("recording the pipelines of %s", subtree[:12])
        document = asdict(_record(bench, subtree))
        bench.shop.keep({key: document})
        return document

    made = bench.shop.share_out(record, reversed(missing.items()))
    known |= dict(zip(reversed(missing), made, strict=True))
    return [_read_recorded(known[keys[subtree]], subtree) for subtree in subtrees]


def _key(bench: Bench, subtree: str) -> str:
    files = bench.shop.list_files(subtree)
    seen = [f"{entry} {path}" for path, entry in files.items() if is_visible(path)]
    return digest("recorded", bench.fingerprint, *PATTERNS, *seen)


def _read_recorded(document: Mapping[str, Any], subtree: str) -> Recorded:
    variants = tuple(read_variant(each) for each in document["variants"])
    commands = {name: tuple(words) for name, words in document["commands"].items()}
    return Recorded(subtree, variants, commands, tuple(document["idle"]), tuple(document["off"]))


def _record(bench: Bench, subtree: str) -> Recorded:
    with bench.shop.yard(subtree) as yard:
        features = _find_features(bench, yard)
        fingerprint = bench.fingerprint
        generated = generate(bench.shop, bench.place, yard, features, fingerprint)
        commands = generated.commands
        host = Host(bench.shop, bench.recorder, yard, generated, tuple(defines(features)))
        lines = list_pipelines(host)
        used = {line["shader"] for line in lines}
        sources = _name_sources(bench, yard, commands, used)
    return Recorded(
        subtree,
        tuple(_make_variant(line, sources) for line in lines),
        {name: commands[name] for name in sorted(used)},
        tuple(sorted(name for name in commands if is_judged(name) and name not in used)),
        tuple(feature.extension for feature in features if not feature.supported),
    )


def _find_features(bench: Bench, yard: Yard) -> list[Feature]:
    """What glslc has of what the tree asks for; asked once for the same tests."""
    backend = yard.ggml / BACKEND
    tests = sorted((backend / "vulkan-shaders/feature-tests").glob("*"))
    texts = [path.read_text("utf-8") for path in (backend / "CMakeLists.txt", *tests)]
    names = [path.name for path in tests]
    key = digest("features", bench.place.identity(), bench.glslc, *names, *texts)
    with bench.shop.making(Path(key)):
        known = bench.shop.look_up([key]).get(key)
        if known is None:
            known = {
                "features": [asdict(each) for each in try_features(bench.place.glslc, yard.ggml)]
            }
            bench.shop.keep({key: known})
    return [Feature(**each) for each in known["features"]]


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


def _name_sources(
    bench: Bench, yard: Yard, commands: Mapping[str, tuple[str, ...]], used: Iterable[str]
) -> dict[str, str]:
    """The digest of all that a shader is compiled from, by shader."""
    sources = Sources(yard.ggml)
    closures: dict[str, str] = {}
    names = {}
    for shader in used:
        words = commands[shader]
        (file,) = (word for word in words if word.endswith(".comp"))
        if file not in closures:
            closures[file] = sources.digest((yard.ggml / file).resolve())
        names[shader] = digest("shader", bench.glslc, closures[file], *words)
    return names
