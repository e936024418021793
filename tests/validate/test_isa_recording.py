"""What is recorded and compiled again after a change, and what is not.

Compilers are shell scripts; the real ones are tried by test_e2e_isa.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.validate.isa_stand_ins import (
    SHADERS,
    VULKAN,
    ScriptRoot,
    make_compiler,
    make_root,
    mat_vec,
    write_program,
    write_tree,
)
from upstream.errors import InvalidMeasurement
from upstream.git import EMPTY_TREE
from upstream.lab import Lab
from validate.glslc_features import BACKEND
from validate.isa import generator, host, recording
from validate.isa.generator import Generated
from validate.isa.host import Host, check_seen, is_visible, read_prefix
from validate.isa.recording import Bench, Recorded, read_trees
from validate.isa.spirv import compile_shaders, define
from validate.isa.workshop import YARDS, Workshop

FILES = {
    f"{VULKAN}/ggml-vulkan.cpp": "host",
    f"{VULKAN}/ggml-vulkan-types.h": "types",
    f"{VULKAN}/CMakeLists.txt": "cmake",
    f"{SHADERS}/a.comp": "a",
    f"{SHADERS}/b.glsl": "b",
    f"{SHADERS}/vulkan-shaders-gen.cpp": "generator",
    f"{SHADERS}/feature-tests/coopmat.comp": "test",
    "ggml/src/ggml.c": "types",
    "ggml/src/ggml-common.h": "blocks",
    "ggml/src/ggml-cpu/ggml-cpu-impl.h": "included by ggml-quants.c",
    "ggml/src/ggml-cpu/quants.c": "cpu",
    "ggml/src/ggml-cuda/mmq.cu": "cuda",
    "ggml/src/ggml-cuda/mmq.cuh": "cuda",
    "ggml/include/ggml.h": "enum",
    "src/llama.cpp": "model",
}
UNSEEN = {
    "ggml/src/ggml-cpu/quants.c",
    "ggml/src/ggml-cuda/mmq.cu",
    "ggml/src/ggml-cuda/mmq.cuh",
    "src/llama.cpp",
}


def make_bench(shop: Workshop, tmp_path: Path, glslc: str = "glslc 1") -> Bench:
    return Bench(shop, make_compiler(make_root(tmp_path, {}), tmp_path / "driver"), glslc)


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trees that a stand-in for the recorder was asked about."""
    asked: list[str] = []

    def answer(_bench: Bench, subtree: str) -> Recorded:
        asked.append(subtree)
        return Recorded(subtree, (mat_vec(source=subtree),), {}, (), ())

    monkeypatch.setattr(recording, "_record", answer)
    return asked


@pytest.mark.parametrize("name", FILES)
def test_what_records_a_tree_again(
    shop: Workshop, lab: Lab, tmp_path: Path, record: list[str], name: str
) -> None:
    """A change in anything that may reach the recorder is recorded, one in anything else is not."""
    bench = make_bench(shop, tmp_path)
    base = write_tree(shop, lab, FILES)
    step = write_tree(shop, lab, FILES | {name: "changed"})
    first, second = read_trees(bench, [base, step])
    assert len(record) == (1 if name in UNSEEN else 2)
    assert (first.variants == second.variants) is (name in UNSEEN)
    assert second.subtree == shop.subtree(step)  # shaders are compiled from its own folder
    read_trees(bench, [step, base])
    assert len(record) == (1 if name in UNSEEN else 2)


def test_a_new_or_a_removed_shader_and_another_glslc_record_again(
    shop: Workshop, lab: Lab, tmp_path: Path, record: list[str]
) -> None:
    bench = make_bench(shop, tmp_path)
    base = write_tree(shop, lab, FILES)
    more = write_tree(shop, lab, FILES | {f"{SHADERS}/new.comp": "a"})
    fewer = write_tree(shop, lab, {k: v for k, v in FILES.items() if not k.endswith("b.glsl")})
    read_trees(bench, [base, more, fewer])
    assert len(record) == 3
    read_trees(Bench(shop, bench.recorder, "glslc 2"), [base])
    assert len(record) == 4


def test_our_own_programs_are_part_of_the_key(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(shop, tmp_path)
    first = bench.fingerprint
    for name in recording.OWN:
        folder = tmp_path / name
        folder.mkdir()
        for other in recording.OWN:
            text = (host.HERE / other).read_text()
            (folder / other).write_text(text + "// changed\n" if other == name else text)
        monkeypatch.setattr(recording, "HERE", folder)
        assert bench.fingerprint != first, name
        monkeypatch.undo()


def test_a_file_that_the_key_leaves_out_is_not_included_unseen(tmp_path: Path) -> None:
    assert is_visible(Path("src/ggml-cpu/ggml-cpu-impl.h"))
    check_seen(tmp_path, [tmp_path / "src/ggml-cpu/a.h", tmp_path / "src/ggml.c", Path("/usr/a.c")])
    with pytest.raises(InvalidMeasurement, match=r"src/ggml-cpu/vec\.cpp") as raised:
        check_seen(tmp_path, [tmp_path / "src/ggml-cpu/vec.cpp"])
    assert "is_visible" in raised.value.remedy


# $0.log: what was compiled, with the precompiled header or without
CXX = """
header=no; for word; do
    [ "$last" = -o ] && out=$word
    [ "$last" = -c ] && file=$word
    [ "$last" = -include ] && case $word in *prefix.h) header=yes;; esac
    last=$word
done
echo "$(basename "$file") $header" >>"$0.log"
case $(cat "$file") in *UNFIT*) [ $header = yes ] && exit 1;; *BROKEN*) exit 1;; esac
cp "$file" "$out"
"""


@pytest.fixture
def build(shop: Workshop, tmp_path: Path) -> Callable[..., Path]:
    """Compiles a.cpp as it is by then."""
    make_root(tmp_path, {"g++": CXX})
    place = ScriptRoot(shop.folder, tmp_path / "root")

    def build(*defines: str, **files: str) -> Path:
        with shop.yard(EMPTY_TREE) as yard:
            folder = yard.ggml / BACKEND
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (folder / name.replace("_", ".")).write_text(text)
            generated = Generated(shop.make("generated"), {})
            compiler = make_compiler(place, tmp_path / "driver")
            made = Host(shop, compiler, yard, generated, defines)
            return host._compile(made, [folder / "a.cpp"])[0]

    return build


def list_compiled(tmp_path: Path) -> list[str]:
    return (tmp_path / "root/usr/bin/g++.log").read_text().splitlines()


def test_an_object_is_made_again_for_what_reaches_it(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    first = build(a_cpp='#include "a.h"\n', a_h="1\n", b_h="1\n")
    assert build() == first
    assert build(b_h="2\n") == first  # nobody includes it
    others = [build(a_h="2\n"), build("-DX"), build(a_cpp='#include "a.h"\n// 2\n')]
    assert len({first, *others}) == 4
    assert list_compiled(tmp_path) == ["a.cpp no"] * 4


def test_only_the_code_that_sets_up_pipelines_sees_the_list_of_shaders(
    build: Callable[..., Path], shop: Workshop, tmp_path: Path
) -> None:
    listed = shop.make("generated") / generator.HEADER
    listed.write_text("extern int a;\n")
    using = f'#include "{generator.HEADER}"\n'
    first = build(a_cpp=using)
    listed.write_text("extern int a, b;\n")
    assert build() == first
    broken = 'case "$*" in *headers-without-shaders*) exit 1;; esac\n'
    write_program(tmp_path / "root/usr/bin/g++", broken + CXX)  # as if it used a shader
    second = build(a_cpp=using + "// uses a\n")
    listed.write_text("extern int a, b, c;\n")
    assert build() != second


TYPES = """#pragma once
#include "ggml.h"
#define DYNAMIC 1
#include <vulkan/vulkan.hpp>
struct types {};
"""


def test_the_precompiled_header_is_what_comes_before_vulkan_hpp(
    build: Callable[..., Path], shop: Workshop, tmp_path: Path
) -> None:
    build(a_cpp='#include "t.h"\n', t_h=TYPES)
    build(a_cpp='#include "t.h"\n// other\n')
    assert list_compiled(tmp_path) == ["prefix.h no", "a.cpp yes", "a.cpp yes"]
    (header,) = shop.folder.glob("headers/*/prefix.h")
    assert header.read_text() == "#pragma once\n#define DYNAMIC 1\n#include <vulkan/vulkan.hpp>\n"
    build(t_h=TYPES.replace("DYNAMIC", "STATIC"))
    assert list_compiled(tmp_path)[3:] == ["prefix.h no", "a.cpp yes"]
    assert "STATIC" in next(shop.folder.glob("headers/*/prefix.h")).read_text()


def test_what_does_not_fit_the_precompiled_header_is_compiled_without(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    build(a_cpp='#include "t.h"\n// UNFIT\n', t_h=TYPES)
    assert list_compiled(tmp_path) == ["prefix.h no", "a.cpp yes", "a.cpp no"]
    with pytest.raises(InvalidMeasurement, match=r"a\.cpp does not compile"):
        build(a_cpp='#include "t.h"\n// BROKEN\n')


def test_a_root_s_clang_comes_first_and_what_it_refuses_goes_to_gcc(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    first = build(a_cpp='#include "t.h"\n', t_h=TYPES)
    refuses = f'case "$*" in *" -DGCC "*) exit 1;; esac\n{CXX}'
    write_program(tmp_path / "root/usr/bin/clang++-19", refuses)
    assert build() != first
    log = tmp_path / "root/usr/bin/clang++-19.log"
    assert log.read_text().splitlines() == ["prefix.h no", "a.cpp yes"]
    assert list_compiled(tmp_path) == ["prefix.h no", "a.cpp yes"]
    build("-DGCC")
    assert list_compiled(tmp_path)[2:] == ["a.cpp no"]
    build("-DGCC", a_cpp='#include "t.h"\n// other\n')  # the header is not tried again
    assert list_compiled(tmp_path)[3:] == ["a.cpp no"]


def test_host_code_without_vulkan_hpp_has_no_prefix(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("#include <vector>\n")
    assert read_prefix([tmp_path / "a.h"]) == ""


# as glslc: several files with -c make FILE.spv each here, one with -o makes that
GLSLC = r"""
out= several= files=; for word; do
    [ "$last" = -o ] && out=$word
    case $word in -c|-E) several=$word;; *.comp) files="$files $word";; esac
    last=$word
done
echo "$several$files" | sed 's|[^ ]*/||g' >>"$0.log"
status=0
for file in $files; do
    case $(cat "$file") in *BROKEN*) echo "$file: broken" >&2; status=1; continue;; esac
    if [ "$several" = -E ]; then
        type=$(sed -n 's/^#define TYPE //p' "$file")
        # a word that starts with a digit is a number and what follows it
        sed "/^\\/\\//d; s/TYPE/$type/g; s/\\b\\([0-9][0-9]*\\)\\([a-z]\\)/\\1 \\2/g" "$file"
    elif [ "$several" ]; then cp "$file" "${file##*/}.spv"; else cp "$file" "$out"; fi
done
exit $status
"""


def test_shaders_are_compiled_by_one_process_and_what_fails_alone(
    shop: Workshop, lab: Lab, tmp_path: Path
) -> None:
    texts = {"a": "#version 450\nvoid main() {}\n", "b": "#version 450\nBROKEN\n", "c": "// old\n"}
    files = {f"{SHADERS}/{name}.comp": text for name, text in texts.items()}
    subtree = shop.subtree(write_tree(shop, lab, files))
    folder = f"{BACKEND}/vulkan-shaders"
    commands = {name: ("-O", f"{folder}/{name}.comp", "-DTYPE=vec4") for name in texts}
    variants = tuple(replace(mat_vec(source=f"{name}-key"), shader=name) for name in texts)
    tree = Recorded(subtree, variants, commands, (), ())
    make_root(tmp_path, {"glslc": GLSLC})
    place = ScriptRoot(shop.folder, tmp_path / "root")
    bench = Bench(shop, make_compiler(place, tmp_path / "driver"), "glslc")
    wanted = [(tree, name) for name in texts]
    found = compile_shaders(bench, wanted)
    module = shop.folder / "spirv" / f"{found['a-key'].spirv}.spv"
    assert module.read_text() == "#version 450\n#define TYPE vec4\n#line 2\nvoid main() {}\n"
    assert "broken" in found["b-key"].error
    assert found["c-key"].spirv  # it has no #version after which its defines could stand
    log = tmp_path / "root/usr/bin/glslc.log"
    both = "lab-a-key.comp lab-b-key.comp"
    assert log.read_text().splitlines() == [f"-E {both}", f"-c {both}", " b.comp", " c.comp"]
    assert compile_shaders(bench, wanted[::2]).keys() == {"a-key", "c-key"}
    assert len(log.read_text().splitlines()) == 4
    with shop.yard(subtree) as yard:
        assert sorted(path.name for path in (yard.ggml / folder).iterdir()) == [
            f"{name}.comp" for name in texts
        ]


@pytest.mark.parametrize(
    ("text", "words", "again"),
    [
        ("#version 450\n\n// a comment\nTYPE main() {}\n", ("-O", "-DTYPE=vec4"), False),
        ("#version 450\nTYPE main() {}\n", ("-O", "-DOTHER=1", "-DTYPE=vec4"), False),
        ("#version 450\nTYPE main() { }\n", ("-O", "-DTYPE=vec4"), True),
        ("#version 460\nTYPE main() {}\n", ("-O", "-DTYPE=vec4"), True),
        ("#version 450\nTYPE main() {}\n", ("-O", "-DTYPE=vec2"), True),
        ("#version 450\nTYPE main() {}\n", ("-DTYPE=vec4",), True),
    ],
)
def test_the_same_text_is_compiled_once(
    shop: Workshop, lab: Lab, tmp_path: Path, text: str, words: tuple[str, ...], again: bool
) -> None:
    """The stand-in's preprocessor leaves comments out and knows one define."""
    make_root(tmp_path, {"glslc": GLSLC})
    place = ScriptRoot(shop.folder, tmp_path / "root")
    bench = Bench(shop, make_compiler(place, tmp_path / "driver"), "glslc")
    file = f"{BACKEND}/vulkan-shaders/a.comp"

    def compile_one(key: str, text: str, *words: str) -> None:
        subtree = shop.subtree(write_tree(shop, lab, {f"ggml/{file}": text}))
        variants = (replace(mat_vec(source=key), shader="a"),)
        tree = Recorded(subtree, variants, {"a": (file, *words)}, (), ())
        assert compile_shaders(bench, [(tree, "a")])[key].spirv

    compile_one("1a", "#version 450\nTYPE main() {}\n", "-O", "-DTYPE=vec4")
    compile_one("2b", text, *words)
    log = (tmp_path / "root/usr/bin/glslc.log").read_text().splitlines()
    assert len([line for line in log if line.startswith("-c")]) == (2 if again else 1)


def test_defines_stand_after_the_version(tmp_path: Path) -> None:
    shader = tmp_path / "a.comp"
    shader.write_text("// of\n/* two\n lines */\n#version 450 core\nA\n")
    text = define(shader, ["-DA=1", "-DB=f(x)=y", "-DC"])
    head = "// of\n/* two\n lines */\n#version 450 core\n"
    assert text == f"{head}#define A 1\n#define B f(x)=y\n#define C\n#line 5\nA\n"
    shader.write_text("#extension E : require\n#version 450\n")
    assert define(shader, []) is None


def test_two_tasks_never_have_the_same_folder(shop: Workshop, lab: Lab) -> None:
    one = shop.subtree(write_tree(shop, lab, {"ggml/a": "1"}))
    other = shop.subtree(write_tree(shop, lab, {"ggml/a": "2"}))
    with ExitStack() as rest, shop.yard(one) as first, shop.yard(other) as second:
        for _ in range(2 * YARDS - 2):
            rest.enter_context(shop.yard(one))
        assert (first.ggml / "a").read_text() == "1"
        assert (second.ggml / "a").read_text() == "2"
        third = threading.Thread(target=lambda: shop.yard(one).__enter__(), daemon=True)
        third.start()
        third.join(0.1)
        assert third.is_alive()  # it waits
    third.join(10)
    assert not third.is_alive()


def test_a_folder_that_holds_the_tree_is_taken_first(shop: Workshop, lab: Lab) -> None:
    trees = [shop.subtree(write_tree(shop, lab, {"ggml/a": text})) for text in "12"]
    with shop.yard(trees[0]) as first, shop.yard(trees[1]) as second:
        pass
    for tree, yard in ((trees[1], second), (trees[0], first), (trees[1], second)):
        with shop.yard(tree) as found:
            assert found is yard
