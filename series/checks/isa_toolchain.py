"""Run shader tools inside a root made by toolchain_root.sh: glslc, the generator, the driver.

A directory of the caller (the work directory) is bound to /mnt of the root for each command, in
a mount namespace of its own, so nothing is written to the root and no mount is left behind.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

GENERATOR = "vulkan-shaders-gen.cpp"
SHADERS = Path("ggml/src/ggml-vulkan/vulkan-shaders")
SHIM = "libamdgpu_noop_drm_shim.so"
TOOL = "pipeline_stats.c"
TOOL_VARIABLE = "LAB_PIPELINE_STATS"
VERSIONS = "toolchain-versions.txt"
ENTER = 'mount --bind "$1" "$2/mnt" && root=$2 && shift 2 && exec chroot "$root" env -i "$@"'
# stands in for glslc: compiles the wanted variants and leaves the others empty
RECORDER = """#!/bin/sh
for word in "$@"; do
    [ "$last" = -o ] && out=$word
    last=$word
done
name=${out##*/}
case " NAMES " in
    *" ${name%.spv} "*) exec /usr/bin/glslc "$@" ;;
esac
: >"$out"
"""

Statistics = dict[str, int | float | bool]


class RootMissingError(Exception):
    """The toolchain root is not there, or not complete."""


class ToolFailedError(Exception):
    """A command inside the root failed."""


@dataclass(frozen=True)
class Pipeline:
    """What the driver is asked to compile."""

    spirv: Path
    spec: Mapping[int, int]
    subgroup: int
    push: int
    bindings: int

    def arguments(self) -> list[str]:
        """The command line of pipeline_stats."""
        spec = ",".join(f"{key}={value}" for key, value in sorted(self.spec.items()))
        numbers = {"subgroup": self.subgroup, "push": self.push, "bindings": self.bindings}
        options = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
        return ["--spirv", f"/mnt/{self.spirv}", "--spec", spec, *options]


@dataclass(frozen=True)
class Compiled:
    """What the driver's compiler said about one pipeline."""

    device: str
    version: str
    statistics: Statistics


@dataclass(frozen=True)
class Toolchain:
    """A toolchain root and the work directory that it shares with this process."""

    root: Path
    work: Path

    def run(self, command: Iterable[str], environment: Iterable[str] = ()) -> str:
        """Run a command inside the root and return its output."""
        enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "sh"]
        places = [str(self.work), str(self.root)]
        variables = ["PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "TMPDIR=/mnt", *environment]
        words = [*enter, *places, *variables, *command]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ToolFailedError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def driver_environment(self) -> list[str]:
        """Variables that make RADV show a GPU this machine lacks."""
        common = ["MESA_SHADER_CACHE_DISABLE=1", f"VK_DRIVER_FILES={self._icd()}"]
        shim = next(self.root.glob(f"usr/lib/*/**/{SHIM}"), None)
        if shim is None:
            return [*common, "RADV_FORCE_FAMILY=gfx1151"]
        return [*common, f"LD_PRELOAD=/{shim.relative_to(self.root)}", "AMDGPU_GPU_ID=strix1"]

    def _icd(self) -> str:
        icd = next(self.root.glob("usr/share/vulkan/icd.d/radeon_icd*.json"), None)
        if icd is None:
            raise RootMissingError(f"{self.root} has no RADV driver")
        return f"/{icd.relative_to(self.root)}"

    def build_tool(self, source: Path) -> None:
        """Compile pipeline_stats into the work directory."""
        shutil.copyfile(source, self.work / TOOL)
        flags = ["-std=c99", "-O1", "-o", "/mnt/pipeline_stats", f"/mnt/{TOOL}", "-lvulkan"]
        self.run(["gcc", *flags])

    def shaders(
        self, tree: Path, source: str, names: Iterable[str], defines: Iterable[str] = ()
    ) -> list[Path]:
        """Compile the named variants of one shader, with the defines of the tree's generator."""
        if not (tree / SHADERS / source).is_file():
            return []
        self._copy_shaders(tree)
        self._build_generator(defines)
        self._write_recorder(names)
        files = ["--target-hpp", "/mnt/out.hpp", "--target-cpp", "/mnt/out.cpp"]
        places = ["--source", f"/mnt/shaders/{source}", "--output-dir", "/mnt/spirv", *files]
        self.run(["/mnt/generator", "--glslc", "/mnt/glslc", *places])
        made = [path for path in self.work.glob("spirv/*.spv") if path.stat().st_size > 0]
        return sorted(path.relative_to(self.work) for path in made)

    def _build_generator(self, defines: Iterable[str]) -> None:
        flags = ["-std=c++17", "-pthread", *(f"-D{define}" for define in defines)]
        self.run(["g++", *flags, "-o", "/mnt/generator", f"/mnt/shaders/{GENERATOR}"])

    def _write_recorder(self, names: Iterable[str]) -> None:
        recorder = self.work / "glslc"
        recorder.write_text(RECORDER.replace("NAMES", " ".join(names)))
        recorder.chmod(0o755)

    def _copy_shaders(self, tree: Path) -> None:
        for name in ("shaders", "spirv"):
            shutil.rmtree(self.work / name, ignore_errors=True)
        shutil.copytree(tree / SHADERS, self.work / "shaders")

    def compile(self, pipeline: Pipeline) -> Compiled:
        """Let the driver compile one pipeline."""
        command = ["/mnt/pipeline_stats", *pipeline.arguments()]
        answer = json.loads(self.run(command, self.driver_environment()))
        return Compiled(answer["device"], answer["version"], answer["statistics"])

    def compile_all(self, pipelines: Iterable[Pipeline]) -> list[Compiled]:
        """Let the driver compile several pipelines, in the given order."""
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            return list(pool.map(self.compile, pipelines))


def find_tool(beside: Path) -> Path:
    """The source of pipeline_stats: as told, beside a script, or in validate/isa above it.

    `nox -s validate` tells it, because a series may be kept anywhere (--series).
    """
    named = os.environ.get(TOOL_VARIABLE)
    folders = [Path(named).parent] if named else []
    folders += [beside.parent, *(parent / "validate" / "isa" for parent in beside.parents)]
    found = next((folder / TOOL for folder in folders if (folder / TOOL).is_file()), None)
    if found is None:
        raise ToolFailedError(f"no {TOOL} beside {beside.name} or in validate/isa above it")
    return found


def open_toolchain(root: Path, work: Path, tool: Path) -> Toolchain:
    """Check the root, make the work directory and compile the tool."""
    if not (root / VERSIONS).is_file():
        raise RootMissingError(f"no complete toolchain in {root}: make it with nox -s toolchain")
    work.mkdir(parents=True, exist_ok=True)
    toolchain = Toolchain(root.resolve(), work.resolve())
    toolchain.build_tool(tool)
    return toolchain


def write_report(check: str, rows: list[dict[str, object]], **more: object) -> None:
    """Write the one JSON document of a check to standard output."""
    passed = bool(rows) and all(row["passed"] for row in rows)
    document = {"check": check, "cases": len(rows), "passed": passed, **more, "rows": rows}
    sys.stdout.write(json.dumps(document, indent=1) + "\n")


def report(check: str, rows: list[dict[str, object]], compiled: list[Compiled]) -> int:
    """Write the report of what was compiled, and return the exit status."""
    if not rows:
        write_report(check, [], compiler=None, device=None, reason="nothing was compiled")
        return 4
    spoke = compiled[0] if compiled else Compiled("none", "none: read from the sources", {})
    write_report(check, rows, compiler=spoke.version, device=spoke.device)
    return 0 if all(row["passed"] for row in rows) else 1


def run_check(script: Path, purpose: str, measure: Callable[[Toolchain | None, Path], int]) -> int:
    """Read the command line of a check, run it, and return the exit status."""
    arguments = read_arguments(purpose)
    try:
        toolchain = None
        if arguments.root is not None:
            tool = find_tool(script.resolve())
            toolchain = open_toolchain(arguments.root, arguments.work, tool)
        return measure(toolchain, arguments.source)
    except (RootMissingError, ToolFailedError) as error:
        write_report(script.stem, [], compiler=None, device=None, reason=str(error))
        return 3 if isinstance(error, RootMissingError) else 2


def read_arguments(purpose: str) -> argparse.Namespace:
    """What every check is called with; these ones need no built programs."""
    parser = argparse.ArgumentParser(
        description=purpose, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, required=True, help="a llama.cpp source tree")
    parser.add_argument("--root", type=Path, help="made by ci/toolchain_root.sh")
    parser.add_argument("--work", type=Path, required=True, help="directory for what is compiled")
    parser.add_argument("--bin", type=Path, help="not used")
    return parser.parse_args()
