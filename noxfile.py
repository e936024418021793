"""Keep a stack of patches to upstream llama.cpp alive: `nox -s rebase build validate`.

Arguments after `--` go to every chosen session.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, os.fspath(ROOT))

from ci.environment import (  # noqa: E402
    MISLEADING,
    Environment,
    SetupFault,
    create_with_virtualenv,
    prepare,
    read_requirements,
)

nox.needs_version = ">=2026.10.20"  # CommandFailed.return_code; ci/launcher.py installs it
nox.options.sessions = ["rebase", "build", "validate"]
nox.options.stop_on_first_error = True
# The sessions share one environment of our own, .nox/lab: nox would make one for each.
nox.options.default_venv_backend = "none"

MEANINGS = {
    1: "a check said no",
    2: "wrong usage",
    3: "the machine lacks something (nox -s doctor)",
    4: "the measurement is invalid",
    5: "a conflict is waiting for a decision",
    130: "interrupted",
}
GRACE = 20.0  # seconds for a session to end its own children and keep its state after Ctrl-C


@nox.session
def fetch(session: nox.Session) -> None:
    """Fetch exact upstream source into the private repository."""
    run_module(session, "upstream", "fetch", *session.posargs)


@nox.session
def rebase(session: nox.Session) -> None:
    """Carry the stack onto the newest upstream (or --onto bNNNN), in memory."""
    run_module(session, "series", "rebase", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build llama.cpp at the base and at every step of the stack."""
    run_module(session, "validate", "build", *session.posargs)


@nox.session
def validate(session: nox.Session) -> None:
    """Run the checks of every step against its parent."""
    run_module(session, "validate", "run", *session.posargs)


@nox.session
def drift(session: nox.Session) -> None:
    """Show how every patch stands against every known upstream version (--json)."""
    run_module(session, "validate.drift", *session.posargs)


@nox.session
def retire(session: nox.Session) -> None:
    """Show the signs that upstream has a patch, and write the [[landed]] record (PATCH)."""
    run_module(session, "validate.landing", *session.posargs)


@nox.session
def export(session: nox.Session) -> None:
    """Make PR-ready local branches, one a topic, with evidence; nothing is pushed."""
    run_module(session, "validate.export", *session.posargs)


@nox.session(name="import")
def import_(session: nox.Session) -> None:
    """Make a topic of a directory of patches, an mbox, a git range or a quilt series (SOURCE)."""
    run_module(session, "series.importing", *session.posargs)


@nox.session
def status(session: nox.Session) -> None:
    """Say what the stack is and where it stands (--json)."""
    run_module(session, "series", "status", *session.posargs)


@nox.session
def hip(session: nox.Session) -> None:
    """Compile the HIP kernels that a step changes (or --all FILE...) for Strix Halo."""
    run_module(session, "validate.hip", *session.posargs)


@nox.session
def doctor(session: nox.Session) -> None:
    """Look for what the machine lacks, each with its remedy (--json)."""
    run_module(session, "upstream.doctor", *session.posargs)


@nox.session
def toolchain(session: nox.Session) -> None:
    """Make the Debian root with which checks compile shaders for RADV (as root)."""
    run_module(session, "validate", "toolchain", *session.posargs)


@nox.session
def isa(session: nox.Session) -> None:
    """Compile every shader variant that a step changes for Strix Halo, without one (--json)."""
    run_module(session, "validate.isa", *session.posargs)


@nox.session
def speculation(session: nox.Session) -> None:
    """Measure drafters and draft lengths with real llama-server processes (--json)."""
    run_module(session, "validate.speculation", *session.posargs)


@nox.session(name="shape-model")
def shape_model(session: nox.Session) -> None:
    """Write a GGUF of a published model's shape with random weights (list, write, set, rows)."""
    run_module(session, "validate.shape_models", *session.posargs)


@nox.session
def prefill(session: nox.Session) -> None:
    """Measure prompts: upstream's versions, every step and the tip, with a waterfall (--json)."""
    run_module(session, "validate.prefill", *session.posargs)


@nox.session(name="quant-evidence")
def quant_evidence(session: nox.Session) -> None:
    """Measure quantisation types beside each other: divergence, speed, weight error (--json)."""
    run_module(session, "validate.quant_evidence", *session.posargs, groups=("evidence",))


@nox.session
def bench(session: nox.Session) -> None:
    """Measure the project's own numbers: rebase, no-op, builds, import."""
    run_module(session, "validate.bench", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests that build nothing (arguments go to pytest)."""
    run_pytest(session, "-m", "not e2e", "--numprocesses=2", "--dist=loadfile")


@nox.session
def e2e(session: nox.Session) -> None:
    """Run the tests that build llama.cpp (arguments go to pytest)."""
    run_pytest(session, "-m", "e2e and not measures")


@nox.session
def lint(session: nox.Session) -> None:
    """Check the code: ruff, its formatter, mypy strict."""
    run_module(session, "ruff", "check", ".", "ci/nox", groups=("lint",))
    run_module(session, "ruff", "format", "--check", ".", "ci/nox", groups=("lint",))
    run_module(session, "mypy", groups=("lint",))


def run_pytest(session: nox.Session, *options: str) -> None:
    """Run pytest; its code 5 (no test ran) would read as our conflict: answer 4, invalid.

    A shell makes what it starts in the background deaf to Ctrl-C, children included; tests send it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run_module(session, "pytest", *options, *session.posargs, groups=("test",), codes={5: 4})


def run_module(
    session: nox.Session,
    module: str,
    *arguments: str,
    groups: Sequence[str] = (),
    codes: dict[int, int] | None = None,
) -> None:
    """Run `python -m module` in the shared environment, messages on stderr, results on stdout."""
    environment = open_environment(session, groups)
    # nox would die and leave the module running; like this it is told to end, as after Ctrl-C
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        session.run(
            os.fspath(environment.python),
            "-m",
            module,
            *arguments,
            env=variables(environment),
            stderr=None,  # nox would send messages to stdout, into the results
            interrupt_timeout=GRACE,
            terminate_timeout=GRACE,
        )
    except CommandFailed as failure:
        code = failure.return_code or 1
        code = 128 - code if code < 0 else code  # ended by a signal, as shells say it
        stop(session, (codes or {}).get(code, code))


def open_environment(session: nox.Session, groups: Sequence[str]) -> Environment:
    """The shared environment with the runtime, the build tools and the groups of the session."""
    environment = Environment(session.cache_dir.parent / "lab")
    try:
        require_python()
        for group in ("build", *groups):
            requirements = read_requirements(ROOT / "pyproject.toml", sorted({"build", group}))
            prepare(environment, group, requirements, create_with_virtualenv, session.log)
    except SetupFault as fault:
        session.warn(str(fault))
        stop(session, fault.exit_code)
    return environment


def require_python() -> None:
    """The sessions run under the Python that runs nox, which itself is content with less."""
    if sys.version_info < (3, 11):  # noqa: UP036
        raise SetupFault(
            f"nox runs under Python {sys.version.split()[0]}, the project needs 3.11",
            "install nox for a newer Python, or run ci/nox with one",
        )


def variables(environment: Environment) -> dict[str, str | None]:
    """The activated environment, without what would lead Python elsewhere."""
    path = [os.fspath(environment.bin.absolute()), os.environ.get("PATH", os.defpath)]
    cleared: dict[str, str | None] = dict.fromkeys(MISLEADING)
    return cleared | {
        "PATH": os.pathsep.join(path),
        "VIRTUAL_ENV": os.fspath(environment.directory.absolute()),
    }


def stop(session: nox.Session, code: int) -> NoReturn:
    """End nox at once with a session's own exit code.

    nox answers 1 for any failed session and has no setting for it; it does not catch SystemExit.
    """
    session.warn(f"session {session.name} ends with exit code {code}: {MEANINGS.get(code, '?')}")
    raise SystemExit(code)
