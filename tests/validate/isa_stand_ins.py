"""Stand-ins for a toolchain root: shell scripts in place of glslc, gcc and the driver.

The real ones are tried by test_e2e_isa.py; here it is how they fail that is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from upstream.git import EMPTY_TREE, Stage
from upstream.lab import Lab
from validate.glslc_features import BACKEND
from validate.isa.compilers import Compiler
from validate.isa.place import Place
from validate.isa.statistics import Numbers
from validate.isa.variants import Variant
from validate.isa.workshop import Workshop
from validate.shader_root import COMPLETE

VULKAN = f"ggml/{BACKEND}"
SHADERS = f"{VULKAN}/vulkan-shaders"
GFX1151 = '{"device": "Null hardware (RADV GFX1151)", "driver": "radv", "version": "Mesa 25.0.7-2"}'


def make_root(tmp_path: Path, programs: Mapping[str, str], *, shim: bool = False) -> Place:
    """A finished root with a RADV driver and the given shell scripts as its programs."""
    root, shared = tmp_path / "root", tmp_path / "shared"
    binaries, icd = root / "usr/bin", root / "usr/share/vulkan/icd.d"
    for folder in (binaries, icd, shared):
        folder.mkdir(parents=True)
    (icd / "radeon_icd.x86_64.json").write_text("{}")
    (root / COMPLETE).write_text("suite stand-in\n")
    if shim:
        place = root / "usr/lib/x86_64-linux-gnu"
        place.mkdir(parents=True)
        (place / "libamdgpu_noop_drm_shim.so").write_text("")
    for name, body in programs.items():
        write_program(binaries / name, body)
    return ScriptRoot(shared, root)


@dataclass(frozen=True)
class ScriptRoot(Place):
    """A root whose programs are scripts that run on this machine, without chroot or mount."""

    def inside(self, path: Path) -> str:
        return str(path)

    def _enter(self) -> list[str]:
        # The last PATH counts: the scripts first, then this machine's shell and tools.
        return ["env", "-i", "sh", "-c", ENTER, "sh", str(self.top / "usr/bin")]


# $1 is the scripts' folder, then NAME=VALUE words, then the command
ENTER = (
    "bin=$1; shift; while case $1 in [A-Z]*=*) true;; *) false;; esac; do "
    'case $1 in LD_PRELOAD=*|PATH=*) ;; *) export "$1";; esac; shift; done; '
    'export PATH="$bin:/usr/bin:/bin"; exec "$@"'
)


def write_program(path: Path, body: str) -> None:
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{dedent(body)}")
    path.chmod(0o755)


def driver_that(says: str) -> str:
    """A gcc that 'compiles' a program with the given shell commands: the driver's stand-in."""
    return dedent(
        """
        while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
        printf '#!/bin/sh\\n%s\\n' '"""
        + dedent(says).strip().replace("'", "'\\''")
        + """' > "$out"
        chmod +x "$out"
        """
    )


def make_compiler(place: Place, program: Path, name: str = "stand-in") -> Compiler:
    """A compiler whose program is a script."""
    return Compiler(name, "no GPU", "stand-in 1.0", place, program, {}, fingerprint=name)


def mat_vec(
    weights: str = "iq3_s", rows: int = 4, columns: int = 8, source: str = "s", wg: int = 64
) -> Variant:
    """The float mat-vec of a type as ggml-vulkan b11549 sets it up."""
    return Variant(
        pipeline=f"mul_mat_vec_{weights}_f32_f32",
        shader=f"mul_mat_vec_{weights}_f32_f32_subgroup_no_shmem",
        source=source,
        spec=(wg, rows, columns),
        bindings=5,
        push=52,
        subgroup=64,
        full=True,
        robust=False,
    )


def numbers(spilled: int = 0, cost: int = 1000) -> Numbers:
    """An answer; the rest of it is made up."""
    return Numbers(vgprs=128, spilled_vgprs=spilled, inverse_throughput=cost, access={})


def write_tree(shop: Workshop, lab: Lab, files: dict[str, str]) -> str:
    """A tree of the lab with these files."""
    stages = [
        Stage("100644", shop.git.write_blob(text.encode()), 0, name) for name, text in files.items()
    ]
    return shop.git.edit_tree(EMPTY_TREE, stages, lab.scratch)
