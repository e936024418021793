"""A drift map with every state, made by the engine from the planted upstream."""

from __future__ import annotations

from pathlib import Path

from series.landing.alone import isolate_series
from series.manifest import load_series
from tests.series.miniature import create_upstream, write_series
from tests.series.planted import PATCHES, plant
from upstream.git import Git
from upstream.version import parse_version
from validate.drift.model import Carried, Drift, Known
from validate.drift.survey import survey


def make_planted_map(folder: Path) -> Drift:
    """All planted cases on b100, b200 and b300, with true commits."""
    upstream = create_upstream(folder / "upstream.git")
    plant(upstream)
    git = Git(upstream.path)
    patches = upstream.patches("b100", *PATCHES)
    series = load_series(write_series(folder / "series", "b100", patches))
    scratch = folder / "scratch"
    scratch.mkdir()
    known = [
        Known(parse_version(tag), upstream.text("rev-parse", f"{tag}^0"), git.tree_of(tag), True)
        for tag in ("b100", "b200", "b300")
    ]
    alone = isolate_series(git, series, known[0].commit, scratch)
    return survey(git, [Carried(series, each) for each in alone], known, provider="remote")
