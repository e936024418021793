"""Upstream source from a git remote: the true commits with their full history."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from upstream.errors import CommandError, EnvironmentFault
from upstream.git import Git
from upstream.lab import Lab, require_space
from upstream.store import IMPORTING, add_true_commits, drop_importing, hold_store, read_held
from upstream.version import Version

LOGGER = logging.getLogger("lab")
DEFAULT_REMOTE = "https://github.com/ggml-org/llama.cpp"
ASK_SECONDS = 4.0  # while there is something to fall back on
PATIENT_SECONDS = 60.0
FETCH_SECONDS = 7200.0
HISTORY_MEGABYTES = 1500  # all of upstream's history; later fetches bring little
UPDATE_MEGABYTES = 200
_TAG = re.compile(r"refs/tags/b(\d{1,7})")


@dataclass(frozen=True)
class RemoteProvider:
    """Serves the tags bNNNN of a git remote; `seconds` is how long it may take to list them."""

    lab: Lab
    git: Git
    url: str
    seconds: float = PATIENT_SECONDS
    name: str = field(default="remote", init=False)

    def list_versions(self) -> list[Version]:
        """The remote's build tags, ascending. Raises EnvironmentFault when it does not answer."""
        try:
            refs = self.git.list_remote(self.url, "refs/tags/b*", self.seconds)
        except CommandError as error:
            raise EnvironmentFault(
                f"the git remote does not answer: {last_words(error)}"
            ) from error
        found = (match for ref in refs if (match := _TAG.fullmatch(ref)))
        # b0123 would be another tag than b123
        return sorted(Version(int(m[1])) for m in found if f"b{int(m[1])}" == f"b{m[1]}")

    def provide(self, version: Version) -> str:
        """The true commit of a version, fetched with its history when missing.

        Versions that are there as snapshots are fetched along with it, so that all of the store
        has one history. Raises EnvironmentFault for network, disk, a shallow remote, or a
        snapshot whose tree is not upstream's.
        """
        with hold_store(self.lab):
            held = read_held(self.git)
            if version in held and held[version].snapshot is None:
                return held[version].commit
            snapshots = {each for each in held if held[each].snapshot}
            known = set(self.list_versions()) if snapshots else set()
            wanted = {version} | (snapshots & known)
            first = len(snapshots) == len(held)
            require_space(
                self.lab, HISTORY_MEGABYTES if first else UPDATE_MEGABYTES, "fetching upstream"
            )
            self._fetch(sorted(wanted))
            commits = {each: self._fetched_commit(each) for each in sorted(wanted)}
            add_true_commits(self.git, commits)
            drop_importing(self.git)
            return commits[version]

    def _fetch(self, versions: Iterable[Version]) -> None:
        names = ", ".join(map(str, versions))
        LOGGER.info("fetching %s with full history; the first time takes minutes", names)
        specs = [f"+refs/tags/{each}:{IMPORTING}{each}" for each in versions]
        try:
            done = self.git.fetch(self.url, specs, FETCH_SECONDS)
        except CommandError as error:
            raise EnvironmentFault(
                f"cannot fetch {names} from the git remote: {last_words(error)}",
                remedy="check the network, or use: --upstream snapshots",
            ) from error
        if b"shallow roots" in done.stderr:
            raise EnvironmentFault(
                "the git remote is a shallow clone; merging and finding drift need all of history",
                remedy="there, run: git fetch --unshallow; or name another one with --remote URL",
            )

    def _fetched_commit(self, version: Version) -> str:
        commit = self.git.resolve(f"{IMPORTING}{version}^{{commit}}")
        if commit is None:
            raise EnvironmentFault(
                f"the remote's tag {version} names no commit",
                remedy="name another remote with --remote URL",
            )
        return commit


def last_words(error: CommandError) -> str:
    """What git said last, on one line, without a password that an address may hold."""
    lines = [line for line in error.failure.stderr_tail.splitlines() if line.strip()]
    said = "; ".join(lines[-2:]) or f"exit code {error.failure.code}"
    return re.sub(r"://[^/@\s]*@", "://", said)
