"""What is built of every step: targets and cmake options, for one backend."""

from __future__ import annotations

from dataclasses import dataclass

from upstream.version import Version

LLAMA_TARGETS = (
    "llama-server",
    "llama-cli",
    "llama-bench",
    "llama-batched-bench",
    "llama-perplexity",
    "llama-quantize",
    "llama-results",
    "test-backend-ops",
    "test-llama-archs",
    "test-quantize-fns",
)
# The commit string is compiled into libggml-base and llama-common. Pinned, equal code gives equal
# bytes; which code a binary is from is proven by the step's key instead.
PINNED_COMMIT = "lab"


@dataclass(frozen=True)
class Backend:
    """A ggml backend beside the CPU one, which is always built; `options` are cmake NAME=VALUE."""

    name: str
    options: tuple[str, ...] = ()


CPU = Backend("cpu")


@dataclass(frozen=True)
class Recipe:
    """Targets and cmake cache entries (NAME=VALUE), and the disk space a full build takes in MB.

    The binaries must land in `bin/` of the build folder, as llama.cpp's do.
    """

    targets: tuple[str, ...]
    options: tuple[str, ...]
    backend: Backend = CPU
    megabytes: int = 0

    @property
    def entries(self) -> tuple[str, ...]:
        """All cmake cache entries, the backend's included."""
        return (*self.options, *self.backend.options)


def llama_recipe(version: Version, backend: Backend = CPU) -> Recipe:
    """How llama.cpp is built for validation: Release, shared libraries, nothing downloaded."""
    options = (
        "CMAKE_BUILD_TYPE=Release",
        "BUILD_SHARED_LIBS=ON",
        "CMAKE_BUILD_RPATH_USE_ORIGIN=ON",
        "GGML_CCACHE=OFF",  # we name the compiler launcher ourselves
        "LLAMA_BUILD_UI=OFF",
        "LLAMA_USE_PREBUILT_UI=OFF",
        "LLAMA_OPENSSL=OFF",
        f"LLAMA_BUILD_NUMBER={version.build}",
        f"LLAMA_BUILD_COMMIT={PINNED_COMMIT}",
    )
    return Recipe(LLAMA_TARGETS, options, backend, megabytes=1000)
