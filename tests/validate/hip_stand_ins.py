"""A stand-in for a HIP toolchain: a shell script in place of clang, and a tree for it.

The real one is tried by test_e2e_hip.py; here it is what fails and what is not done again. The
script takes `KERNEL NAME SPILLS` lines of a file (and of what it includes) for its kernels. Its
intermediate code has a function for each, with the number in it.
"""

from __future__ import annotations

from pathlib import Path

from tests.validate.isa_stand_ins import make_root
from validate.hip.compiler import HipCompiler
from validate.isa.place import Place

CLANG = r"""
case "$*" in
*--version*) echo "stand-in clang version 17.0.6 (1)"; exit;;
*" -E "*) cat >/dev/null; echo "marked 5.7.1"; exit;;
esac
for source; do [ "$last" = -o ] && out=$source; last=$source; done
dir=$(dirname "$source")
case "$*" in
*-emit-pch*) echo header >>"$0.headers"; : >"$out"; exit;;
*-include-pch*) echo quick >>"$0.headers";;
esac
[ "$source" = - ] && { cat >/dev/null; set -- trial; text="KERNEL _Z5trialv 0"; }
case "$source" in
-) ;;
*.ll) text=$(sed -n 's/^define amdgpu_kernel void @\(.*\)() { ;\(.*\)/KERNEL \1 \2/p' "$source")
    echo "$text" | sed -n 's/^KERNEL \([^ ]*\).*/\1/p' >>"$0.kernels";;
*) echo "$source" >>"$0.log"; text=$(cat "$source" "$dir"/common.cuh);;
esac
case "$text" in
*CRASH*) kill -SEGV $$;;
*BROKEN*) echo "$source:1:1: error: no such type" >&2; exit 1;;
esac
case "$*" in
*-emit-llvm*)
    code='define amdgpu_kernel void @\1() { ;\2\n}'
    echo "$text" | sed -n "s/^KERNEL \([^ ]*\) \([0-9]*\).*/$code/p" >"$out"
    exit;;
esac
say() { echo "k.cu:1:1: remark: $1 [-Rpass-analysis=kernel-resource-usage]" >&2; }
echo "$text" | while read -r word name spills; do
    [ "$word" = KERNEL ] || continue
    say "Function Name: $name"
    say "    SGPRs: 8"
    say "    VGPRs: 40"
    say "    ScratchSize [bytes/lane]: $((spills * 4))"
    say "    Occupancy [waves/SIMD]: 16"
    say "    SGPRs Spill: 0"
    say "    VGPRs Spill: $spills"
    say "    LDS Size [bytes/block]: 0"
done
"""
CUDA = "ggml/src/ggml-cuda/"
TREE: dict[str, str | None] = {
    "ggml/src/ggml.c": "int x;\n",
    CUDA + "common.cuh": "// for all\n",
    CUDA + "mmq.cuh": "// for mmq\n",
    CUDA + "norm.cu": '#include "common.cuh"\nKERNEL _Z4normf 0\nKERNEL _Z4backf 3\n',
    CUDA + "host.cu": '#include "common.cuh"\n',
    CUDA + "template-instances/common.cuh": "// so that the stand-in finds one\n",
    CUDA + "template-instances/mmq-instance-q4_0.cu": '#include "../mmq.cuh"\nKERNEL _Z3mmqf 2\n',
}
COMPILER = HipCompiler(
    "stand-in", "stand-in 1.0", Place(Path("/none")), "clang", (), "cat", "fingerprint"
)


def make_hip_root(tmp_path: Path, clang: str = CLANG) -> Place:
    """A root with the script as its clang."""
    place = make_root(tmp_path, {"clang++-17": clang, "c++filt": "cat"})
    (place.top / "usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode").mkdir(parents=True)
    return place


def compiled_files(place: Place) -> list[str]:
    """The files that the stand-in has compiled so far, in any order."""
    return _read_log(place, "log")


def compiled_kernels(place: Place) -> list[str]:
    """The kernels that it has compiled from intermediate code so far, in any order."""
    return _read_log(place, "kernels")


def used_headers(place: Place) -> list[str]:
    """`header` for each precompiled header that was made, `quick` for each file that had it."""
    return _read_log(place, "headers")


def _read_log(place: Place, suffix: str) -> list[str]:
    log = place.top / f"usr/bin/clang++-17.{suffix}"
    return sorted(Path(line).name for line in log.read_text().split()) if log.exists() else []
