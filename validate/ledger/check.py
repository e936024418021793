"""The check `ledgers`: every step against its parent, the series' claims against upstream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from series.model import Series, Stack
from upstream.errors import InvalidMeasurement
from upstream.git import Git
from upstream.lab import Lab
from upstream.store import read_held
from upstream.version import Version
from validate.ledger.claims import (
    Watched,
    find_broken_claims,
    find_collisions,
    is_accepted,
    load_claims,
    rows_of,
)
from validate.ledger.diff import compare_ledgers
from validate.ledger.faults import find_faults
from validate.ledger.model import Change, Ledger
from validate.ledger.read import obtain_ledger
from validate.verdict import CheckResult, Verdict

CHECK = "ledgers"
SHOWN = 3
Versions = Sequence[tuple[Version, str]]


@dataclass(frozen=True)
class StepTrees:
    """A patch with its tree and its parent's."""

    patch: str
    tree: str
    parent: str


class LedgerBook:
    """The ledgers of one run: read once, kept in the lab's results.

    `versions`: upstream versions with their trees, oldest first; the first is the base that the
    patches were reviewed on, the last the one that the stack stands on. `alone`: the stack is a
    part of the series, and what the series claims for other patches is no concern of it.
    """

    def __init__(
        self,
        lab: Lab,
        git: Git,
        series: Series,
        stack: Stack,
        versions: Versions,
        *,
        alone: bool = False,
    ) -> None:
        self._lab = lab
        self._git = git
        self._versions = versions
        self._patches = [step.patch for step in stack.steps]
        claims = load_claims(series)
        self._claims = claims.narrow(self._patches) if alone else claims
        self._read: dict[str, tuple[Ledger, bool]] = {}
        self._upstream: list[Change] | None = None

    def check(self, step: StepTrees) -> CheckResult:
        """What a step changed, and what upstream changed below it.

        The first step also carries what concerns no patch of the stack. Raises
        InvalidMeasurement when a tree cannot be read.
        """
        changes = self._judge_step(step)
        changes += [c for c in self._judge_upstream() if self._bearer(c.name) == step.patch]
        cached = all(known for _, known in self._read.values())
        return _result(tuple(dict.fromkeys(changes)), cached)

    def _bearer(self, patch: str) -> str:
        return patch if patch in self._patches else self._patches[0]

    def _judge_step(self, step: StepTrees) -> list[Change]:
        before, after = self._ledger(step.parent), self._ledger(step.tree)
        old = set(find_faults(before))  # what upstream got wrong is no fault of the step
        found = [
            Change("info" if fault in old else "red", "fault", fault.name, fault.text)
            for fault in find_faults(after)
        ]
        for change in compare_ledgers(before, after):
            accepted = is_accepted(change, step.patch, self._claims)
            found.append(replace(change, severity="info") if accepted else change)
        broken = find_broken_claims(self._claims, step.patch, after)
        return found + [Change("red", "claimed", step.patch, text) for text in broken]

    def _judge_upstream(self) -> list[Change]:
        if self._upstream is None:
            self._upstream = [
                Change("red", "claimed", row.patch, f"{version}: {text}")
                for version, tree in self._versions
                for row, text in find_collisions(self._claims, self._ledger(tree))
            ]
            self._upstream += [c for row in self._claims.watched for c in self._judge_watched(row)]
        return self._upstream

    def _judge_watched(self, row: Watched) -> list[Change]:
        """A watched row moved between base and onto, or is not what was reviewed."""
        (base, base_tree), (onto, onto_tree) = self._versions[0], self._versions[-1]
        now = rows_of(self._ledger(onto_tree), row.kind, row.name)
        before = row.rows or rows_of(self._ledger(base_tree), row.kind, row.name)
        if not now and not before:
            raise InvalidMeasurement(
                f"ledger.toml watches {row.kind} {row.name}, which {onto} does not have",
                remedy="mend the row in ledger.toml",
            )
        if now == before:
            return []
        where = "reviewed" if row.rows else str(base)
        text = f"watched {row.kind} {row.name}: {where} {_say(before)}, {onto} {_say(now)}"
        return [Change("red", "watched", row.patch, text)]

    def _ledger(self, tree: str) -> Ledger:
        if tree not in self._read:
            self._read[tree] = obtain_ledger(self._lab, self._git, tree)
        return self._read[tree][0]


def check_ledgers(
    lab: Lab, git: Git, series: Series, stack: Stack, versions: Versions
) -> list[CheckResult]:
    """The results of all steps, in the order of the stack; an unreadable tree is INVALID."""
    book = LedgerBook(lab, git, series, stack, versions)
    trees = [stack.tree, *(step.tree for step in stack.steps)]
    return [
        check_step(book, StepTrees(step.patch, step.tree, parent))
        for step, parent in zip(stack.steps, trees, strict=False)
    ]


def check_step(book: LedgerBook, trees: StepTrees) -> CheckResult:
    """The result of one step; a tree that cannot be read makes it INVALID."""
    try:
        return book.check(trees)
    except InvalidMeasurement as error:
        return CheckResult(CHECK, Verdict.INVALID, error.what)


def met_versions(git: Git, series: Series, stack: Stack) -> list[tuple[Version, str]]:
    """The imported upstream versions from the series' base to the stack's version, with trees."""
    low, high = sorted((series.base, stack.version))
    held = [version for version in read_held(git) if low <= version <= high]
    found = {version: git.tree_of(version.ref) for version in held} | {stack.version: stack.tree}
    return sorted(found.items())


def _result(changes: tuple[Change, ...], cached: bool) -> CheckResult:
    red = [change for change in changes if change.severity == "red"]
    facts = {"changes": [vars(change) for change in changes]}
    if red:
        return CheckResult(CHECK, Verdict.FAIL, _shorten([c.text for c in red]), facts, cached)
    if changes:
        detail = f"{len(changes)} changes, none red"
        return CheckResult(CHECK, Verdict.PASS, detail, facts, cached)
    return CheckResult(CHECK, Verdict.IDENTICAL, "", facts, cached)


def _shorten(lines: Sequence[str]) -> str:
    more = f"; and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "; ".join(lines[:SHOWN]) + more


def _say(rows: tuple[str, ...]) -> str:
    return "(" + (" | ".join(rows) or "absent") + ")"
