"""Which files of ggml-cuda a tree compiles for HIP, and what decides each one's device code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from upstream.errors import InvalidMeasurement, UsageError
from validate.isa.compilers import digest
from validate.isa.sources import Sources
from validate.isa.workshop import Workshop

BACKEND = Path("src/ggml-cuda")
SEARCH = (Path("src"), Path("include"), BACKEND)  # the -I folders, below ggml
OWN_SEARCH = (BACKEND,)
KEYS = "digests"
OWN = "own"


@dataclass(frozen=True)
class HipTree:
    """The .cu files of a tree with the digest of each one's sources; `subtree` is its ggml folder.

    own: the digest of the file and what it includes from ggml-cuda itself, without the headers that
    all backends share. Files are named below ggml/src/ggml-cuda.
    """

    subtree: str
    digests: Mapping[str, str]
    own: Mapping[str, str] = field(default_factory=dict)


def read_hip_tree(shop: Workshop, tree: str) -> HipTree:
    """Look at a tree; one whose backend and headers are known is not looked at again.

    Raises InvalidMeasurement where the tree has no such file.
    """
    subtree = shop.subtree(tree)
    key = digest("hip tree 2", _backend_key(shop, subtree))
    known = shop.look_up([key])
    if key not in known:
        shop.move(subtree)
        known = {
            key: {KEYS: _digest_files(shop.ggml, SEARCH), OWN: _digest_files(shop.ggml, OWN_SEARCH)}
        }
        shop.keep(known)
    return HipTree(subtree, known[key][KEYS], known[key][OWN])


def _backend_key(shop: Workshop, subtree: str) -> str:
    """The objects that a .cu file can see: other backends' folders are left out."""
    lines = shop.git.text("ls-tree", "-r", "--full-tree", subtree).splitlines()
    return "\n".join(line for line in lines if _is_visible(Path(line.split("\t", 1)[1])))


def _is_visible(path: Path) -> bool:
    folder = path.parent
    return folder in SEARCH or BACKEND in folder.parents or folder.is_relative_to("include")


def _digest_files(ggml: Path, search: Sequence[Path]) -> dict[str, str]:
    sources = Sources(ggml, [ggml / each for each in search])
    backend = ggml / BACKEND
    files = sorted(backend.glob("*.cu")) + sorted(backend.glob("template-instances/*.cu"))
    if not files:
        raise InvalidMeasurement(
            f"the tree has no .cu file in ggml/{BACKEND}",
            remedy="use a version of upstream that has the CUDA backend",
        )
    return {str(file.relative_to(backend)): sources.digest(file) for file in files}


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
