"""The noxfile, run by a real nox, over modules that only report how they were called."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.shell.support import ROOT, clean_environment, run

SESSIONS = {
    *("fetch", "rebase", "build", "validate", "status", "doctor", "bench"),
    *("tests", "e2e", "lint"),
}
Nox = tuple[str, ...]


def read_calls(path: Path) -> list[list[str]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def processor_seconds() -> float:
    """What our children have used so far; wall time would depend on what else runs."""
    spent = os.times()
    return spent.children_user + spent.children_system


def test_lists_sessions_with_descriptions(nox: Nox) -> None:
    done = run(*nox, "--list", "--json", "-s", *SESSIONS)
    listed = json.loads(done.stdout)
    assert {each["session"] for each in listed} == SESSIONS
    assert all(20 < len(each["description"]) < 90 for each in listed)


def test_plain_nox_is_the_main_command(nox: Nox) -> None:
    done = run(*nox, "--list", "--json")
    assert [each["session"] for each in json.loads(done.stdout)] == ["rebase", "build", "validate"]


def test_noxfile_imports_fast_and_without_our_dependencies(nox: Nox) -> None:
    started = processor_seconds()
    done = run(nox[0], "-X", "importtime", *nox[1:], "--list")
    assert processor_seconds() - started < 1.0
    assert done.returncode == 0
    heavy = ("rich", "requests", "git.", "pypi_simple", "series", "validate", "upstream")
    imported = [line.split("|")[-1].strip() for line in done.stderr.splitlines() if "|" in line]
    assert not [name for name in imported if name.startswith(heavy)]


def test_main_command_runs_each_module_with_the_arguments(
    nox: Nox, checkout: Path, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    chosen = ("-s", "rebase", "build", "validate", "--", "--onto", "b 11063")
    done = run(*nox, *chosen, cwd=checkout, env={"CALLS": os.fspath(calls)})
    assert done.returncode == 0, done.stderr
    assert read_calls(calls) == [
        ["series", "rebase", "--onto", "b 11063"],
        ["validate", "build", "--onto", "b 11063"],
        ["validate", "run", "--onto", "b 11063"],
    ]


def test_results_on_stdout_messages_on_stderr(nox: Nox, checkout: Path, tmp_path: Path) -> None:
    env = {"CALLS": os.fspath(tmp_path / "calls"), "NO_COLOR": "1"}
    done = run(*nox, "-s", "status", cwd=checkout, env=env)
    assert done.stdout == "result of series\n"
    assert "message of series" in done.stderr


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 130])
def test_exit_code_of_the_session_is_that_of_nox(
    nox: Nox, checkout: Path, tmp_path: Path, code: int
) -> None:
    env = {"CALLS": os.fspath(tmp_path / "calls"), "CODE_series": str(code)}
    done = run(*nox, "-s", "status", cwd=checkout, env=env)
    assert done.returncode == code
    assert f"session status ends with exit code {code}: " in done.stderr


def test_first_failing_session_is_the_last_to_run(nox: Nox, checkout: Path, tmp_path: Path) -> None:
    env = {"CALLS": os.fspath(tmp_path / "calls"), "CODE_series": "5"}
    done = run(*nox, "-s", "rebase", "build", "validate", cwd=checkout, env=env)
    assert done.returncode == 5
    assert [call[0] for call in read_calls(tmp_path / "calls")] == ["series"]


def test_no_test_at_all_is_invalid_and_not_a_conflict(
    nox: Nox, checkout: Path, tmp_path: Path
) -> None:
    env = {"CALLS": os.fspath(tmp_path / "calls"), "CODE_pytest": "5"}
    assert run(*nox, "-s", "tests", cwd=checkout, env=env).returncode == 4


def test_pytest_gets_the_arguments_after_ours(nox: Nox, checkout: Path, tmp_path: Path) -> None:
    env = {"CALLS": os.fspath(tmp_path / "calls")}
    run(*nox, "-s", "tests", "e2e", "--", "-k", "mail", cwd=checkout, env=env)
    tests, e2e = read_calls(tmp_path / "calls")
    assert tests[:3] == ["pytest", "-m", "not e2e"]
    assert e2e == ["pytest", "-m", "e2e and not measures", "-k", "mail"]


def test_lint_runs_all_three_checks(nox: Nox, checkout: Path, tmp_path: Path) -> None:
    env = {"CALLS": os.fspath(tmp_path / "calls")}
    assert run(*nox, "-s", "lint", cwd=checkout, env=env).returncode == 0
    checks = [call[:2] for call in read_calls(tmp_path / "calls")]
    assert checks == [["ruff", "check"], ["ruff", "format"], ["mypy"]]


def test_python_settings_of_the_caller_do_not_reach_the_modules(
    nox: Nox, checkout: Path, tmp_path: Path
) -> None:
    (tmp_path / "series").mkdir()
    (tmp_path / "series" / "__main__.py").write_text("raise SystemExit(77)")
    env = {"CALLS": os.fspath(tmp_path / "calls"), "PYTHONPATH": os.fspath(tmp_path)}
    # -f from elsewhere: nox itself goes to the folder of the noxfile
    noxfile = ("-f", os.fspath(checkout / "noxfile.py"))
    assert run(*nox, *noxfile, "-s", "status", cwd=tmp_path, env=env).returncode == 0
    assert read_calls(tmp_path / "calls") == [["series", "status"]]


def test_warm_start_costs_less_than_a_second(nox: Nox, checkout: Path, tmp_path: Path) -> None:
    started = processor_seconds()
    run(*nox, "-s", "rebase", cwd=checkout, env={"CALLS": os.fspath(tmp_path / "calls")})
    assert processor_seconds() - started < 1.0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_session_clean_up(
    nox: Nox, checkout: Path, tmp_path: Path, how: signal.Signals
) -> None:
    body = """
        import pathlib, signal, sys, time
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as upstream.process does
        pathlib.Path({0!r}).write_text("started")
        try:
            time.sleep(30)
        except KeyboardInterrupt:
            time.sleep(1.5)  # longer than nox would wait by itself
            pathlib.Path({0!r}).write_text("cleaned up")
            sys.exit(130)
    """
    mark = tmp_path / "mark"
    (checkout / "upstream" / "doctor.py").write_text(
        "\n".join(line[8:] for line in body.format(os.fspath(mark)).splitlines())
    )
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    child = subprocess.Popen(
        (*nox, "-s", "doctor", "status"),
        cwd=checkout,
        env=clean_environment({"CALLS": os.fspath(tmp_path / "calls")}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(child.pid, how)
    _, messages = child.communicate(timeout=20)
    assert child.returncode == 130
    assert mark.read_text() == "cleaned up"
    assert "Traceback" not in messages
    assert not (tmp_path / "calls").exists()


def test_launcher_asks_for_the_nox_that_the_noxfile_needs() -> None:
    launcher = (ROOT / "ci" / "launcher.py").read_text()
    noxfile = (ROOT / "noxfile.py").read_text()
    needed = noxfile.split("nox.needs_version = ")[1].split('"')[1]
    assert f'NOX = "nox{needed}"' in launcher
