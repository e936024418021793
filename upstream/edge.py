"""The edge of the program: arguments in, results on stdout, messages on stderr, one exit code.

Only this module and the packages' `__main__` modules print or exit.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from upstream import process
from upstream.errors import ExitCode, LabError
from upstream.lab import open_lab

Command = Callable[[argparse.Namespace], int]
PASSED_TO_FETCH = ("GIT_SSL_CAINFO", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND")


def run_command(parser: argparse.ArgumentParser, argv: Sequence[str]) -> NoReturn:
    """Parse, run the chosen command and exit with its code."""
    forget_git_environment()
    process.end_on_signals()
    try:
        args = parser.parse_args(argv)
        configure_logging(getattr(args, "verbose", False))
        code = args.run(args)
    except LabError as error:
        code = report_error(error)
    except KeyboardInterrupt as stop:
        write_message("interrupted; what was finished is kept, run the same command to go on")
        ended = isinstance(stop, process.Terminated)
        code = ExitCode.TERMINATED if ended else ExitCode.INTERRUPTED
    except BrokenPipeError:
        code = forget_reader()
    except Exception:
        code = report_crash()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = forget_reader()
    sys.exit(int(code))


def forget_reader() -> int:
    """Whoever read our output (head, less) went away: no error, and nothing more to write."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def forget_git_environment() -> None:
    """Drop GIT_* of the caller (hooks export GIT_DIR and GIT_INDEX_FILE).

    See https://github.com/pre-commit/pre-commit/issues/300 for what they do otherwise.
    """
    for name in [key for key in os.environ if key.startswith("GIT_")]:
        if name not in PASSED_TO_FETCH:
            del os.environ[name]


def configure_logging(verbose: bool) -> None:
    """Messages of the library go to stderr, one plain line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("lab")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False


def report_error(error: LabError) -> int:
    """Tell the user what happened and what to do next."""
    write_message(f"error: {error.what}")
    if error.remedy:
        write_message(f"  next: {error.remedy}")
    return int(error.exit_code)


def report_crash() -> int:
    """Keep the traceback of a defect of ours in a file that can be sent with a bug report."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = open_lab().log(f"crash-{stamp}")
    path.parent.mkdir(parents=True, exist_ok=True)
    system = f"python {platform.python_version()} on {platform.platform()}"
    path.write_text(f"{system}\n{sys.argv}\n{traceback.format_exc()}")
    last = traceback.format_exc().strip().splitlines()[-1]
    write_message(f"error: unexpected: {last}\n  next: report it with the log {path}")
    return int(ExitCode.ENVIRONMENT)


def write_message(text: str) -> None:
    """One message for the person at the terminal."""
    sys.stderr.write(text + "\n")


def write_json(document: object) -> None:
    """The result of a command as one JSON document."""
    json.dump(document, sys.stdout, indent=2, sort_keys=False, default=str)
    sys.stdout.write("\n")


def write_text(text: str) -> None:
    """The result of a command for a person."""
    sys.stdout.write(text.rstrip("\n") + "\n")


def stdout_console() -> Console:
    """A console for tables; plain where stdout is no terminal, honours NO_COLOR."""
    width = None if sys.stdout.isatty() else 120
    return Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False)


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """The options that every command on a stack takes."""
    parser.add_argument(
        "--series",
        type=Path,
        default=Path("series"),
        metavar="DIR",
        help="the series directory (default: series)",
    )
    parser.add_argument(
        "--upstream",
        choices=("auto", "remote", "snapshots"),
        default="auto",
        help="where upstream source comes from (default: auto)",
    )
    parser.add_argument(
        "--remote", default=None, metavar="URL", help="another git remote than ggml-org/llama.cpp"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("-v", "--verbose", action="store_true", help="say more on stderr")
