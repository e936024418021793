"""The clang that compiles ggml-cuda's kernels for Strix Halo, with its fingerprint."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from upstream.errors import CommandError, EnvironmentFault
from upstream.lab import Lab
from validate.hip.remarks import PASS, parse_remarks
from validate.isa.compilers import digest
from validate.isa.place import Place, open_root
from validate.shader_root import HIP_SUITE, find_root, make_root

LOGGER = logging.getLogger("lab")
GPU = "gfx1151"  # Strix Halo
MAKE_ROOT = f"run as root: nox -s toolchain -- --suite {HIP_SUITE}"
# Upstream's Release build with the defaults of ggml/CMakeLists.txt at b11549; the host's own
# choices (graphs, RCCL) do not reach device code.
DEFINES = ("-DGGML_USE_HIP", "-DGGML_HIP_NO_VMM", "-DNDEBUG")
# ggml/cmake/common.cmake says by a define each which pairs of K and V fattn.cu may choose.
FA_TYPES = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "bf16", "f16")
FA_CHOSEN = ("q4_0", "q8_0", "f16", "bf16")  # with itself: the default of GGML_CUDA_FA_QUANTS
FA_DEFINES = (
    f'-DGGML_CUDA_FA_QUANTS="{",".join(f"{each}-{each}" for each in FA_CHOSEN)}"',
    *(
        f"-DGGML_CUDA_FA_{k.upper()}_{v.upper()}={int(k == v and k in FA_CHOSEN)}"
        for v in FA_TYPES
        for k in FA_TYPES
    ),
)
COMPAT = Path(__file__).parent / "host_compat.h"
FLAGS = (
    *("-x", "hip", f"--offload-arch={GPU}", "--offload-device-only", "-O3", "-std=c++17"),
    *("-w", "-fno-caret-diagnostics", f"-Rpass-analysis={PASS}", *DEFINES),
    *FA_DEFINES,
)
TRIAL = """
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <hipblas/hipblas.h>
__global__ void trial(float * x) { x[threadIdx.x] = __half2float(__float2half(x[0])); }
"""


@dataclass(frozen=True)
class HipCompiler:
    """clang for one GPU. `fingerprint` stands for all that decides its answers but the source.

    filter: the program that demangles names.
    """

    name: str
    version: str
    place: Place
    program: str
    flags: tuple[str, ...]
    filter: str
    fingerprint: str = ""
    device: str = f"{GPU}, device code of HIP"

    @property
    def front_flags(self) -> list[str]:
        """The flags of the half before optimisation, where nothing is said about kernels."""
        return [flag for flag in self.flags if not flag.startswith("-Rpass")]


def find_hip_compiler(lab: Lab, shared: Path, root: Path | None = None) -> HipCompiler:
    """The clang of the named root; else the machine's own ROCm, else that of the lab's root.

    Raises EnvironmentFault (exit 3) when there is none and no root can be made.
    """
    if root is not None:
        return open_hip_compiler(_open(root, shared))
    own = _try_machine(shared)
    if own is not None:
        return own
    return open_hip_compiler(_open(find_root(lab, HIP_SUITE) or make_root(lab, HIP_SUITE), shared))


def hip_compiler_at_hand(lab: Lab, shared: Path) -> HipCompiler | None:
    """The compiler if nothing has to be installed for it, else None."""
    root = find_root(lab, HIP_SUITE)
    if root is not None and os.geteuid() == 0:
        return open_hip_compiler(_open(root, shared))
    return _try_machine(shared)


def _open(root: Path, shared: Path) -> Place:
    try:
        return open_root(root, shared)
    except EnvironmentFault as fault:
        raise EnvironmentFault(
            fault.what, remedy=f"{MAKE_ROOT}; a half-made one is made again"
        ) from fault


def _try_machine(shared: Path) -> HipCompiler | None:
    """ROCm's own clang where its folder is, or one on PATH, if it compiles for the GPU."""
    for program, rocm in _candidates():
        try:
            return open_hip_compiler(Place(shared), program, (f"--rocm-path={rocm}",))
        except EnvironmentFault as fault:
            LOGGER.info("not %s: %s", program, fault.what.splitlines()[0])
    return None


def _candidates() -> Iterator[tuple[str, str]]:
    rocm = Path(os.environ.get("ROCM_PATH", "/opt/rocm"))
    own = rocm / "llvm/bin/clang++"
    if own.is_file():
        yield str(own), str(rocm)
    if found := shutil.which("amdclang++"):
        yield found, str(rocm if rocm.is_dir() else Path("/usr"))


def open_hip_compiler(
    place: Place, program: str = "", options: tuple[str, ...] = ()
) -> HipCompiler:
    """Make a clang compile a trial kernel, and ask its version.

    Raises EnvironmentFault: no clang there, or it compiles no HIP for the GPU.
    """
    if not program:
        program, options = _debian_clang(place)
    flags = (*options, *FLAGS, "-include", _lend(place, COMPAT))
    try:
        clang = place.run([program, "--version"], timeout=60).text
        hip = _read_hip_version(place, program, flags)
    except CommandError as error:
        raise EnvironmentFault(
            f"{program} of {place.top} does not compile HIP for {GPU}: {_first_error(error)}",
            remedy=MAKE_ROOT,
        ) from error
    number = re.search(r"version (\d+(?:\.\d+)*)", clang)
    short = number[1] if number else "?"
    return HipCompiler(
        name=f"clang {short} {GPU}",
        version=f"{clang.splitlines()[0]}, HIP {hip}",
        place=place,
        program=program,
        flags=flags,
        filter=_find_filter(place, program),
        fingerprint=digest("hip", place.identity(), clang, hip, COMPAT.read_text(), *flags),
    )


def _lend(place: Place, file: Path) -> str:
    """A copy of one of our files where the compilers see it."""
    copy = place.shared / file.name
    half = copy.with_suffix(".half")
    half.write_text(file.read_text())
    half.replace(copy)
    return place.inside(copy)


def _debian_clang(place: Place) -> tuple[str, tuple[str, ...]]:
    """Debian's clang, which has to be told where the device libraries are."""
    bitcode = place.find("usr/lib/llvm-*/lib/clang/*/amdgcn/bitcode")
    if bitcode is None:
        raise EnvironmentFault(
            f"{place.top} has no device libraries of AMD (rocm-device-libs)", remedy=MAKE_ROOT
        )
    program = f"clang++-{Path(bitcode).parts[3].removeprefix('llvm-')}"
    if place.find(f"usr/bin/{program}") is None:
        raise EnvironmentFault(f"{place.top} has no {program}", remedy=MAKE_ROOT)
    return program, (f"--hip-device-lib-path={bitcode}", "--rocm-path=/usr")


def _read_hip_version(place: Place, program: str, flags: tuple[str, ...]) -> str:
    """Compile the trial kernel, then let the preprocessor say the version of the headers."""
    output = ("-S", "-o", "/dev/null", "-")
    done = place.run([program, *flags, *output], stdin=TRIAL.encode(), timeout=300)
    if not parse_remarks(done.stderr.decode("utf-8", "replace")):
        raise EnvironmentFault(
            f"{program} of {place.top} says nothing about the registers of a kernel",
            remedy=f"it has to know -Rpass-analysis={PASS} (clang 15 and later); {MAKE_ROOT}",
        )
    words = "HIP_VERSION_MAJOR.HIP_VERSION_MINOR.HIP_VERSION_PATCH\n"
    source = f"#include <hip/hip_version.h>\nmarked {words}".encode()
    done = place.run([program, *flags, "-E", "-P", "-"], stdin=source, timeout=300)
    found = re.search(r"^marked (.*)$", done.text, re.MULTILINE)
    return found[1].replace(" ", "") if found else "?"


def _find_filter(place: Place, program: str) -> str:
    beside = str(Path(program).parent / "llvm-cxxfilt")
    return beside if place.find(beside.lstrip("/")) else "c++filt"


def _first_error(error: CommandError) -> str:
    lines = error.failure.stderr_tail.splitlines() or [f"exit code {error.failure.code}"]
    return next((line for line in lines if "error" in line), lines[0])
