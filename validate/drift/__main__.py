"""`nox -s drift`: how every patch stands against every known upstream version."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from series.commands import Bench, open_bench
from upstream.edge import (
    add_common_options,
    run_command,
    stdout_console,
    write_json,
    write_message,
    write_text,
)
from upstream.errors import ExitCode
from validate.drift.document import drift_document
from validate.drift.gather import gather_patches, gather_versions
from validate.drift.html import write_map
from validate.drift.model import Drift
from validate.drift.nightly import compare_with_last
from validate.drift.static import StaticBook
from validate.drift.survey import survey
from validate.drift.table import explain, make_tables, say_newest


def build_parser() -> argparse.ArgumentParser:
    """All options; docs/reference/commands.md lists them."""
    parser = argparse.ArgumentParser(prog="drift", description=__doc__)
    add_common_options(parser)
    parser.add_argument(
        "--also",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="another series on the same map; may be repeated",
    )
    parser.add_argument(
        "--versions", nargs="+", default=[], metavar="VERSION", help="only these (bNNNN, HEAD)"
    )
    parser.add_argument("--fetch", action="store_true", help="import every known version first")
    parser.add_argument("--no-static", action="store_true", help="look at text only")
    parser.add_argument(
        "--advance", action="store_true", help="only say the newest version where all applies"
    )
    parser.add_argument(
        "--nightly", action="store_true", help="also say what changed since the last nightly run"
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="where the map goes as a page (report/drift.html in the lab)",
    )
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Exit 0: on HEAD every patch applies or has landed; 1: a patch is red there.

    With --advance 0 means that some version takes all patches.
    """
    with open_bench(args) as bench:
        drift = make_drift(bench, args)
        changes = compare_with_last(drift, bench.state) if args.nightly else []
        path = write_map(drift, (args.html or bench.lab.root / "report" / "drift.html").absolute())
    write_message(f"map: {path}")
    show(drift, changes, args)
    if args.advance:
        return ExitCode.OK if drift.newest else ExitCode.GATE_FAILED
    return ExitCode.GATE_FAILED if drift.red else ExitCode.OK


def make_drift(bench: Bench, args: argparse.Namespace) -> Drift:
    """The map that the command line asks for."""
    git, upstream = bench.git, bench.upstream
    carried = gather_patches(git, upstream, [args.series, *args.also], bench.scratch)
    bases = [each.alone.base for each in carried]
    known, unknown = gather_versions(upstream, args.versions, bases, fetch=args.fetch)
    static = None if args.no_static else StaticBook(bench.lab, git, carried)
    provider = upstream.provider_name
    return survey(git, carried, known, static, provider=provider, unknown=unknown)


def show(drift: Drift, changes: list[str], args: argparse.Namespace) -> None:
    """The result on stdout."""
    if args.json:
        document = drift_document(drift)
        write_json({**document, "changes": changes} if args.nightly else document)
        return
    if args.advance:
        write_text(say_newest(drift))
        return
    console = stdout_console()
    for table in make_tables(drift):
        console.print(table)
    write_text("\n".join([explain(drift), *(f"since last run: {each}" for each in changes)]))


if __name__ == "__main__":
    run_command(build_parser(), sys.argv[1:])
