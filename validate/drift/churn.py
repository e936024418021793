"""How much upstream changes the files of a patch, and what that says about the next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from series.landing.alone import Alone
from upstream.git import EMPTY_TREE, Git
from validate.drift.model import Carried, Known

RUN = 7  # changed lines in a row upstream: 338+132 in 59 hunks, 828+716 in 196 (b10068 to b10566)
MARGIN = 3  # lines of context on each side: a change there conflicts too
RECENT = 4  # steps that the estimate looks back


@dataclass(frozen=True)
class Churn:
    """Lines added and removed by path in each step between neighbouring versions, and the length
    of each path on the newest one."""

    steps: tuple[Mapping[str, int], ...]
    lengths: Mapping[str, int]

    def of(self, patch: Alone) -> tuple[tuple[int, ...], float]:
        """Lines changed in the patch's files, one number a version (the first has none), and the
        risk of the next step."""
        lines = tuple(sum(step.get(path, 0) for path in patch.paths) for step in self.steps)
        return (0, *lines), self.estimate_risk(patch)

    def estimate_risk(self, patch: Alone) -> float:
        """The chance that upstream's next step changes a line at one of the patch's hunks.

        Assumes that the next step is as large as the median of the last four, in runs of seven
        lines that fall anywhere in the file: docs/how-to/read-the-drift-map.md.
        """
        spared = 1.0
        recent = self.steps[-RECENT:]
        for hunk in patch.hunks:
            length = self.lengths.get(hunk.path, 0)
            if not length or not recent:
                continue
            runs = median(step.get(hunk.path, 0) for step in recent) / RUN
            hit = min(1.0, (len(hunk.source) + 2 * MARGIN) / length)
            spared *= (1 - hit) ** runs
        return round(1 - spared, 3)


def measure_churn(git: Git, carried: Sequence[Carried], known: Sequence[Known]) -> Churn:
    """Count with one git process a step."""
    paths = list(dict.fromkeys(path for each in carried for path in each.alone.paths))
    steps = tuple(count_lines(git, a.tree, b.tree, paths) for a, b in pairwise(known))
    return Churn(steps, count_lines(git, EMPTY_TREE, known[-1].tree, paths))


def count_lines(git: Git, old: str, new: str, paths: Sequence[str]) -> dict[str, int]:
    """Lines added and removed by path; binary files count nothing."""
    if not paths:
        return {}
    options = ("-r", "--numstat", "-z", "--no-renames")
    done = git.run("--literal-pathspecs", "diff-tree", *options, old, new, "--", *paths)
    rows = (row.split("\t") for row in done.text.split("\0") if row.count("\t") == 2)
    return {path: _number(plus) + _number(minus) for plus, minus, path in rows}


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
