"""Exact upstream versions by name: from the git remote where it answers, else from snapshots."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from upstream.errors import EnvironmentFault, UsageError
from upstream.git import Git, require_git
from upstream.lab import Lab
from upstream.listing import Listing, failed, listing_path, read_listing, write_listing
from upstream.remote import ASK_SECONDS, DEFAULT_REMOTE, PATIENT_SECONDS, RemoteProvider
from upstream.store import Held, read_held
from upstream.version import Version, parse_version

LOGGER = logging.getLogger("lab")
Choice = Literal["auto", "remote", "snapshots"]
NEAREST = 4


class Provider(Protocol):
    """A place that upstream versions come from."""

    @property
    def name(self) -> str:
        """How messages call it."""

    def list_versions(self) -> list[Version]:
        """What it can give, ascending. Raises EnvironmentFault when it does not answer."""

    def provide(self, version: Version) -> str:
        """The commit of a version in the lab's repository, imported when missing."""


@dataclass(frozen=True)
class Source:
    """A provider that is made when it is needed, and the file that remembers its listing."""

    name: str
    make: Callable[[], Provider]
    memory: Path

    def ask(self, *, again: bool, trust_failure: bool) -> Listing:
        """What it offers, or why it does not say; from memory unless `again`."""
        remembered = None if again else read_listing(self.memory)
        if remembered is not None and (remembered.versions or trust_failure):
            return remembered
        try:
            found = tuple(self.make().list_versions())
            listing = Listing(found, "" if found else f"{self.name} has no version", time.time())
        except EnvironmentFault as error:
            listing = failed(error)
        write_listing(self.memory, listing)
        return listing


class Upstream:
    """Upstream versions for one command. Asks the network only when it has to.

    Source: the chosen provider; what is imported is served without any network.
    """

    def __init__(self, git: Git, sources: Sequence[Source], explicit: bool = False) -> None:
        self.git = git
        self._sources = sources
        self._explicit = explicit
        self._said = ""
        self._answer: tuple[Source | None, Listing] | None = None

    @property
    def provider_name(self) -> str:
        """ "remote" or "snapshots", or "imported" while neither answers; may ask them."""
        source, _ = self._listing()
        return source.name if source else "imported"

    def imported(self) -> dict[Version, Held]:
        """What the lab's repository holds, oldest first; no network."""
        return read_held(self.git)

    def versions(self) -> list[Version]:
        """Every version that can be given, ascending; raises EnvironmentFault if there is none."""
        return sorted({*self._listing()[1].versions, *self.imported()})

    def head(self) -> Version:
        """The newest version that the provider can give.

        Without any provider it is the newest imported one, and a log line says so. Raises
        EnvironmentFault when there is neither.
        """
        return self._listing()[1].versions[-1]

    def resolve(self, text: str) -> Version:
        """The version that HEAD or bNNNN names.

        Raises UsageError for a version that nobody has; it names the nearest ones.
        """
        if text.strip().upper() == "HEAD":
            return self.head()
        version = parse_version(text)
        if self.git.resolve(version.ref) is not None:
            return version
        if version not in self._listing()[1].versions and version not in self.refresh():
            raise self._unknown(version)
        return version

    def provide(self, version: Version) -> str:
        """The commit of a version in the lab's repository, imported when missing.

        What is imported is returned at once, without network; only an explicit `remote` replaces
        a snapshot by the true commit. Snapshot commit ids change when an older snapshot is
        imported later (trees never do), so provide the oldest first where ids are compared.
        Raises UsageError for an unknown version, EnvironmentFault for network, disk, packages.
        """
        held = self.git.resolve(version.ref)
        if held is not None and not self._wants_true_commit(version):
            return held
        self.resolve(str(version))
        source, _ = self._listing()
        assert source is not None  # without a source only what is imported resolves
        return source.make().provide(version)

    def refresh(self) -> tuple[Version, ...]:
        """Ask the provider again, whatever is remembered, and return what it offers."""
        self._answer = self._choose(again=True)
        return self._answer[1].versions

    def _wants_true_commit(self, version: Version) -> bool:
        if not (self._explicit and self._sources[0].name == "remote"):
            return False
        return self.imported()[version].snapshot is not None

    def _listing(self) -> tuple[Source | None, Listing]:
        """The first source that answers and what it offers; decided once per command."""
        if self._answer is None:
            self._answer = self._choose(again=False)
        return self._answer

    def _choose(self, *, again: bool) -> tuple[Source | None, Listing]:
        failures: list[str] = []
        for source in self._sources:
            listing = source.ask(again=again, trust_failure=not self._explicit)
            if listing.versions and failures:
                self._say(f"using {source.name}: {'; '.join(failures)}")
            if listing.versions:
                return source, listing
            failures.append(listing.describe_failure())
        held = tuple(self.imported())
        if held and not self._explicit:
            LOGGER.info(
                "HEAD is the newest imported version, %s: %s", held[-1], "; ".join(failures)
            )
            return None, Listing(held, "; ".join(failures), time.time())
        if not again:
            return self._choose(again=True)  # a person who plugged the network in tries at once
        raise EnvironmentFault(f"no upstream source: {'; '.join(failures)}", remedy=self._remedy())

    def _say(self, message: str) -> None:
        """Log a message once per command."""
        if message != self._said:
            LOGGER.info(message)
        self._said = message

    def _remedy(self) -> str:
        if self._explicit:
            return "check the network, or let the tool choose: --upstream auto"
        return (
            "check the network (proxy, certificates), or name a git remote with --remote URL, "
            "or a package index with PIP_INDEX_URL"
        )

    def _unknown(self, version: Version) -> UsageError | EnvironmentFault:
        source, listing = self._listing()
        if source is None:
            what = f"{version} is not imported, and no source answers: {listing.failure}"
            return EnvironmentFault(what, remedy=self._remedy())
        near = nearest(version, self.versions())
        more = "" if source.name == "remote" else " (any other build needs --upstream remote)"
        return UsageError(
            f"{version} is not known to {source.name}; nearest: {', '.join(map(str, near))}",
            remedy=f"choose one of these, or see all: python -m upstream list{more}",
        )


def nearest(version: Version, known: Sequence[Version]) -> list[Version]:
    """The few known versions that are closest to one that is not known, ascending."""
    by_distance = sorted(known, key=lambda each: abs(each.build - version.build))
    return sorted(by_distance[:NEAREST])


def open_upstream(lab: Lab, choice: Choice, remote: str | None) -> Upstream:
    """The upstream source that the command line chose; makes the lab's repository when missing.

    `remote` is a git remote other than upstream's own. Asks nothing yet. Raises EnvironmentFault
    for a git that is too old.
    """
    git = Git(lab.repository)
    if not git.directory.exists():
        require_git()
    git.create()
    makers = {"remote": _remote_source, "snapshots": _snapshot_source}
    names = ("remote", "snapshots") if choice == "auto" else (choice,)
    explicit = choice != "auto"
    sources = [makers[name](lab, git, remote, explicit) for name in names]
    return Upstream(git, sources, explicit)


def _remote_source(lab: Lab, git: Git, remote: str | None, patient: bool) -> Source:
    url = remote or DEFAULT_REMOTE
    if Path(url).exists():
        url = os.fspath(Path(url).absolute())  # git does not run in the caller's folder
    seconds = PATIENT_SECONDS if patient else ASK_SECONDS
    provider = RemoteProvider(lab, git, url, seconds)
    return Source(provider.name, lambda: provider, listing_path(lab, provider.name, url))


def _snapshot_source(lab: Lab, git: Git, remote: str | None, patient: bool) -> Source:
    def make() -> Provider:
        # Reading an index takes 0.4 s to import; most commands never ask it.
        from upstream.snapshots import SnapshotProvider

        return SnapshotProvider(lab, git)

    index = os.environ.get("PIP_INDEX_URL", "")
    return Source("snapshots", make, listing_path(lab, "snapshots", index))
