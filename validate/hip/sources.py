"""Which files of ggml-cuda a tree compiles for HIP, and what decides each one's device code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from upstream.errors import InvalidMeasurement, UsageError
from validate.isa.compilers import digest
from validate.isa.sources import Sources
from validate.isa.workshop import Workshop

BACKEND = Path("src/ggml-cuda")
SEARCH = (Path("src"), Path("include"), BACKEND)  # the -I folders, below ggml
DIGESTS, CLOSURES = "digests", "closures"


@dataclass(frozen=True)
class HipTree:
    """The .cu files of a tree with the digest of each one's sources; `subtree` is its ggml folder.

    closures: the file and what it includes from ggml-cuda itself, without the headers that all
    backends share. Files are named below ggml/src/ggml-cuda.
    """

    subtree: str
    digests: Mapping[str, str]
    closures: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_hip_tree(shop: Workshop, tree: str) -> HipTree:
    """Look at a tree; one whose backend and headers are known is not looked at again.

    Raises InvalidMeasurement where the tree has no such file.
    """
    subtree = shop.subtree(tree)
    key = digest("hip tree 4", _backend_key(shop, subtree))
    known = shop.look_up([key])
    if key not in known:
        with shop.yard(subtree) as yard:
            known = {key: _read_files(yard.ggml)}
        shop.keep(known)
    return HipTree(subtree, known[key][DIGESTS], known[key][CLOSURES])


def removed_lines(shop: Workshop, before: HipTree, after: HipTree) -> dict[str, int]:
    """The files of ggml-cuda in which two trees differ: how many lines of the first are gone."""
    below = f"{BACKEND}/"
    found = shop.git.count_removed(before.subtree, after.subtree)
    return {path.removeprefix(below): n for path, n in found.items() if path.startswith(below)}


def _backend_key(shop: Workshop, subtree: str) -> str:
    """The objects that a .cu file can see: other backends' folders are left out."""
    files = shop.list_files(subtree)
    return "\n".join(f"{entry} {path}" for path, entry in files.items() if _is_visible(path))


def _is_visible(path: Path) -> bool:
    folder = path.parent
    return folder in SEARCH or BACKEND in folder.parents or folder.is_relative_to("include")


def _read_files(ggml: Path) -> dict[str, dict[str, object]]:
    everything = Sources(ggml, [ggml / each for each in SEARCH])
    backend = (ggml / BACKEND).resolve()
    own = Sources(ggml, [backend])
    files = sorted(backend.glob("*.cu")) + sorted(backend.glob("template-instances/*.cu"))
    if not files:
        raise InvalidMeasurement(
            f"the tree has no .cu file in ggml/{BACKEND}",
            remedy="use a version of upstream that has the CUDA backend",
        )
    names = {str(file.relative_to(backend)): file for file in files}
    return {
        DIGESTS: {name: everything.digest(file) for name, file in names.items()},
        CLOSURES: {name: _below(own.closure(file), backend) for name, file in names.items()},
    }


def _below(files: Iterable[Path], folder: Path) -> list[str]:
    found = (file.resolve() for file in files)
    return sorted(str(each.relative_to(folder)) for each in found if each.is_relative_to(folder))


def choose_files(tree: HipTree, wanted: list[str]) -> list[str]:
    """The files that a person named (`norm.cu`), or all. Raises UsageError for an unknown one."""
    names = {Path(file).name: file for file in tree.digests} | {file: file for file in tree.digests}
    unknown = [each for each in wanted if each.removeprefix(f"ggml/{BACKEND}/") not in names]
    if unknown:
        raise UsageError(
            f"ggml/{BACKEND} has no {', '.join(unknown)}",
            remedy="name .cu files of that folder, such as norm.cu or mmq-instance-q4_0.cu",
        )
    return [names[each.removeprefix(f"ggml/{BACKEND}/")] for each in wanted] or list(tree.digests)
