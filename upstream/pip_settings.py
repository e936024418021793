"""What pip is told about the package index on this machine, by its environment and files."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass

from upstream import process
from upstream.errors import LabError

LOGGER = logging.getLogger("lab")
PIP_SECONDS = 30.0
SECTIONS = ("global.", ":env:.")  # later ones win


@dataclass(frozen=True)
class PipSettings:
    """The address of the index and a file of certificates; empty where pip is told nothing."""

    index_url: str
    certificates: str


def read_pip_settings() -> PipSettings:
    """Read the environment, and pip's configuration where the environment names no index."""
    index_url = os.environ.get("PIP_INDEX_URL", "")
    if index_url:
        return PipSettings(index_url, os.environ.get("PIP_CERT", ""))
    settings = _ask_pip()
    return PipSettings(settings.get("index-url", ""), settings.get("cert", ""))


def _ask_pip() -> dict[str, str]:
    """pip's own view, as `pip config list` prints it; nothing where there is no pip."""
    try:
        done = process.run((sys.executable, "-m", "pip", "config", "list"), timeout=PIP_SECONDS)
    except LabError:
        LOGGER.debug("no pip here; asking the default package index")
        return {}
    return parse_pip_settings(done.text)


def parse_pip_settings(text: str) -> dict[str, str]:
    """Read lines such as global.index-url='https://…'; the environment's win."""
    pairs = [line.partition("=")[::2] for line in text.splitlines()]
    return {
        key.removeprefix(section): value.strip("'\"")
        for section in SECTIONS
        for key, value in pairs
        if key.startswith(section)
    }
