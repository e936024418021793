"""The files of a git tree that ledgers are read from, in two git processes."""

from __future__ import annotations

from collections.abc import Iterator

from upstream.blobs import read_blobs
from upstream.errors import InvalidMeasurement
from upstream.git import Git

GGML_H = "ggml/include/ggml.h"
GGML_C = "ggml/src/ggml.c"
LLAMA_H = "include/llama.h"
RPC_H = "ggml/include/ggml-rpc.h"
PYTHON = "gguf-py/gguf/constants.py"
CPU = "ggml/src/ggml-cpu/ggml-cpu.cpp"
VULKAN = "ggml/src/ggml-vulkan/"
SHADERS = f"{VULKAN}vulkan-shaders/"
GENERATOR = f"{SHADERS}vulkan-shaders-gen.cpp"
PATHS = (GGML_H, GGML_C, LLAMA_H, RPC_H, PYTHON, CPU, VULKAN)
WANTED = (".h", ".c", ".cpp", ".py", ".comp", ".glsl")

Files = dict[str, str]


def read_sources(git: Git, tree: str) -> Files:
    """Path -> text of all that ledgers need. Raises InvalidMeasurement when a path is missing."""
    entries = list(_list_blobs(git, tree))
    blobs = read_blobs(git, [blob for _, blob in entries])
    files = {
        path: (content or b"").decode("utf-8", "replace")
        for (path, _), content in zip(entries, blobs, strict=True)
    }
    present = [*files, *(VULKAN for path in files if path.startswith(VULKAN))]
    missing = [path for path in PATHS if path not in present]
    if missing:
        raise InvalidMeasurement(
            f"tree {tree[:10]} has no {', '.join(missing)}: the ledgers cannot be read",
            remedy="tell validate/ledger/sources.py where upstream moved it",
        )
    return files


def host_files(files: Files) -> Files:
    """The C++ of the Vulkan backend, without the shader generator."""
    return {
        path: text
        for path, text in files.items()
        if path.startswith(VULKAN) and path.endswith((".cpp", ".h")) and path != GENERATOR
    }


def shader_files(files: Files) -> Files:
    """File name -> text of the shader sources."""
    return {
        path.removeprefix(SHADERS): text
        for path, text in files.items()
        if path.startswith(SHADERS) and path.endswith((".comp", ".glsl")) and "tests/" not in path
    }


def _list_blobs(git: Git, tree: str) -> Iterator[tuple[str, str]]:
    listed = git.run("ls-tree", "-r", "-z", "--full-tree", tree, "--", *PATHS).stdout
    for entry in listed.decode("utf-8", "surrogateescape").split("\0"):
        if entry and entry.endswith(WANTED):
            info, path = entry.split("\t", 1)
            yield path, info.split()[2]
