"""The configuration and environment that git children of ours see: nothing of the caller's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

NAME, EMAIL = "llama-series-lab", "lab@localhost"
COMMITTER = f"{NAME} <{EMAIL}>"

# Nothing of the user's or the machine's configuration may change what a merge or a diff says.
SETTINGS = (
    "core.autocrlf=false",
    "core.eol=lf",
    "core.safecrlf=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=true",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.abbrev=12",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "merge.conflictStyle=zdiff3",
    "merge.renames=true",
    "merge.renameLimit=20000",
    "merge.directoryRenames=true",
    "diff.renames=true",
    "diff.renameLimit=20000",
    "diff.algorithm=myers",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "rerere.enabled=false",
    "advice.detachedHead=false",
    "protocol.ext.allow=never",
    "format.pretty=medium",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "core.protectHFS=true",
    "core.protectNTFS=true",
)


# Passed as variables (git >= 2.31), so that a failed command's error shows the command.
_SETTINGS_ENVIRONMENT = {"GIT_CONFIG_COUNT": str(len(SETTINGS))} | {
    f"GIT_CONFIG_{part}_{number}": text
    for number, setting in enumerate(SETTINGS)
    for part, text in zip(("KEY", "VALUE"), setting.split("=", 1), strict=True)
}


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a git child: no GIT_* of the caller, no configuration but ours."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_EDITOR": "true",
        "LC_ALL": "C",
        "GIT_COMMITTER_NAME": NAME,
        "GIT_COMMITTER_EMAIL": EMAIL,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }
    return env | _SETTINGS_ENVIRONMENT | dict(extra or {})


def network_environment() -> dict[str, str]:
    """Let git find the user's global configuration (proxy, CA file) for network commands only."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config")) / "git" / "config"
    files = (Path.home() / ".gitconfig", home)
    found = next((os.fspath(path) for path in files if path.exists()), os.devnull)
    kept = ("GIT_SSL_CAINFO", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND")
    return {"GIT_CONFIG_GLOBAL": found} | {k: os.environ[k] for k in kept if k in os.environ}
