"""What a tree's build would find out about a glslc, by the tree's own feature tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from upstream.errors import EnvironmentFault, InvalidMeasurement
from upstream.git import Git
from upstream.process import Completed

BACKEND = Path("src/ggml-vulkan")
TESTS = f"ggml/{BACKEND}/vulkan-shaders/feature-tests"
OPTIONS = ("-o", "/dev/null", "-fshader-stage=compute", "--target-env=vulkan1.3")
SECONDS = 120.0
_TEST = re.compile(
    r'test_shader_extension_support\(\s*"(?P<extension>\w+)"\s*'
    r'"\$\{CMAKE_CURRENT_SOURCE_DIR\}/(?P<file>[^"]+)"\s*"(?P<variable>\w+)"'
)


@dataclass(frozen=True)
class Glslc:
    """A compiler: where it is, for messages, and how it is run on a shader, whatever it answers."""

    name: str
    run: Callable[[Sequence[str], Path], Completed]


@dataclass(frozen=True)
class Feature:
    """One extension, the define that stands for it, and whether glslc has it."""

    extension: str
    variable: str
    supported: bool


def try_features(glslc: Glslc, ggml: Path) -> list[Feature]:
    """Run every feature test of a tree's ggml folder.

    Upstream takes every failure but "extension not supported" for support. Such a failure raises
    EnvironmentFault here: the shaders would be generated for a compiler that can't compile them.
    """
    found = list(_run_tests(glslc, ggml / BACKEND))
    if not found:
        raise InvalidMeasurement(
            f"{BACKEND}/CMakeLists.txt has no feature test that we can read",
            remedy="look at test_shader_extension_support there and mend "
            "validate/glslc_features.py",
        )
    return found


def write_tests(git: Git, tree: str, folder: Path) -> Path:
    """A ggml folder with no more of a tree than its feature tests."""
    listed = git.run("ls-tree", "-r", "--name-only", "-z", tree, f"{TESTS}/").text.split("\0")
    for path in (f"ggml/{BACKEND}/CMakeLists.txt", *filter(None, listed)):
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(git.read_blob(f"{tree}:{path}") or b"")
    return folder / "ggml"


def _run_tests(glslc: Glslc, backend: Path) -> Iterator[Feature]:
    text = (backend / "CMakeLists.txt").read_text("utf-8")
    for test in _TEST.finditer(text):
        done = glslc.run(OPTIONS, backend / test["file"])
        said = (done.stderr + done.stdout).decode("utf-8", "replace")
        missing = f"extension not supported: {test['extension']}" in said
        if done.code != 0 and not missing:
            raise EnvironmentFault(
                f"glslc of {glslc.name} fails on {test['file']} for another reason than a missing "
                f"extension (upstream's build would call {test['extension']} supported): "
                f"{said.strip()[-500:]}",
                remedy="mend or update glslc there, or run: nox -s toolchain",
            )
        yield Feature(test["extension"], test["variable"], not missing)
