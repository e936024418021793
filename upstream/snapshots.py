"""Upstream source from source packages of the package index, where the git remote is away."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from upstream.archive import import_tree
from upstream.download import download
from upstream.errors import EnvironmentFault
from upstream.git import Git
from upstream.index import Package, open_index, read_packages
from upstream.lab import Lab, require_space
from upstream.store import IMPORTING, Snapshot, add_snapshot, drop_importing, hold_store
from upstream.version import Version

LOGGER = logging.getLogger("lab")
IMPORT_MEGABYTES = 150  # one tree as a pack, and room for git's temporary files


@dataclass(frozen=True)
class SnapshotProvider:
    """Serves the upstream versions that the index has a source package for."""

    lab: Lab
    git: Git
    name: str = field(default="snapshots", init=False)

    def list_versions(self) -> list[Version]:
        """Versions with a package, ascending. Raises EnvironmentFault when the index is away."""
        with open_index() as index:
            return list(read_packages(index))

    def provide(self, version: Version) -> str:
        """The commit of a version, downloaded and imported when missing.

        Importing an older version later gives newer snapshots new parents, hence new ids; trees
        never change. Raises EnvironmentFault for network, disk, a wrong or hostile package.
        """
        with hold_store(self.lab):
            held = self.git.resolve(version.ref)
            return held if held is not None else self._import(version)

    def _import(self, version: Version) -> str:
        with open_index() as index:
            package = read_packages(index).get(version)
            if package is None:
                raise EnvironmentFault(
                    f"the package index has no source package of {version}",
                    remedy="run: python -m upstream list",
                )
            archive = download(self.lab, package.file, index.session)
        require_space(self.lab, IMPORT_MEGABYTES, f"importing {version}")
        LOGGER.info("importing %s from the source package %s", version, package.origin)
        tree = import_tree(self.git, archive, f"{IMPORTING}{version}")
        # git has every byte that counts. Before the tag: after it nobody would look for the file.
        archive.unlink()
        commit = add_snapshot(self.git, _describe(package, tree))
        drop_importing(self.git)
        return commit


def _describe(package: Package, tree: str) -> Snapshot:
    return Snapshot(package.number.build, tree, package.origin, package.file.sha256, package.date)
