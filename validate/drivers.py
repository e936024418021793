"""What stands between a backend and its device: it decides speed as much as the program does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from upstream.download import hash_file

# Version files of kernel modules and of ROCm, and where Vulkan's loader looks for drivers:
# https://github.com/KhronosGroup/Vulkan-Loader/blob/main/docs/LoaderDriverInterface.md
VERSION_FILES = (
    Path("/proc/driver/nvidia/version"),
    Path("/sys/module/nvidia/version"),
    Path("/sys/module/amdgpu/version"),
    Path("/sys/module/amdgpu/srcversion"),
    Path("/sys/module/xe/srcversion"),
    Path("/sys/module/i915/srcversion"),
    Path("/opt/rocm/.info/version"),
)
MANIFESTS = (Path("/etc/vulkan/icd.d"), Path("/usr/share/vulkan/icd.d"))
NAMED = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES")


@cache
def describe_drivers() -> dict[str, str]:
    """The first line of each version file, and of each Vulkan driver its library's hash."""
    versions = {os.fspath(path): said for path in VERSION_FILES if (said := _read_line(path))}
    return versions | dict(describe_vulkan(os.environ, MANIFESTS))


def describe_vulkan(
    environment: Mapping[str, str], folders: tuple[Path, ...]
) -> Iterator[tuple[str, str]]:
    """Each driver manifest with the hash of its library, or with its text where that is not found.

    A library without a folder is the linker's to find: it is looked for in the usual places.
    """
    named = [Path(p) for key in NAMED for p in environment.get(key, "").split(os.pathsep) if p]
    for manifest in sorted({*named, *(p for folder in folders for p in folder.glob("*.json"))}):
        try:
            text = manifest.read_text("utf-8")
            library = Path(json.loads(text)["ICD"]["library_path"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        found = next((p for p in _list_places(manifest, library) if p.is_file()), None)
        yield os.fspath(manifest), hash_file(found.resolve()) if found else text


def _list_places(manifest: Path, library: Path) -> Iterator[Path]:
    yield manifest.parent / library
    for folder in ("/usr/lib", "/usr/lib64", "/lib", "/usr/local/lib"):
        yield Path(folder) / library
        yield from Path(folder).glob(f"*-linux-gnu/{library.name}")


def _read_line(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").partition("\n")[0].strip()
    except OSError:
        return ""
