"""Refuse a glslc that fails the tree's feature tests for another reason than a missing extension.

Upstream's CMake takes every such failure for support (test_shader_extension_support in
ggml/src/ggml-vulkan/CMakeLists.txt) and then compiles shaders that this glslc can't.
"""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePosixPath

from upstream import process
from upstream.errors import EnvironmentFault
from upstream.git import Git
from upstream.lab import Lab
from validate.vulkan.kit import REMEDY, Kit

TESTS = "ggml/src/ggml-vulkan/vulkan-shaders/feature-tests"
OPTIONS = ("-fshader-stage=compute", "--target-env=vulkan1.3", "-o", "/dev/null")
MISSING = "extension not supported:"
SECONDS = 120.0


def require_features(lab: Lab, git: Git, kit: Kit, tree: str) -> dict[str, bool]:
    """Which feature tests of a tree this glslc passes, by name.

    Raises EnvironmentFault for a failure that is not a missing extension.
    """
    found = {}
    with tempfile.TemporaryDirectory(dir=lab.scratch) as folder:
        for path in list_tests(git, tree):
            shader = Path(folder, PurePosixPath(path).name)
            shader.write_bytes(git.read_blob(f"{tree}:{path}") or b"")
            found[shader.stem] = _try(kit, shader)
    return found


def list_tests(git: Git, tree: str) -> list[str]:
    """The paths of the feature tests of a tree."""
    listed = git.run("ls-tree", "-r", "--name-only", "-z", tree, f"{TESTS}/").text
    return [path for path in listed.split("\0") if path.endswith(".comp")]


def _try(kit: Kit, shader: Path) -> bool:
    done = process.run((kit.glslc, *OPTIONS, shader), ok=range(256), timeout=SECONDS)
    said = (done.stderr + done.stdout).decode("utf-8", "replace")
    if done.code != 0 and MISSING not in said:
        raise EnvironmentFault(
            f"glslc of {kit.name} fails on {shader.name} for another reason than a missing "
            f"extension (upstream's build would take it for support): {said.strip()[-500:]}",
            remedy=f"mend glslc there, or {REMEDY}",
        )
    return done.code == 0
