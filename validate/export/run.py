"""One export: whole stack, topics alone, trials, judgement, files, refs. Everything that can fail
comes before the first file or ref moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from series.commands import Bench, make_plan
from series.decisions import Decisions, gather_decisions
from series.model import Series, Stack, Topic
from series.signoff import load_signoffs
from series.stack import load_stack
from series.topic_stack import Entangled, Rebuilder, TopicStack, refuse_entangled
from upstream.errors import ConflictWaiting, UsageError
from upstream.lab import hold_lock
from upstream.store import read_held
from upstream.version import Version
from validate.export.files import install_files, is_edited, make_files, stage_files
from validate.export.history import move_branches, read_history
from validate.export.model import Exported, Files, Trial
from validate.export.readiness import judge_readiness
from validate.export.report import Summary
from validate.policy import Evidence, Lookup, Subject, judge_topic
from validate.policy.judge import check_waivers

B = TypeVar("B")
WORKERS = 4
WAIT = 60.0  # seconds for another series' export to finish moving


@dataclass(frozen=True)
class Options:
    """What a run was asked for. `trial` builds and judges a topic; None: --no-build."""

    onto: Version
    topics: Sequence[str]
    output: Path
    trial: Callable[[TopicStack], Trial] | None
    lookup: Lookup | None = None
    author: str = ""


def export_topics(bench: Bench, options: Options) -> tuple[Summary, str | None]:
    """Export the chosen topics; what was done, and the prefix of the refs' backup if any moved.

    Raises UsageError for an unknown topic, a bad signoff.toml, a waiver of no rule or a missing
    `requires`, ConflictWaiting when the stack does not stand on that version.
    """
    check_waivers(bench.series.waivers)  # before anything is built for minutes
    signoffs = load_signoffs(bench.series)
    whole, decisions = find_stack(bench, options.onto)
    chosen, empty = choose_topics(bench.series, whole, options.topics)
    found = rebuild_topics(bench, whole, decisions, chosen)
    snapshot = name_snapshot(bench, whole)
    trials = [options.trial(alone) if options.trial else None for alone in found]

    def judge(alone: TopicStack, trial: Trial | None) -> Exported:
        findings = judge_topic(_subject(bench, alone, options), _evidence(trial), options.lookup)
        readiness = judge_readiness(alone, trial, findings, signoffs)
        history = read_history(bench.git, bench.series, alone)
        return Exported(bench.series, alone, history, trial, findings, readiness, snapshot)

    exported = _in_parallel(judge, found, trials)
    files = make_all_files(bench, exported, options.output)
    changed, backup = publish(bench, exported, files, options.output)
    edited = tuple(each.folder.name for each in files if is_edited(each.folder))
    summary = Summary(
        tuple(exported), tuple(empty), bench.git.directory, options.output, changed, edited
    )
    return summary, backup


def find_stack(bench: Bench, onto: Version) -> tuple[Stack, Decisions]:
    """The whole stack on `onto`: the recorded one, else worked out as `rebase` does, in memory."""
    decisions = gather_decisions(bench.series, bench.pending, onto)
    stack = load_stack(bench.git, bench.series)
    commit = bench.upstream.provide(onto)
    if stack is not None and (stack.version, stack.commit) == (onto, commit):
        return stack, decisions
    plan, decisions = make_plan(bench, bench.series.base, onto)
    if plan.waiting:
        names = ", ".join(outcome.patch for outcome in plan.waiting)
        raise ConflictWaiting(
            f"the stack does not stand on {onto} yet, these patches wait for you: {names}",
            remedy=f"nox -s rebase -- --onto {onto}",
        )
    return plan.new, decisions


def choose_topics(
    series: Series, whole: Stack, names: Sequence[str]
) -> tuple[list[Topic], list[Topic]]:
    """The named topics (all by default) that have patches, and those that have none left."""
    known = [topic.name for topic in series.topics]
    for name in names:
        if name not in known:
            raise UsageError(
                f"series.toml has no topic '{name}'", remedy=f"name one of: {', '.join(known)}"
            )
    wanted = [topic for topic in series.topics if not names or topic.name in names]
    alive = {step.topic for step in whole.steps}
    chosen = [topic for topic in wanted if topic.name in alive]
    if not chosen:
        raise UsageError(
            f"nothing to export: no patch is left on {whole.version}", remedy="nox -s status"
        )
    return chosen, [topic for topic in wanted if topic.name not in alive]


def rebuild_topics(
    bench: Bench, whole: Stack, decisions: Decisions, topics: Sequence[Topic]
) -> list[TopicStack]:
    """Every topic alone. Raises UsageError when one needs a topic that it does not require."""

    def rebuild(topic: Topic) -> TopicStack | Entangled:
        scratch = _own_scratch(bench, topic.name)
        return Rebuilder(bench.git, bench.series, whole, decisions, scratch).rebuild(topic)

    found = _in_parallel(rebuild, topics)
    entangled = [each for each in found if isinstance(each, Entangled)]
    if entangled:
        raise refuse_entangled(entangled, bench.series)
    return [each for each in found if isinstance(each, TopicStack)]


def make_all_files(bench: Bench, exported: Sequence[Exported], output: Path) -> list[Files]:
    """The folders of all topics, in memory."""

    def make(each: Exported) -> Files:
        return make_files(bench.git, each, output, _own_scratch(bench, each.name))

    return _in_parallel(make, exported)


def publish(
    bench: Bench, exported: Sequence[Exported], files: Sequence[Files], output: Path
) -> tuple[bool, str | None]:
    """Stage, move the files in, move the refs; a run that was killed between is finished by the
    next one, which makes the same."""
    notice = "waiting for another export"
    with hold_lock(bench.lab, "export", wait=WAIT, notice=notice):
        stage_files(output, files)
        moved = install_files(output, files)
        backup = move_branches(bench.git, bench.series, exported)
    return moved or any(each.history.is_new for each in exported), backup


def name_snapshot(bench: Bench, whole: Stack) -> str:
    """The package that the upstream commit was made from, "" for upstream's own commit."""
    held = read_held(bench.git).get(whole.version)
    return "" if held is None or held.snapshot is None else held.origin


def _subject(bench: Bench, alone: TopicStack, options: Options) -> Subject:
    stack, series = alone.stack, bench.series
    return Subject(
        git=bench.git,
        version=stack.version,
        base=stack.commit,
        topic=alone.topic,
        steps=stack.steps,
        claims={step.patch: series.claim(step.patch) for step in stack.steps},
        waivers=series.waivers,
        directory=series.directory,
        author=options.author,
    )


def _evidence(trial: Trial | None) -> Evidence:
    if trial is None:
        return Evidence()
    return Evidence({step.patch: step.checks for step in trial.verdicts})


def _own_scratch(bench: Bench, name: str) -> Path:
    """A folder for one thread: git's scratch index has one name."""
    folder = bench.scratch / name
    folder.mkdir(exist_ok=True)
    return folder


def _in_parallel(work: Callable[..., B], *items: Sequence[object]) -> list[B]:
    """One result an item; the work waits for git most of the time, so threads will do."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, *items))
