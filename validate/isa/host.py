"""The host code of a tree as a program that prints the pipelines it sets up.

Its objects are kept by what they are compiled from. A precompiled header spares most of the time
that vulkan.hpp takes; where it can't be made or does not fit, it is left out.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

from upstream.errors import CommandError, InvalidMeasurement
from validate.glslc_features import BACKEND
from validate.isa.compilers import Compiler, digest, find_cxx, run_first
from validate.isa.generator import DATA, HEADER, Generated
from validate.isa.sources import Sources
from validate.isa.variants import PATTERNS, is_judged
from validate.isa.workshop import Workshop, Yard

LOGGER = logging.getLogger("lab")
HERE = Path(__file__).parent
HOOK, DRIVER = "record_pipelines.h", "record_pipelines.cpp"
HOST = "ggml-vulkan.cpp"
# The one place through which all pipelines go; it is the same text in b10566 to b11549.
ANCHOR = "        vk_pipeline *ptr = &base_pipeline;\n"
CALL = (
    "        lab_record_pipeline(name, spv_data, spv_size, parameter_count, push_constant_size, "
    "specialization_constants, disable_robustness, require_full_subgroups, "
    "required_subgroup_size);\n"
)
UNUSED = ("ggml-opt.cpp", "gguf.cpp")  # of the library's own files, in ggml/src
VERSION_HEADER = '#define GGML_VERSION "lab"\n#define GGML_COMMIT "lab"\n'
SECONDS = 600.0
FLAGS = ("-O0", "-w", "-D_GNU_SOURCE", "-DGGML_USE_VULKAN")
# Memory instead of gcc's garbage collection, which reads a precompiled header whole.
GCC_ONLY = ("--param=ggc-min-expand=10000", "--param=ggc-min-heapsize=4000000")
CLANG_HEADER = ("-fpch-instantiate-templates",)
_BIG = re.compile(r"^#\s*include\s*<vulkan/vulkan\.hpp>\n", re.MULTILINE)
_OWN = re.compile(r'^\s*#\s*include\s*".*\n', re.MULTILINE)


@dataclass(frozen=True)
class Host:
    """A tree's host code in its folder, with the generated files and the build's defines."""

    shop: Workshop
    recorder: Compiler
    yard: Yard
    generated: Generated
    defines: tuple[str, ...]
    first: tuple[Path, ...] = ()  # where headers are looked for first

    @property
    def folders(self) -> list[Path]:
        """The -I folders."""
        ggml = self.yard.ggml
        own = [ggml / name for name in ("include", "src", str(BACKEND))]
        return [*self.first, *own, self.generated.folder, self.yard.work]

    @property
    def flags(self) -> list[str]:
        """All that decides an object but its sources and folders."""
        return [*FLAGS, *self.defines]


def list_pipelines(host: Host) -> list[dict[str, Any]]:
    """Build the backend, open it, and read the pipelines that it sets up.

    The same objects are not run again. Raises InvalidMeasurement where there is none.
    """
    write_sources(host.yard)
    objects = _compile(host, _list_sources(host))
    names = sorted(path.name for path in objects)
    key = digest("pipelines", host.recorder.fingerprint, *PATTERNS, *names)
    known = host.shop.look_up([key]).get(key)
    if known is None:
        known = {"lines": _run(host, objects)}
        host.shop.keep({key: known})
    return list(known["lines"])


def write_sources(yard: Yard) -> None:
    """The host code with the hook, and what the build would generate."""
    text = (yard.ggml / BACKEND / HOST).read_text("utf-8")
    if text.count(ANCHOR) != 1:
        raise InvalidMeasurement(
            f"{HOST} no longer holds the line at which pipelines are recorded: {ANCHOR.strip()}",
            remedy="see what ggml_vk_create_pipeline became and mend validate/isa/host.py",
        )
    rmtree(yard.work, ignore_errors=True)
    yard.work.mkdir(parents=True)
    (yard.work / HOST).write_text(text.replace(ANCHOR, CALL + ANCHOR), "utf-8")
    (yard.work / "version.h").write_text(VERSION_HEADER)
    (yard.work / "ggml-version.h").write_text(VERSION_HEADER.replace("#define", "//"))
    for name in (HOOK, DRIVER):
        (yard.work / name).write_text((HERE / name).read_text())


def _list_sources(host: Host) -> list[Path]:
    ggml = host.yard.ggml
    folders = (ggml / "src", ggml / BACKEND)
    files = [path for folder in folders for path in sorted(folder.glob("*.c*"))]
    files = [path for path in files if path.suffix in (".c", ".cpp")]
    files = [path for path in files if path.name not in (HOST, *UNUSED)]
    return [host.yard.work / HOST, *files, host.generated.folder / DATA, host.yard.work / DRIVER]


def _run(host: Host, objects: Sequence[Path]) -> list[dict[str, Any]]:
    place, program = host.recorder.place, host.yard.work / "record_pipelines"
    names = [place.inside(path) for path in objects]
    place.run(["g++", "-o", place.inside(program), *names, "-lvulkan", "-ldl", "-pthread"])
    variables = dict(host.recorder.variables) | {"LAB_RECORD_FD": "1"}
    done = place.run([place.inside(program)], variables, timeout=SECONDS)
    texts = [text for text in done.text.splitlines() if text.startswith('{"pipeline"')]
    judged = [line for line in map(json.loads, texts) if is_judged(line["shader"])]
    if not judged:
        raise InvalidMeasurement(
            "the backend set up no matrix pipeline: "
            + done.stderr.decode("utf-8", "replace")[-500:],
            remedy="run with -v, and see docs/how-to/check-shaders.md",
        )
    return judged


def _compile(host: Host, files: Iterable[Path]) -> list[Path]:
    """Object files of sources; those whose sources did not change are there already.

    The list of shaders is a header of the whole backend, and the code that sets up pipelines uses
    it. Other files have none to see, so that they are not compiled again for another shader; those
    that do not compile without it have it.
    """
    every, few = host, replace(host, first=(_make_empty_list(host.shop),))
    sources = {id(each): Sources(each.yard.ggml, each.folders) for each in (every, few)}

    def compile_one(file: Path) -> Path:
        if file.parent.name == BACKEND.name and file.suffix == ".cpp" and file.name != HOST:
            try:
                return _compile_one(few, sources[id(few)], file)
            except InvalidMeasurement as error:
                LOGGER.info("%s uses the list of shaders: %s", file.name, error.what)
        return _compile_one(every, sources[id(every)], file)

    return [compile_one(file) for file in files]


def _make_empty_list(shop: Workshop) -> Path:
    folder = shop.make("headers-without-shaders")
    with shop.making(folder):
        if not (folder / HEADER).is_file():
            (folder / HEADER).write_text("#include <cstdint>\n")
    return folder


def _compile_one(host: Host, sources: Sources, file: Path) -> Path:
    hook = (HERE / HOOK).read_text() if file.name == HOST else ""
    identity = host.recorder.place.identity()
    compilers = _list_compilers(host, file)
    words = [word for words in compilers for word in words]
    key = digest(
        sources.digest(file.resolve()), hook, VERSION_HEADER, identity, *words, *host.flags
    )
    target = host.shop.make("objects") / f"{key}.o"
    with host.shop.making(target):
        if not target.is_file():
            closure = sources.closure(file.resolve())
            check_seen(host.yard.ggml, closure)
            half = target.with_suffix(".half")
            _run_compilers(host, compilers, closure, file, half)
            half.rename(target)
    return target


def _list_compilers(host: Host, file: Path) -> list[list[str]]:
    """The compilers of a file with their own flags, the first to try first."""
    if file.suffix == ".c":
        return [["gcc", "-std=gnu11"]]
    found = find_cxx(host.recorder.place)
    return [[each, "-std=c++17", *(GCC_ONLY if each == "g++" else ())] for each in found]


def is_visible(path: Path) -> bool:
    """Whether a file of the ggml folder may reach what is recorded: other backends' headers may."""
    folder = path.parent
    other = folder.is_relative_to("src") and folder != Path("src")
    return not other or folder.is_relative_to(BACKEND) or path.suffix in (".h", ".hpp")


def check_seen(ggml: Path, closure: Iterable[Path]) -> None:
    """Raises InvalidMeasurement where a file is included that the key of a recording leaves out."""
    top = ggml.resolve()
    below = [path.relative_to(top) for path in closure if path.is_relative_to(top)]
    unseen = sorted(str(path) for path in below if not is_visible(path))
    if unseen:
        raise InvalidMeasurement(
            f"the host code includes {', '.join(unseen)}, of another backend: a change in it "
            "would go unseen",
            remedy="mend is_visible in validate/isa/host.py",
        )


def _run_compilers(
    host: Host,
    compilers: Sequence[list[str]],
    closure: Iterable[Path],
    file: Path,
    half: Path,
) -> None:
    """With the first compiler's precompiled header first; what fails gives way to the next."""
    place, work = host.recorder.place, host.yard.work
    rest = [*host.flags, "-include", place.inside(work / "version.h")]
    rest += [f"-I{place.inside(folder)}" for folder in host.folders]
    rest += ["-include", place.inside(work / HOOK)] if file.name == HOST else []
    rest += ["-c", place.inside(file), "-o", place.inside(half)]
    prefix = _precompile(host, compilers[0], closure) if file.suffix == ".cpp" else None
    first = [[*compilers[0], "-include", place.inside(prefix), *rest]] if prefix else []
    try:
        run_first(place, [*first, *([*words, *rest] for words in compilers)], SECONDS)
    except CommandError as error:
        raise InvalidMeasurement(
            f"{file.name} does not compile with the hook: {error.failure.stderr_tail[-1500:]}",
            remedy="does the step build with Vulkan at all? else mend validate/isa/host.py",
        ) from error


def read_prefix(closure: Iterable[Path]) -> str:
    """What stands before and with `#include <vulkan/vulkan.hpp>` in the file that includes it,
    without what it includes from the tree: the same macros have to be set. Empty where none does.
    """
    for path in sorted(closure):
        text = path.read_text("utf-8", "replace")
        if found := _BIG.search(text):
            return _OWN.sub("", text[: found.end()])
    return ""


def _precompile(host: Host, compiler: list[str], closure: Iterable[Path]) -> Path | None:
    """The header whose precompiled form lies beside it; the last one only is kept: g++'s is 230 MB.

    clang wants to find it where it was compiled, so only the form is renamed when it is done.
    """
    place, text = host.recorder.place, read_prefix(closure)
    if not text:
        return None
    key = digest("header", text, place.identity(), *compiler, *CLANG_HEADER, *host.flags)
    folder = host.shop.folder / "headers" / key
    header = folder / "prefix.h"
    form, failed = header.with_suffix(".h.gch"), folder / "failed"
    with host.shop.making(folder.parent):
        if not (form.is_file() or failed.is_file()):
            rmtree(folder.parent, ignore_errors=True)
            folder.mkdir(parents=True)
            header.write_text(text, "utf-8")
            _run_header(host, compiler, header, form)
    return header if form.is_file() else None


def _run_header(host: Host, compiler: list[str], header: Path, form: Path) -> None:
    place, half = host.recorder.place, form.with_suffix(".half")
    own = CLANG_HEADER if "clang" in compiler[0] else ()
    words = [*compiler, *own, *host.flags, "-x", "c++-header", "-c", place.inside(header)]
    try:
        place.run([*words, "-o", place.inside(half)], timeout=SECONDS)
        half.rename(form)
    except CommandError as error:
        LOGGER.info("no precompiled header: %s", error.what)
        (header.parent / "failed").touch()
