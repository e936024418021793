"""The shader compilers that judge: RADV's of two Mesa versions, each with its fingerprint."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upstream.errors import CommandError, EnvironmentFault
from upstream.lab import Lab
from upstream.process import Completed
from validate.isa.place import SECONDS, Place, machine_itself, open_root
from validate.shader_root import SUITES, find_root, make_root, root_folder

LOGGER = logging.getLogger("lab")
TOOL = Path(__file__).parent / "pipeline_stats.c"
SHIM = "libamdgpu_noop_drm_shim.so"
FAMILY, SHIM_GPU = "gfx1151", "strix1"  # Strix Halo, and its sister with the same instruction set
REMOVED = "RADV_FORCE_FAMILY"  # the driver's own words, from Mesa 26.1 on, when it is set in vain
HEADERS = "usr/include/vulkan/vulkan.hpp", "usr/include/spirv/unified1/spirv.hpp"


@dataclass(frozen=True)
class Compiler:
    """One compiler for one GPU. `fingerprint` stands for all that decides its answers.

    `variables` (LD_PRELOAD among them) are for the child that loads the driver and no other.
    """

    name: str
    device: str
    version: str
    place: Place
    program: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def shim(self) -> bool:
        """Whether a whole Vulkan program runs on it, not only its shader compiler."""
        return "LD_PRELOAD" in self.variables


def find_compilers(lab: Lab, shared: Path, roots: Sequence[Path]) -> list[Compiler]:
    """The compilers of the named roots; else the machine's own and, for what it lacks, the lab's.

    Raises EnvironmentFault (exit 3) when one can't be had, with what is missing.
    """
    if roots:
        return [open_compiler(open_root(root, shared)) for root in roots]
    own = _try_machine(shared)
    found = [own] if own else []
    for suite in SUITES:
        if not any(each.shim == (suite != SUITES[0]) for each in found):
            root = find_root(lab, suite) or make_root(lab, suite)
            found.append(open_compiler(open_root(root, shared)))
    return sorted(found, key=lambda each: each.shim)


def compilers_at_hand(lab: Lab, shared: Path) -> list[Compiler] | None:
    """The compilers if nothing has to be installed for them, else None."""
    roots = [root for suite in SUITES if (root := find_root(lab, suite))]
    return find_compilers(lab, shared, roots) if len(roots) == len(SUITES) else None


def _try_machine(shared: Path) -> Compiler | None:
    place = machine_itself(shared)
    if place is None or not all(place.find(name) for name in HEADERS):
        return None
    try:
        return open_compiler(place)
    except EnvironmentFault as fault:
        LOGGER.info("not this machine's own compilers: %s", fault.what.splitlines()[0])
        return None


def open_compiler(place: Place) -> Compiler:
    """Build the program that asks the driver, and ask it which device it shows.

    Raises EnvironmentFault: no RADV, no device, or a Mesa with neither of the two switches.
    """
    variables = driver_variables(place)
    program = build_tool(place, TOOL, ("-std=c99", "-O1"), ("-lvulkan",))
    probe = _probe(place, program, variables)
    identity = [place.identity(), TOOL.read_text(), json.dumps(probe, sort_keys=True)]
    gpu = variables.get("AMDGPU_GPU_ID", FAMILY)
    return Compiler(
        name=f"{_short(str(probe['version']))} {gpu}",
        device=str(probe["device"]),
        version=str(probe["version"]),
        place=place,
        program=program,
        variables=variables,
        fingerprint=digest(*identity, json.dumps(variables, sort_keys=True)),
    )


def driver_variables(place: Place) -> dict[str, str]:
    """What makes RADV show a GPU that this machine lacks."""
    icd = place.find("usr/share/vulkan/icd.d/radeon_icd*.json")
    if icd is None:
        raise EnvironmentFault(
            f"{place.top} has no RADV driver (usr/share/vulkan/icd.d/radeon_icd*.json)",
            remedy="install mesa-vulkan-drivers there, or run: nox -s toolchain",
        )
    common = {"MESA_SHADER_CACHE_DISABLE": "1", "VK_DRIVER_FILES": icd}
    shim = place.find(f"usr/lib/*/{SHIM}") or place.find(f"usr/lib/*/*/{SHIM}")
    if shim is None:
        return common | {"RADV_FORCE_FAMILY": FAMILY}
    return common | {"LD_PRELOAD": shim, "AMDGPU_GPU_ID": SHIM_GPU}


def build_tool(
    place: Place, source: Path, flags: Sequence[str], libraries: Sequence[str] = ()
) -> Path:
    """Compile one of our C programs there; one that is there already is used again."""
    key = digest(source.read_text(), place.identity(), *flags)[:16]
    program = place.shared / "bin" / f"{source.stem}-{key}"
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        copy = program.with_suffix(source.suffix)
        copy.write_text(source.read_text())
        half = program.with_suffix(".half")
        words = [*flags, "-o", place.inside(half), place.inside(copy), *libraries]
        place.run(["gcc", *words])
        half.rename(program)
    return program


def find_cxx(place: Place) -> list[str]:
    """The C++ compilers of a place, the first to try first: clang takes half of g++'s time at -O0.

    A root's own clang only, which is known to fit its headers.
    """
    clang = place.find("usr/bin/clang++-[0-9]*") if place.root else None
    return [Path(clang).name, "g++"] if clang else ["g++"]


def run_first(
    place: Place, commands: Sequence[Sequence[str]], timeout: float = SECONDS
) -> Completed:
    """Run the first of some commands that works. Raises CommandError with the last one's words."""
    for command in commands[:-1]:
        try:
            return place.run(command, timeout=timeout)
        except CommandError as error:
            LOGGER.info("%s: %s", command[0], error.what)
    return place.run(commands[-1], timeout=timeout)


def digest(*texts: str) -> str:
    """A hash of some texts, each delimited."""
    hasher = hashlib.sha256()
    for text in texts:
        content = text.encode()
        hasher.update(f"{len(content)}\0".encode() + content)
    return hasher.hexdigest()


def _probe(place: Place, program: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    try:
        done = place.run([place.inside(program), "--device"], variables, timeout=60)
        probe = json.loads(done.stdout)
    except (CommandError, ValueError) as error:
        raise _explain_probe(place, str(error)) from error
    wanted = variables.get("AMDGPU_GPU_ID", FAMILY)
    if wanted.lower() not in str(probe["device"]).lower():
        raise EnvironmentFault(
            f"the driver of {place.top} shows '{probe['device']}', not {wanted}",
            remedy="run: nox -s toolchain, and see docs/how-to/check-shaders.md",
        )
    return dict(probe)


def _explain_probe(place: Place, said: str) -> EnvironmentFault:
    if REMOVED in said and "removed" in said:
        return EnvironmentFault(
            f"the Mesa of {place.top} has neither switch: RADV_FORCE_FAMILY is gone from it and "
            f"there is no {SHIM}",
            remedy="install mesa-drm-shim there, or run: nox -s toolchain -- --suite trixie",
        )
    if "shows no device" in said:
        return EnvironmentFault(
            f"the Vulkan driver of {place.top} lists no device: its Mesa may not know the GPU "
            "(Debian 12's does not)",
            remedy="run: nox -s toolchain (Debian 13's Mesa)",
        )
    return EnvironmentFault(
        f"the Vulkan driver of {place.top} can't be asked: {said}",
        remedy="run: nox -s toolchain",
    )


def _short(version: str) -> str:
    """`Mesa 25.0.7-2+deb13u1` as `Mesa 25.0.7`."""
    return version.split("-")[0]


def missing_roots(lab: Lab) -> list[Path]:
    """The folders of the lab's roots that are not there or not finished."""
    return [root_folder(lab, suite) for suite in SUITES if find_root(lab, suite) is None]
