"""`python -m upstream`: fetch upstream versions ahead of time, list what there is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from rich.table import Table

from upstream.edge import add_common_options, run_command, stdout_console, write_json
from upstream.errors import ExitCode, UsageError
from upstream.lab import open_lab
from upstream.provider import Upstream, open_upstream
from upstream.store import Held
from upstream.version import Version

SHOWN = 40  # rows of a table; a git remote has thousands of versions


def main(argv: Sequence[str]) -> None:
    """Run one command and exit with its code."""
    run_command(make_parser(), argv)


def make_parser() -> argparse.ArgumentParser:
    """The command line of `python -m upstream`."""
    parser = argparse.ArgumentParser(prog="python -m upstream", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    fetch = commands.add_parser("fetch", help="import versions into the cache")
    fetch.add_argument("version", nargs="*", metavar="VERSION", help="bNNNN or HEAD (default)")
    fetch.add_argument("--all", action="store_true", help="every version that has a snapshot")
    fetch.set_defaults(run=fetch_versions)
    add_common_options(fetch)
    listing = commands.add_parser("list", help="known versions, imported or not, and their origin")
    listing.set_defaults(run=list_versions)
    add_common_options(listing)
    return parser


def fetch_versions(args: argparse.Namespace) -> int:
    """Import what was asked for, the oldest first, and show it."""
    upstream = open_upstream(open_lab(), args.upstream, args.remote)
    wanted = choose_versions(upstream, args.version, every=args.all)
    for version in wanted:
        upstream.provide(version)
    # Read at the end: a snapshot that came in changes the ids of those after it.
    imported = upstream.imported()
    show(args, [(version, imported[version]) for version in wanted], {})
    return ExitCode.OK


def choose_versions(upstream: Upstream, names: Sequence[str], *, every: bool) -> list[Version]:
    """The versions to import, ascending; HEAD and --all ask the source anew."""
    if names and every:
        raise UsageError("--all and a VERSION exclude each other", remedy="leave one of them out")
    if every or not names or "HEAD" in map(str.upper, names):
        upstream.refresh()
    if every and upstream.provider_name == "remote":
        raise UsageError(
            f"the git remote has {len(upstream.versions())} versions, too many to import all",
            remedy="name those you need, or use: --upstream snapshots",
        )
    if every:
        return upstream.versions()
    return sorted({upstream.resolve(name) for name in names or ["HEAD"]})


def list_versions(args: argparse.Namespace) -> int:
    """Show every known version."""
    upstream = open_upstream(open_lab(), args.upstream, args.remote)
    imported = upstream.imported()
    rows = [(version, imported.get(version)) for version in upstream.versions()]
    show(args, rows, {"source": upstream.provider_name})
    return ExitCode.OK


def show(
    args: argparse.Namespace, rows: Sequence[tuple[Version, Held | None]], head: dict[str, str]
) -> None:
    """The result as a table, or as one JSON document."""
    if args.json:
        write_json({**head, "versions": [describe(version, held) for version, held in rows]})
        return
    shown = [row for at, row in enumerate(rows) if row[1] or at >= len(rows) - SHOWN]
    console = stdout_console()
    console.print(make_table(shown))
    if len(shown) < len(rows):
        console.print(f"and {len(rows) - len(shown)} older versions; --json lists them all")


def make_table(rows: Iterable[tuple[Version, Held | None]]) -> Table:
    """One line per version."""
    table = Table("version", "origin", "commit", "tree", box=None)
    for version, held in rows:
        cells = (held.origin, held.commit[:12], held.tree[:12]) if held else ("not imported",)
        table.add_row(str(version), *cells)
    return table


def describe(version: Version, held: Held | None) -> dict[str, object]:
    """One version for --json."""
    document: dict[str, object] = {"version": str(version), "imported": held is not None}
    if held is not None:
        document |= {"origin": held.origin, "commit": held.commit, "tree": held.tree}
        document |= {"sha256": held.snapshot.sha256} if held.snapshot else {}
    return document


if __name__ == "__main__":
    main(sys.argv[1:])
