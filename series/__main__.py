"""`python -m series rebase|status`: the command line of the series engine."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from series import commands
from series.commands import Bench, open_bench
from series.decisions import Decisions
from series.equivalence import require_equivalence
from series.manifest import digest_series, load_series
from series.report import (
    Findings,
    format_plan,
    format_stack,
    plan_document,
    repeat_command,
)
from series.stack import restore_stack, save_stack
from series.status import describe_status, format_status
from upstream.edge import (
    add_common_options,
    run_command,
    write_json,
    write_message,
    write_text,
)
from upstream.errors import ExitCode, UsageError
from upstream.version import Version, parse_version


def build_parser() -> argparse.ArgumentParser:
    """All options; docs/reference/commands.md lists them."""
    parser = argparse.ArgumentParser(prog="series", description=__doc__)
    sub = parser.add_subparsers(required=True, metavar="COMMAND")
    rebase = sub.add_parser("rebase", help="carry the stack onto another upstream version")
    add_common_options(rebase)
    rebase.add_argument("--from", dest="start", metavar="VERSION", help="default: the base")
    rebase.add_argument("--onto", default="HEAD", metavar="VERSION", help="default: HEAD")
    what = rebase.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="only show what would happen")
    what.add_argument(
        "--continue",
        dest="go_on",
        action="store_true",
        help="take the resolutions of the parked conflicts and go on",
    )
    what.add_argument("--abort", action="store_true", help="forget parked conflicts and decisions")
    what.add_argument("--restore", metavar="BACKUP", help="bring back the refs of a backup")
    what.add_argument("--landed", metavar="PATCH", help="upstream has this patch")
    what.add_argument("--drop", metavar="PATCH", help="give this patch up")
    what.add_argument("--acknowledge", metavar="PATCH", help="accept the loss of this patch")
    rebase.add_argument("--reference", help="with --landed: upstream's PR or commit")
    rebase.add_argument("--evidence", help="with --landed: how you know")
    rebase.add_argument(
        "--in",
        dest="landed_in",
        metavar="VERSION",
        help="with --landed: the first version that has it (default: --onto)",
    )
    rebase.add_argument("--reason", help="with --continue, --drop, --acknowledge: why")
    rebase.add_argument("--write", action="store_true", help="rewrite the series directory")
    rebase.set_defaults(run=run_rebase)
    status = sub.add_parser("status", help="what the stack is and where it stands")
    add_common_options(status)
    status.set_defaults(run=run_status)
    return parser


def run_rebase(args: argparse.Namespace) -> int:
    """One rebase command under the series' lock."""
    with open_bench(args) as bench:
        if args.abort:
            commands.abort_rebase(bench)
            write_message("forgot the parked conflicts and decisions of this rebase")
            return ExitCode.OK
        if args.restore:
            aside = restore_stack(bench.git, bench.series, args.restore)
            write_message(
                f"restored {args.restore}\n  to undo that: {repeat_command(args)} --restore {aside}"
            )
            return ExitCode.OK
        return rebase(bench, args)


def rebase(bench: Bench, args: argparse.Namespace) -> int:
    """Decide, plan, report; move refs (and with --write, files) only when nothing waits."""
    onto = bench.upstream.resolve(args.onto)
    start = parse_version(args.start) if args.start else bench.series.base
    digest = digest_series(bench.series)
    taken = take_decisions(bench, args, start, onto)
    done = commands.find_nothing_to_do(bench, onto, args.write) if not args.start else None
    if done is not None and not args.dry_run:
        return report_nothing(bench, args, onto)
    plan, decisions = commands.make_plan(bench, start, onto)
    if taken and args.reason and commands.give_reasons(bench, plan, taken, args.reason):
        plan, decisions = commands.make_plan(bench, start, onto)
    examined = commands.examine(bench, plan, park=not args.dry_run)
    proof = commands.prove(bench, plan, decisions)
    findings = replace(examined, again=repeat_command(args), proof=proof)
    write_findings(args, findings)
    if plan.waiting:
        write_message("nothing was moved: the patches named above wait for you")
        return ExitCode.CONFLICT
    if proof is not None:
        require_equivalence(proof)
    if not args.dry_run:
        finish(bench, args, findings, decisions, digest)
    return ExitCode.OK


def take_decisions(
    bench: Bench, args: argparse.Namespace, start: Version, onto: Version
) -> list[str]:
    """Carry out --continue, --landed, --drop or --acknowledge; names of resolved patches."""
    if args.go_on:
        return commands.continue_rebase(bench, (args.reason or "").strip())
    if args.landed:
        need(args, "reference", "evidence")
        version = parse_version(args.landed_in) if args.landed_in else onto
        commands.record_landed(bench, args.landed, args.reference, version, args.evidence)
    elif args.drop:
        need(args, "reason")
        commands.record_dropped(bench, args.drop, args.reason)
    elif args.acknowledge:
        need(args, "reason")
        plan, _ = commands.make_plan(bench, start, onto)
        commands.acknowledge_loss(bench, plan, args.acknowledge, args.reason)
    return []


def need(args: argparse.Namespace, *names: str) -> None:
    """Refuse a decision without the words that make it reviewable."""
    for name in names:
        if not (getattr(args, name) or "").strip():
            raise UsageError(
                f"--{name} is missing: a decision needs it", remedy=f"add --{name} 'TEXT'"
            )


def finish(
    bench: Bench,
    args: argparse.Namespace,
    findings: Findings,
    decisions: Decisions,
    digest: str,
) -> None:
    """Move files (--write) and refs, and say how to go back."""
    plan = findings.plan
    series = bench.series
    if args.write:
        commands.write_series(bench, plan, decisions, digest)
        series = load_series(args.series)
        write_message(f"wrote {series.directory}: base {series.base}")
    backup = save_stack(bench.git, series, plan.new)
    if backup:
        write_message(
            f"the stack before is kept as {backup}\n"
            f"  to go back: {findings.again} --restore {backup}"
        )
    if not args.write and series.base != plan.new.version:
        write_message(f"{series.directory} is unchanged; to rewrite it: {findings.again} --write")


def report_nothing(bench: Bench, args: argparse.Namespace, onto: Version) -> int:
    """The stack stands on `onto` already."""
    stack = commands.current_stack(bench)
    again = repeat_command(args)
    note = "" if bench.series.base == onto else f" (not written: {again} --write)"
    if args.json:
        write_json(
            {
                "from": str(bench.series.base),
                "onto": str(onto),
                "nothing_to_do": True,
                "tip": stack.tip,
                "tip_tree": stack.tip_tree,
            }
        )
    else:
        write_text(f"nothing to do: {format_stack(stack, note)}")
    return ExitCode.OK


def write_findings(args: argparse.Namespace, findings: Findings) -> None:
    """The report on stdout."""
    if args.json:
        write_json(plan_document(findings))
    else:
        write_text(format_plan(findings))


def run_status(args: argparse.Namespace) -> int:
    """What the stack is, where it stands, what waits."""
    with open_bench(args) as bench:
        status = describe_status(bench)
    if args.json:
        write_json(status)
    else:
        write_text(format_status(status))
    return ExitCode.OK


if __name__ == "__main__":
    run_command(build_parser(), sys.argv[1:])
