"""What building and running with Vulkan takes: glslc, headers, the loader, drivers, layers.

Out of a toolchain root (ci/toolchain_root.sh), or the machine's own. The programs of a root run on
this machine through the root's dynamic linker, so that its newer C library does not matter and
nobody has to be root. The root itself is only read.

vulkan/kit-<digest>/
    glslc               the compiler behind the cache of spirv_cache.py; plain-glslc: without it
    include, share      the headers of a root, without those of its C library
vulkan/spirv            compiled shaders by their content
vulkan/mesa             what Mesa made of them for lavapipe, its own cache
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from upstream import process
from upstream.errors import EnvironmentFault
from upstream.lab import Lab
from upstream.process import Completed
from validate.glslc_features import SECONDS as GLSLC_SECONDS
from validate.glslc_features import Glslc
from validate.shader_root import COMPLETE
from validate.vulkan import spirv_cache

LOGGER = logging.getLogger("lab")
HEADERS = ("vulkan", "vk_video", "spirv")
LOADER, LAYER = "libvulkan.so.1", "VkLayer_khronos_validation.json"
PLAIN = "plain-glslc"
SOFTWARE = "lvp_icd*.json"
# Debian 12's 2023.2 can't compile b11549's shaders; Debian 13's 2025.2 can.
OLDEST_GLSLC = (2024, 0)
_VERSION = re.compile(r"\bv?(\d{4})\.(\d+)")
REMEDY = "run: nox -s toolchain (as root, on Debian)"


@dataclass(frozen=True)
class Kit:
    """Tools in one place. `identity` stands for all that they produce.

    `glslc` is the compiler without the cache; `options` are cmake entries; `start` is the command
    before a program that uses Vulkan, and `variables` are for such a program alone. `software` is
    lavapipe's driver file and `layers` the folder of the validation layer, None without;
    `driver` stands for what is installed beside them.
    """

    name: str
    identity: str
    glslc: Path
    options: tuple[str, ...]
    software: Path | None
    layers: Path | None
    start: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""

    @property
    def compiler(self) -> Glslc:
        """glslc without the cache."""

        def run(options: Sequence[str], shader: Path) -> Completed:
            command: list[str | Path] = [self.glslc, *options, shader]
            return process.run(command, ok=range(256), timeout=GLSLC_SECONDS)

        return Glslc(self.name, run)

    @property
    def headers(self) -> Path:
        """Vulkan's headers; where the machine's own are taken, a folder without them."""
        return self.glslc.parent / "include"

    @property
    def pipelines(self) -> Path:
        """Where Mesa keeps compiled pipelines by their content; it may be removed at any time."""
        return self.glslc.parents[1] / "mesa"


def open_kit(lab: Lab, root: Path) -> Kit:
    """The kit of a toolchain root, made when missing.

    Raises EnvironmentFault when the root is half made or lacks a part.
    """
    root = root.absolute()
    if not (root / COMPLETE).is_file():
        raise EnvironmentFault(
            f"{root} is no finished toolchain root: it has no {COMPLETE}", remedy=REMEDY
        )
    identity = (root / COMPLETE).read_text()
    start = _start(root)
    folder = _make_kit(lab, root, (*start, os.fspath(root / "usr/bin/glslc")), identity)
    kit = Kit(
        name=os.fspath(root),
        identity=identity,
        glslc=folder / PLAIN,
        options=_list_options(folder, _find(root, f"usr/lib/*/{LOADER}")),
        software=None,
        layers=None,
    )
    return take_driver(kit, root)


def take_driver(kit: Kit, root: Path) -> Kit:
    """The same tools for building, with the drivers and layers of another root."""
    return replace(
        kit,
        software=_first(root, f"usr/share/vulkan/icd.d/{SOFTWARE}"),
        layers=_folder_of(_first(root, f"usr/share/vulkan/explicit_layer.d/{LAYER}")),
        start=_start(root),
        driver=(root / COMPLETE).read_text(),
    )


def _start(root: Path) -> tuple[str, ...]:
    """What starts a program with the C library of a root."""
    libraries = _find(root, f"usr/lib/*/{LOADER}").parent
    linker = _find(root, "usr/lib*/ld-linux*.so.*")
    return (os.fspath(linker), "--library-path", os.fspath(libraries))


def find_own_kit(lab: Lab) -> Kit | None:
    """The machine's own tools; None where glslc, loader, headers or any driver is not there.

    A glslc that is too old counts as none: the step would seem not to build.
    """
    glslc, top = shutil.which("glslc"), Path("/")
    loader = _first(top, f"usr/lib/*/{LOADER}") or _first(top, f"usr/lib64/{LOADER}")
    present = all((top / "usr/include" / name).is_dir() for name in HEADERS)
    if glslc is None or loader is None or not present:
        return None
    said = process.run((glslc, "--version")).text
    if read_glslc_version(said) < OLDEST_GLSLC:
        LOGGER.info("not this machine's own glslc: %s is too old", said.splitlines()[0])
        return None
    folder = _folder(lab, said)
    _write_glslc(folder, lab, (glslc,), said)
    options = (*_common_options(folder), "GGML_VULKAN=ON")
    return Kit(
        name="this machine",
        identity=said,
        glslc=folder / PLAIN,
        options=options,
        software=_first(top, f"usr/share/vulkan/icd.d/{SOFTWARE}"),
        layers=_folder_of(_first(top, f"usr/share/vulkan/explicit_layer.d/{LAYER}")),
    )


def read_glslc_version(said: str) -> tuple[int, int]:
    """`shaderc v2023.2 v2025.2` as (2025, 2): the package's own number comes last."""
    found = _VERSION.findall(said.partition("\n")[0])
    return (int(found[-1][0]), int(found[-1][1])) if found else (0, 0)


def spirv_folder(lab: Lab) -> Path:
    """Where compiled shaders are kept; it may be removed at any time."""
    return lab.root / "vulkan" / "spirv"


def _list_options(folder: Path, loader: Path) -> tuple[str, ...]:
    return (
        *_common_options(folder),
        "GGML_VULKAN=ON",
        f"Vulkan_INCLUDE_DIR={folder / 'include'}",
        f"Vulkan_LIBRARY={loader}",
        f"SPIRV-Headers_DIR={folder / 'share/cmake/SPIRV-Headers'}",
        # The loader wants the root's C library, which it gets when the program runs.
        "CMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined",
    )


def _common_options(folder: Path) -> tuple[str, ...]:
    return (f"Vulkan_GLSLC_EXECUTABLE={folder / 'glslc'}",)


def _make_kit(lab: Lab, root: Path, glslc: tuple[str, ...], identity: str) -> Path:
    folder = _folder(lab, "\n".join((identity, *glslc)))
    _write_glslc(folder, lab, glslc, identity)
    if (folder / "share").is_dir():
        return folder
    for name in HEADERS:
        source = _find(root, f"usr/include/{name}")
        shutil.copytree(source, folder / "include" / name, dirs_exist_ok=True)
    half = folder / "share.half"
    shutil.rmtree(half, ignore_errors=True)
    shutil.copytree(_find(root, "usr/share/cmake/SPIRV-Headers"), half / "cmake/SPIRV-Headers")
    half.rename(folder / "share")
    return folder


def _folder(lab: Lab, text: str) -> Path:
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return lab.root / "vulkan" / f"kit-{digest}"


def _write_glslc(folder: Path, lab: Lab, glslc: tuple[str, ...], identity: str) -> None:
    """Two programs in one word each, as CMake and upstream's generator take them."""
    digest = hashlib.sha256(identity.encode()).hexdigest()
    plain = folder / PLAIN
    _write_script(plain, glslc)
    cached = (sys.executable, "-S", "-E", "-I", spirv_cache.__file__, str(spirv_folder(lab)))
    _write_script(folder / "glslc", (*cached, digest, str(plain)))


def _write_script(path: Path, words: tuple[str, ...]) -> None:
    text = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _find(root: Path, pattern: str) -> Path:
    found = _first(root, pattern)
    if found is None:
        raise EnvironmentFault(f"the toolchain root {root} has no {pattern}", remedy=REMEDY)
    return found


def _first(top: Path, pattern: str) -> Path | None:
    return min(top.glob(pattern), default=None)


def _folder_of(path: Path | None) -> Path | None:
    return path.parent if path else None
