"""`nox -s retire`: the signs that upstream has a patch, and with PATCH the [[landed]] record."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from series.commands import Bench, open_bench
from series.pull_request import PullRequests
from upstream.edge import (
    add_common_options,
    run_command,
    write_json,
    write_message,
    write_text,
)
from upstream.errors import ExitCode, UsageError
from validate.drift.gather import gather_patches, gather_versions
from validate.drift.model import Row
from validate.drift.survey import survey
from validate.landing.drop_check import Kennel
from validate.landing.judge import Court, judge_all, judge_row
from validate.landing.report import document_signals, format_retired, format_signals
from validate.landing.retire import Words, retire


def build_parser() -> argparse.ArgumentParser:
    """All options; docs/reference/commands.md lists them."""
    parser = argparse.ArgumentParser(prog="retire", description=__doc__)
    add_common_options(parser)
    parser.add_argument("patch", nargs="?", metavar="PATCH", help="write the record of this one")
    parser.add_argument(
        "--in", dest="version", metavar="VERSION", help="the first version that has it (HEAD)"
    )
    parser.add_argument("--reference", default="", help="upstream's PR (default: Upstream-PR:)")
    parser.add_argument("--evidence", default="", metavar="TEXT", help="what else you know")
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="write it although too few signs agree"
    )
    parser.add_argument(
        "--run-checks",
        action="store_true",
        help="run every drop-check; builds plain upstream where one needs programs",
    )
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="a toolchain folder for the patches' own checks"
    )
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument(
        "--api", default="", metavar="URL", help="another API than GitHub's (GITHUB_API_URL)"
    )
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Exit 0; 1 when a landed patch is needed again, or the signs do not allow a record."""
    with open_bench(args) as bench:
        rows, court = open_court(bench, args)
        if args.patch:
            return retire_one(bench, court, rows, args)
        found = judge_all(court, rows)
    if args.json:
        version = str(court.version.version)
        write_json({"version": version, "patches": [document_signals(s) for s in found]})
    else:
        write_text(format_signals(found))
    return ExitCode.GATE_FAILED if any(s.needed_again for s in found) else ExitCode.OK


def retire_one(bench: Bench, court: Court, rows: Sequence[Row], args: argparse.Namespace) -> int:
    """Gather the signs of one patch, its drop-check among them, and write the record."""
    name = args.patch if args.patch.endswith(".patch") else f"{args.patch}.patch"
    row = next((row for row in rows if row.patch == name), None)
    if row is None:
        raise UsageError(f"series.toml lists no patch '{name}'", remedy="nox -s status")
    signals = judge_row(court, row, args.reference)
    if not args.json:
        write_text(format_signals([signals]))
    done = retire(bench, signals, row, Words(args.reference, args.evidence, args.reason))
    if args.json:
        write_json({**document_signals(signals), "retired": vars(done)})
    else:
        write_text(format_retired(signals, done))
    if done.backup:
        write_message(f"the stack before is kept as {done.backup}")
    return ExitCode.OK


def open_court(bench: Bench, args: argparse.Namespace) -> tuple[Sequence[Row], Court]:
    """How every patch stands on the versions at hand up to the one in question."""
    upstream = bench.upstream
    carried = gather_patches(bench.git, upstream, [args.series], bench.scratch)
    version = upstream.resolve(args.version or "HEAD")
    upstream.provide(version)
    bases = [each.alone.base for each in carried]
    known, _ = gather_versions(upstream, [], bases, fetch=False)
    if version not in {each.version for each in known}:
        names = [str(version), *(str(each.version) for each in known)]
        known, _ = gather_versions(upstream, names, bases, fetch=False)
    known = [each for each in known if each.version <= version]
    run_checks = args.run_checks or bool(args.patch)
    kennel = Kennel(bench.lab, bench.git, args.jobs, args.root) if run_checks else None
    court = Court(bench.series, known, PullRequests(bench.lab, args.api), kennel)
    return survey(bench.git, carried, known).rows, court


if __name__ == "__main__":
    run_command(build_parser(), sys.argv[1:])
