"""What the tree's build would find out about glslc, by the tree's own feature tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from upstream.errors import EnvironmentFault, InvalidMeasurement
from validate.isa.place import Place

BACKEND = Path("src/ggml-vulkan")
_TEST = re.compile(
    r'test_shader_extension_support\(\s*"(?P<extension>\w+)"\s*'
    r'"\$\{CMAKE_CURRENT_SOURCE_DIR\}/(?P<file>[^"]+)"\s*"(?P<variable>\w+)"'
)


@dataclass(frozen=True)
class Feature:
    """One extension, the define that stands for it, and whether glslc has it."""

    extension: str
    variable: str
    supported: bool


def try_features(place: Place, ggml: Path) -> list[Feature]:
    """Run every feature test of a tree's ggml folder.

    Upstream takes every failure but "extension not supported" for support. Such a failure raises
    EnvironmentFault here: the shaders would be generated for a compiler that can't compile them.
    """
    found = list(_run_tests(place, ggml / BACKEND))
    if not found:
        raise InvalidMeasurement(
            f"{BACKEND}/CMakeLists.txt has no feature test that we can read",
            remedy="look at test_shader_extension_support there and mend validate/isa/features.py",
        )
    return found


def _run_tests(place: Place, backend: Path) -> Iterator[Feature]:
    text = (backend / "CMakeLists.txt").read_text("utf-8")
    for test in _TEST.finditer(text):
        shader = place.inside(backend / test["file"])
        options = ["-o", "/dev/null", "-fshader-stage=compute", "--target-env=vulkan1.3"]
        done = place.run(["glslc", *options, shader], ok=range(256), timeout=120)
        said = (done.stderr + done.stdout).decode("utf-8", "replace")
        missing = f"extension not supported: {test['extension']}" in said
        if done.code != 0 and not missing:
            raise EnvironmentFault(
                f"glslc of {place.top} fails on {test['file']} for another reason than a missing "
                f"extension (upstream's build would call {test['extension']} supported): "
                f"{said.strip()[-500:]}",
                remedy="mend or update glslc there, or run: nox -s toolchain",
            )
        yield Feature(test["extension"], test["variable"], not missing)
