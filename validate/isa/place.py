"""Where compilers run: the machine itself, or a Debian root made by ci/toolchain_root.sh."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from upstream import process
from upstream.errors import EnvironmentFault
from upstream.process import Completed
from validate.glslc_features import SECONDS as GLSLC_SECONDS
from validate.glslc_features import Glslc
from validate.shader_root import COMPLETE

MOUNT = "/mnt"
SECONDS = 1800.0
# A mount namespace of its own for each command: nothing is written to the root, no mount stays.
ENTER = 'mount --bind "$1" "$2/mnt" && root=$2 && shift 2 && exec chroot "$root" env -i "$@"'
MAKE_ROOT = "run as root: nox -s toolchain -- --suite trixie (and trixie-backports)"


@dataclass(frozen=True)
class Place:
    """A file system with compilers; `shared` is the one folder of ours that they see and write.

    `root` is None for the machine itself.
    """

    shared: Path
    root: Path | None = None

    @property
    def top(self) -> Path:
        return self.root or Path("/")

    def inside(self, path: Path) -> str:
        """A path below `shared` as the compilers see it."""
        return str(path) if self.root is None else f"{MOUNT}/{path.relative_to(self.shared)}"

    @property
    def glslc(self) -> Glslc:
        """The shader compiler there, for shaders below `shared`."""

        def run(options: Sequence[str], shader: Path) -> Completed:
            return self.run(
                ["glslc", *options, self.inside(shader)], ok=range(256), timeout=GLSLC_SECONDS
            )

        return Glslc(str(self.top), run)

    def find(self, pattern: str) -> str | None:
        """The first file that fits a glob pattern, as the compilers see it."""
        found = min(self.top.glob(pattern), default=None)
        return None if found is None else f"/{found.relative_to(self.top)}"

    def identity(self) -> str:
        """What tells one set of installed packages from another, as far as it is known."""
        return "" if self.root is None else (self.root / COMPLETE).read_text()

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        stdin: bytes = b"",
        ok: Sequence[int] = (0,),
        timeout: float = SECONDS,
    ) -> Completed:
        """Run a command there in `shared`, in an environment that holds nothing of the caller's.

        Raises CommandError as upstream.process does.
        """
        path = os.environ.get("PATH", os.defpath) if self.root is None else "/usr/bin:/bin"
        variables = {"PATH": path, "LC_ALL": "C.UTF-8", "TMPDIR": self.inside(self.shared)}
        words = [f"{key}={value}" for key, value in (variables | dict(environment or {})).items()]
        return process.run(
            [*self._enter(), *words, *command],
            cwd=self.shared,
            stdin=stdin,
            ok=ok,
            timeout=timeout,
        )

    def _enter(self) -> list[str]:
        if self.root is None:
            return ["env", "-i"]
        namespace = ["unshare", "--mount", "--propagation", "private"]
        return [*namespace, "sh", "-c", ENTER, "sh", str(self.shared), str(self.root)]


def open_root(folder: Path, shared: Path) -> Place:
    """A finished Debian root. Raises EnvironmentFault when it is half made or we are not root."""
    if not (folder / COMPLETE).is_file():
        raise EnvironmentFault(
            f"{folder} is no finished toolchain root: it has no {COMPLETE}",
            remedy=f"{MAKE_ROOT}; a half-made one is made again",
        )
    if os.geteuid() != 0:
        raise EnvironmentFault(
            f"entering the toolchain root {folder} takes root (chroot, mount)",
            remedy="run this session as root; everything else works without it",
        )
    return Place(shared, folder.resolve())


def machine_itself(shared: Path) -> Place | None:
    """The machine, where it has a glslc and a C++ compiler; its driver has to be tried."""
    tools = ("glslc", "gcc", "g++")
    return Place(shared) if all(map(shutil.which, tools)) else None
