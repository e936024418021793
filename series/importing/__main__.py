"""`python -m series.importing SOURCE`: other people's patches become a topic of the series."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from series.commands import Bench, open_bench
from series.importing import report
from series.importing.carry import Carried, Search, carry, search_base, stand_on
from series.importing.model import Defaults, Draft, Intake
from series.importing.source import find_author, guess_name, read_source
from series.importing.topic import check_free, make_slug, name_patches, stage_topic
from series.manifest import digest_series, load_series
from series.model import Series, Topic
from series.park import list_parked
from series.rebase import Plan
from series.write import commit_series, verify_staged
from upstream.edge import add_common_options, run_command, write_json, write_message, write_text
from upstream.errors import ConflictWaiting, ExitCode, UsageError
from upstream.version import Version


@dataclass(frozen=True)
class Import:
    """One import under way: what was asked, what was read."""

    args: argparse.Namespace
    bench: Bench
    intake: Intake
    topic: Topic
    drafts: Mapping[str, Draft]


def build_parser() -> argparse.ArgumentParser:
    """All options; docs/reference/commands.md lists them."""
    parser = argparse.ArgumentParser(prog="import", description=__doc__)
    parser.add_argument(
        "source", metavar="SOURCE", help="a folder, mailbox, quilt series, PATH:A..B"
    )
    add_common_options(parser)
    add = parser.add_argument
    add("--repository", type=Path, metavar="PATH", help="SOURCE is a range A..B of this repository")
    add("--topic", metavar="NAME", help="the topic's name (default: after SOURCE)")
    add("--title", metavar="TEXT", help="the topic's title")
    add("--base", metavar="VERSION", help="what the patches were made on (default: found)")
    add("--requires", metavar="TOPIC,...", default="", help="topics that the new one needs")
    add("--only", metavar="PATCH,...", default="", help="import only these")
    add("--prefix", metavar="TEXT", default="", help="begin every patch's name with this")
    add("--strip", type=int, default=1, metavar="N", help="leading folders of paths to leave out")
    add("--author", metavar="'NAME <ADDRESS>'", help="author of plain diffs (default: yours)")
    add("--date", metavar="YYYY-MM-DD", default="", help="their date (default: the file's own)")
    add("--create", action="store_true", help="make a new series directory on the base found")
    add("--dry-run", action="store_true", help="only show what would happen")
    parser.set_defaults(run=run_import)
    return parser


def run_import(args: argparse.Namespace) -> int:
    """Read the source, find its base, carry it, write the series; all of it or nothing."""
    with open_bench(args, make_loader(args)) as bench:
        refuse_unfinished_rebase(bench)
        digest = digest_series(bench.series)
        work = read_all(args, bench)
        named = bench.upstream.resolve(args.base) if args.base else None
        own = None if args.create else stand_on(bench, bench.series)
        search = search_base(bench, work.drafts, own, named)
        if not search.best.complete:
            return report_no_base(work, search, named)
        carried = carry(bench, work.topic.name, work.drafts, own, search.best)
        if carried.plan is not None and carried.plan.waiting:
            return report_waiting(work, search, carried)
        series = replace(bench.series, base=carried.under.version)
        write(work, series, carried, digest)
        report_done(work, search, carried)
    return ExitCode.OK


def make_loader(args: argparse.Namespace) -> Callable[[Path], Series]:
    """How the series directory is read: with --create, one that does not exist yet."""

    def load(directory: Path) -> Series:
        if not args.create:
            return load_series(directory)
        if (directory / "series.toml").exists():
            raise UsageError(
                f"{directory} holds a series already", remedy="leave --create out, or name another"
            )
        return Series(directory, Version(0), ())

    return load


def refuse_unfinished_rebase(bench: Bench) -> None:
    """Writing the series forgets what a rebase has gathered: that comes first."""
    gathered = (bench.state / "decisions.json", *(bench.state / "resolutions").glob("*"))
    if list_parked(bench.parked) or any(path.exists() for path in gathered):
        raise ConflictWaiting(
            "a rebase of this series is not finished: it holds conflicts or decisions",
            remedy="nox -s rebase -- --write, or forget them: nox -s rebase -- --abort",
        )


def read_all(args: argparse.Namespace, bench: Bench) -> Import:
    """The source as named patches of a topic that the series can take."""
    author = find_author(bench.git, args.author)
    defaults = Defaults(author, read_day(args.date), args.strip)
    intake = read_source(bench.git, args.source, args.repository, defaults, bench.scratch)
    drafts = choose(name_patches(intake.drafts, args.prefix), split_list(args.only))
    name = args.topic or make_slug(guess_name(args.source, args.repository))
    title = args.title or f"Imported: {name}"
    topic = Topic(name, title, tuple(split_list(args.requires)), tuple(drafts))
    check_free(bench.series, name, topic.requires, drafts)
    for remark in intake.remarks:
        write_message(remark)
    return Import(args, bench, intake, topic, drafts)


def split_list(text: str) -> list[str]:
    """The words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def choose(drafts: Mapping[str, Draft], only: list[str]) -> dict[str, Draft]:
    """The patches that --only names, in the source's order; all where it names none."""
    unknown = [name for name in only if name not in drafts]
    if unknown:
        raise UsageError(
            f"--only names {unknown[0]}, which the source does not hold",
            remedy=f"it holds: {', '.join(drafts)}",
        )
    return {name: draft for name, draft in drafts.items() if not only or name in only}


def read_day(text: str) -> str:
    """A day as git's raw date, at midnight UTC."""
    if not text:
        return ""
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError as error:
        raise UsageError(f"'{text}' is no date", remedy="write --date YYYY-MM-DD") from error
    return f"{int(day.timestamp())} +0000"


def write(work: Import, series: Series, carried: Carried, digest: str) -> None:
    """Stage the files, prove that they give the same tree, move them in (unless --dry-run)."""
    bench, whole = work.bench, carried.whole
    staged = stage_topic(bench.git, series, work.topic, carried.new, work.drafts, bench.scratch)
    proved = series
    if not series.directory.exists():
        proved = replace(series, directory=bench.scratch / "none-yet")
        proved.directory.mkdir()
    verify_staged(bench.git, proved, staged, Plan(whole, whole, ()), bench.scratch)
    if not work.args.dry_run:
        commit_series(bench.series, staged, bench.state, digest)


def report_done(work: Import, search: Search, carried: Carried) -> None:
    """The patches with their ends, and what to do next."""
    write_result(work, search, carried, written=not work.args.dry_run)
    directory = work.bench.series.directory
    if work.args.dry_run:
        write_message(f"nothing was written; to write it: {repeat(work, dry_run=False)}")
        return
    where = "" if str(directory) == "series" else f" -- --series {directory}"
    write_message(
        f"wrote topic {work.topic.name} to {directory} (base {carried.under.version})\n"
        f"  next: declare its numerics and checks there, then: nox -s rebase build validate{where}"
    )


def report_no_base(work: Import, search: Search, named: Version | None) -> int:
    """No version takes all patches: the table, and how to import a part."""
    best = search.best
    failed = {failure.name for failure in best.failures}
    rest = [name for name in work.drafts if name not in failed]
    write_result(work, search, None, written=False)
    write_message(
        f"nothing was imported: the best version, {best.version}, takes {best.applied} of "
        f"{best.total} patches"
    )
    if rest:
        again = repeat(work, base=str(best.version), only=",".join(rest))
        write_message(f"  next: import those that apply: {again}")
    if named is None:
        write_message(
            f"  or fetch more versions (nox -s fetch -- --all; {len(search.attempts)} were tried), "
            f"or name the one that they were made on: {repeat(work, base='VERSION')}"
        )
    if any("does not exist in index" in failure.why for failure in best.failures):
        write_message("  a path that does not exist may need another --strip N")
    return ExitCode.CONFLICT


def report_waiting(work: Import, search: Search, carried: Carried) -> int:
    """They apply where they were made, and need a person on the way to the series' base."""
    assert carried.plan is not None
    write_result(work, search, carried, written=False)
    waiting = {outcome.patch for outcome in carried.plan.waiting}
    rest = [name for name in work.drafts if name not in waiting]
    found, onto = search.best.version, carried.under.version
    aside = f"{work.topic.name}-series"
    write_message(
        f"nothing was imported: {len(waiting)} of {len(work.drafts)} patches need a person on the "
        f"way from {found} to {onto} with its series\n"
        f"  next: {repeat(work, base=str(found), series=aside, create=True, requires='')}\n"
        f"        nox -s rebase -- --series {aside} --onto {onto} --write   (parks each conflict)\n"
        f"        nox -s import -- {aside} --topic {work.topic.name}"
    )
    if rest:
        write_message(f"  or without them: {repeat(work, base=str(found), only=','.join(rest))}")
    return ExitCode.CONFLICT


def repeat(work: Import, **changed: object) -> str:
    """The command line of this import with some options changed."""
    return report.repeat_import(work.args, **{"dry_run": False, **changed})


def write_result(work: Import, search: Search, carried: Carried | None, *, written: bool) -> None:
    """The result on stdout."""
    told = (work.topic, work.drafts, work.intake, search)
    if work.args.json:
        write_json(report.import_document(*told, carried, written=written))
    elif carried is None:
        head = f"{len(work.drafts)} patches ({work.intake.kind})"
        write_text("\n".join([head, *report.format_attempts(search)]))
    else:
        write_text(report.format_import(*told, carried))


if __name__ == "__main__":
    run_command(build_parser(), sys.argv[1:])
