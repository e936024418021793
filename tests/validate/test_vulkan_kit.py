"""A kit out of a toolchain root, and the feature tests of its glslc. The root is a stand-in."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_project import Change, make_stack

from series.model import Stack
from upstream import process
from upstream.errors import EnvironmentFault
from upstream.git import Git
from upstream.lab import Lab
from validate.glslc_features import BACKEND, TESTS, try_features, write_tests
from validate.shader_root import COMPLETE
from validate.vulkan.kit import OLDEST_GLSLC, Kit, open_kit, read_glslc_version

LIBRARIES = "usr/lib/x86_64-linux-gnu"
# A stand-in for glslc and for the dynamic linker that starts it: `ld --library-path DIR PROGRAM`.
LINKER = '#!/bin/sh\nshift 2\nexec "$@"\n'
GLSLC = """#!/bin/sh
for word in "$@"; do file=$word; done
case $file in
*coopmat.comp) echo "error: extension not supported: GL_KHR_cooperative_matrix" >&2; exit 1 ;;
*odd.comp) echo "error: libc.so.6: version not found" >&2; exit 1 ;;
esac
"""
FILES = {
    f"{LIBRARIES}/libvulkan.so.1": "",
    "usr/lib64/ld-linux-x86-64.so.2": LINKER,
    "usr/bin/glslc": GLSLC,
    "usr/include/vulkan/vulkan.hpp": "// vulkan",
    "usr/include/vk_video/codec.h": "",
    "usr/include/spirv/unified1/spirv.hpp": "",
    "usr/include/stdio.h": "// of the other C library",
    "usr/share/cmake/SPIRV-Headers/SPIRV-HeadersConfig.cmake": "",
    "usr/share/vulkan/icd.d/lvp_icd.json": "{}",
    COMPLETE: "suite trixie\nglslc 2025.2-1\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return folder


def test_a_kit_has_the_headers_but_not_those_of_the_c_library(lab: Lab, root: Path) -> None:
    kit = open_kit(lab, root)
    include = kit.glslc.parent / "include"
    assert {path.name for path in include.iterdir()} == {"vulkan", "vk_video", "spirv"}
    assert f"Vulkan_INCLUDE_DIR={include}" in kit.options
    assert "GGML_VULKAN=ON" in kit.options
    assert kit.start[1:] == ("--library-path", str(root / LIBRARIES))
    assert (kit.software, kit.layers) == (root / "usr/share/vulkan/icd.d/lvp_icd.json", None)
    process.run((kit.glslc, "a.comp"))
    assert open_kit(lab, root) == kit


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (COMPLETE, "no finished toolchain root"),
        (f"{LIBRARIES}/libvulkan.so.1", "has no usr/lib"),
        ("usr/include/spirv/unified1/spirv.hpp", "has no usr/include/spirv"),
    ],
)
def test_a_half_made_root_is_a_fault_of_the_machine(
    lab: Lab, root: Path, missing: str, words: str
) -> None:
    (root / missing).unlink()
    while not any((parent := (root / missing).parent).iterdir()):
        missing = str(parent.relative_to(root))
        parent.rmdir()
    with pytest.raises(EnvironmentFault, match=words) as found:
        open_kit(lab, root)
    assert "nox -s toolchain" in found.value.remedy


def with_tests(lab: Lab, *names: str) -> Stack:
    calls = "".join(
        f'test_shader_extension_support("GL_KHR_cooperative_matrix"\n"${{CMAKE_CURRENT_SOURCE_DIR}}'
        f'/{TESTS.partition(f"{BACKEND}/")[2]}/{name}.comp"\n"HAS_{name}")\n'
        for name in names
    )
    files = {f"ggml/{BACKEND}/CMakeLists.txt": calls}
    return make_stack(
        lab, [Change("0001-x.patch", files | {f"{TESTS}/{name}.comp": "x" for name in names})]
    )


def try_tests(kit: Kit, lab: Lab, stack: Stack, folder: Path) -> dict[str, bool]:
    ggml = write_tests(Git(lab.repository), stack.steps[0].tree, folder)
    return {each.variable: each.supported for each in try_features(kit.compiler, ggml)}


def test_the_feature_tests_of_a_tree_are_answered_by_the_kits_glslc(
    lab: Lab, root: Path, tmp_path: Path
) -> None:
    kit = open_kit(lab, root)
    found = try_tests(kit, lab, with_tests(lab, "coopmat", "integer_dot"), tmp_path / "a")
    assert found == {"HAS_coopmat": False, "HAS_integer_dot": True}
    with pytest.raises(EnvironmentFault, match=r"odd\.comp for another reason.*version not found"):
        try_tests(kit, lab, with_tests(lab, "odd"), tmp_path / "b")


def test_an_old_glslc_is_told_from_a_new_one() -> None:
    debian12 = read_glslc_version("shaderc v2023.2 v2023.2\nspirv-tools v2023.1\n")
    debian13 = read_glslc_version("shaderc 2025.2-1\nspirv-tools 2025.1~rc1-1\n")
    assert debian12 < OLDEST_GLSLC <= debian13
    assert read_glslc_version("no version") < OLDEST_GLSLC
