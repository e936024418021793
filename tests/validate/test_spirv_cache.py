"""The cache of compiled shaders, run as the script that stands for glslc, over a stand-in glslc."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from validate.vulkan import spirv_cache

# A stand-in for glslc: notes each compilation; the preprocessor drops lines with "//".
GLSLC = """#!/bin/sh
dir=$(dirname "$0")
for word in "$@"; do
    case $last in -o) out=$word ;; -MF) dep=$word ;; esac
    case $word in -E) only=1 ;; *.comp) source=$word ;; esac
    last=$word
done
[ -n "$only" ] && { cat "$source" "$(dirname "$source")"/*.glsl | grep -v // ; exit; }
echo x >>"$dir/calls"
grep -q broken "$source" && { echo "error: broken" >&2; exit 1; }
grep -q warned "$source" && echo "warning: odd" >&2
[ "$out" = - ] && exec echo "extension not supported: GL_X"
{ echo "$*" | grep -o -e "-D[A-Z=0-9]*"; cat "$source"; } >"$out"
[ -z "$dep" ] || echo "$out: $source" >"$dep"
"""


@dataclass(frozen=True)
class Bench:
    folder: Path

    def compile(self, *options: str, name: str = "a") -> subprocess.CompletedProcess[str]:
        out = self.folder / f"{name}.spv"
        script = [sys.executable, "-S", "-E", "-I", spirv_cache.__file__]
        place = [str(self.folder / "cache"), "identity", str(self.folder / "glslc")]
        words = ["-fshader-stage=compute", str(self.folder / "a.comp"), "-o", str(out), *options]
        command = [*script, *place, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    @property
    def calls(self) -> int:
        notes = self.folder / "calls"
        return len(notes.read_text().splitlines()) if notes.exists() else 0


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.write("glslc", GLSLC)
    (tmp_path / "glslc").chmod(0o755)
    made.write("a.comp", '#include "shared.glsl"\nvoid main() {}\n')
    made.write("shared.glsl", "float x;\n")
    return made


def test_the_same_shader_is_compiled_once(bench: Bench) -> None:
    assert bench.compile("-DTYPE=1").returncode == 0
    first = (bench.folder / "a.spv").read_bytes()
    (bench.folder / "a.spv").unlink()
    assert bench.compile("-DTYPE=1", name="b").returncode == 0
    assert (bench.folder / "b.spv").read_bytes() == first
    assert bench.calls == 1
    bench.compile("-DTYPE=2")
    assert bench.calls == 2


def test_a_change_in_what_is_included_counts_only_where_it_shows(bench: Bench) -> None:
    bench.compile()
    bench.write("shared.glsl", "float x;\n// a comment\n")
    assert bench.compile().returncode == 0
    assert bench.calls == 1
    bench.write("shared.glsl", "float y;\n")
    bench.compile()
    assert bench.calls == 2


def test_a_list_of_dependencies_comes_back_too(bench: Bench) -> None:
    listed = bench.folder / "a.d"
    options = ("-MD", "-MF", str(listed))
    bench.compile(*options)
    said = listed.read_text()
    listed.unlink()
    bench.compile(*options)
    assert (listed.read_text(), bench.calls) == (said, 1)


@pytest.mark.parametrize(("word", "code"), [("broken", 1), ("warned", 0)])
def test_what_fails_or_says_something_is_not_kept(bench: Bench, word: str, code: int) -> None:
    bench.write("a.comp", f"{word}\n")
    found = [bench.compile() for _ in range(2)]
    assert [each.returncode for each in found] == [code, code]
    assert all(each.stderr for each in found)
    assert bench.calls == 2


def test_what_is_no_compilation_into_a_file_goes_to_the_compiler() -> None:
    assert spirv_cache.read_job(["-o", "-", "test.comp"]) is None
    assert spirv_cache.read_job(["--version"]) is None
    assert spirv_cache.read_job(["-E", "a.comp", "-o", "a.txt"]) is None
    assert spirv_cache.read_job(["a.comp", "b.comp", "-o", "x"]) is None
