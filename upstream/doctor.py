"""Look for what the machine lacks: `python -m upstream.doctor`, or `nox -s doctor`.

Every probe runs the real thing (a compiler compiles, a provider lists its versions) and names the
remedy. Modules that need git or the network are imported late: they may be what is missing.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.text import Text

from upstream import process
from upstream.edge import run_command, stdout_console, write_json, write_message
from upstream.errors import CommandError, ExitCode, LabError
from upstream.lab import Lab, open_lab
from upstream.version import Version

State = Literal["ok", "warning", "missing"]
COLOURS = {"ok": "green", "warning": "yellow", "missing": "bold red"}
MINIMUM_PYTHON = (3, 11)
NEEDED_MEGABYTES = 4000  # one build tree, the binaries of a stack, downloads and the repository
ROOT_VERSIONS = "toolchain-versions.txt"  # ci/toolchain_root.sh writes it last
DECIDING = ("glslc ", "mesa-vulkan-drivers ", "vulkan-validationlayers ")
SECONDS = 15.0  # for a program that says its version or compiles ten lines
PROGRAM = """
#include <filesystem>
#include <thread>
int main() {
    std::thread worker([] { std::filesystem::current_path(); });
    worker.join();
}
"""


@dataclass(frozen=True)
class Finding:
    """What one probe found; "warning" is for what the tool can do without."""

    name: str
    state: State
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Answer:
    """What a provider of upstream source said: its versions, or why it said nothing."""

    name: str
    versions: tuple[Version, ...]
    failure: str = ""


def examine(args: argparse.Namespace) -> int:
    """Run every probe, show the findings; exit code 3 when something needed is missing."""
    findings = list(run_probes(args))
    missing = [finding.name for finding in findings if finding.state == "missing"]
    if args.json:
        write_json({"ok": not missing, "findings": [asdict(finding) for finding in findings]})
    else:
        show(findings)
    if missing:
        write_message(f"error: missing: {', '.join(missing)}")
    return ExitCode.ENVIRONMENT if missing else ExitCode.OK


def run_probes(args: argparse.Namespace) -> Iterator[Finding]:
    """The findings in the order of the report."""
    yield find_python()
    yield find_git()
    try:
        lab = open_lab()
    except LabError as error:
        yield Finding("lab folder", "missing", error.what, error.remedy)
        return
    yield find_compiler("C++ compiler", ("CXX", "c++", "g++", "clang++"), lab)
    yield find_compiler("C compiler", ("CC", "cc", "gcc", "clang"), lab)
    yield from (find_build_tool(name) for name in ("cmake", "ninja"))
    yield find_ccache()
    yield find_shader_tools(lab)
    yield find_folder(lab)
    yield find_space(lab, args.need)
    yield find_locks(lab)
    yield from find_sources(lab, args)


def show(findings: Sequence[Finding]) -> None:
    """One line per finding, the remedy below it."""
    console = stdout_console()
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        state = Text(f"{finding.state:8}", style=COLOURS[finding.state])
        line = Text.assemble(state, f"{finding.name:{width}}  {finding.detail}")
        console.print(line, soft_wrap=True)
        if finding.remedy:
            console.print(Text(f"{'':8}{'':{width}}  next: {finding.remedy}"), soft_wrap=True)


# -- programs -------------------------------------------------------------------------------


def find_python() -> Finding:
    """The Python that runs this."""
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info >= MINIMUM_PYTHON:
        return Finding("python", "ok", found)
    return Finding("python", "missing", f"{found} is too old", "install Python 3.11 or newer")


def find_git() -> Finding:
    """A git that merges in memory."""
    remedy = "install git 2.38 or newer from your distribution"
    if shutil.which("git") is None:
        return Finding("git", "missing", "not on PATH", remedy)
    from upstream.git import git_version, require_git

    try:
        require_git()
    except LabError as error:
        return Finding("git", "missing", error.what, remedy)
    return Finding("git", "ok", f"{'.'.join(map(str, git_version()))} ({shutil.which('git')})")


def find_compiler(name: str, candidates: Sequence[str], lab: Lab) -> Finding:
    """The compiler that a build would take (CXX or CC first), made to compile a program."""
    variable, *usual = candidates
    named = os.environ.get(variable)
    found = next(filter(None, map(shutil.which, [named] if named else usual)), None)
    remedy = f"install g++ or clang from your distribution, or name one in {variable}"
    if found is None:
        return Finding(name, "missing", f"not on PATH: {named or ', '.join(usual)}", remedy)
    try:
        compile_program(found, "c++" if variable == "CXX" else "c", lab)
    except CommandError as error:
        return Finding(name, "missing", f"{found} compiles nothing: {first_error(error)}", remedy)
    return Finding(name, "ok", f"{first_line(found)} ({found})")


def compile_program(compiler: str, language: str, lab: Lab) -> None:
    """Compile and link a small program; headers and libraries are packages of their own."""
    cxx = ("-std=c++17", "-pthread")
    options = cxx if language == "c++" else ()
    source = PROGRAM if language == "c++" else "#include <stdio.h>\nint main(void) { return 0; }\n"
    output = lab.scratch / f"doctor-{os.getpid()}.out"
    command = (compiler, *options, "-x", language, "-", "-o", output)
    try:
        process.run(command, stdin=source.encode(), timeout=SECONDS * 4)
    finally:
        output.unlink(missing_ok=True)


def first_error(error: CommandError) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = error.failure.stderr_tail.splitlines() or [f"exit code {error.failure.code}"]
    return next((line for line in lines if "error" in line), lines[0])


def find_build_tool(name: str) -> Finding:
    """cmake or ninja, of the session's environment before PATH."""
    beside = os.fspath(Path(sys.executable).parent)
    found = shutil.which(name, path=beside) or shutil.which(name)
    if found is None:
        return Finding(
            name, "missing", "neither in the environment nor on PATH", "run: nox -s doctor"
        )
    try:
        return Finding(name, "ok", f"{first_line(found)} ({found})")
    except LabError as error:
        return Finding(name, "missing", error.what, "remove .nox/lab, then run: nox -s doctor")


def find_ccache() -> Finding:
    """ccache, which saves compile time and is not needed."""
    found = shutil.which("ccache")
    if found is None:
        remedy = "install ccache from your distribution (optional: rebuilds become faster)"
        return Finding("ccache", "warning", "not on PATH; builds work without it", remedy)
    return Finding("ccache", "ok", f"{first_line(found)} ({found})")


def find_shader_tools(lab: Lab) -> Finding:
    """The toolchain roots, with which shaders are compiled and Vulkan runs in software."""
    name, usual = "shader tools", ("trixie", "trixie-backports")
    lists = {suite: lab.root / "toolchain" / suite / ROOT_VERSIONS for suite in usual}
    found = {suite: path.read_text() for suite, path in lists.items() if path.is_file()}
    said = "; ".join(f"{suite}: {', '.join(pick_versions(text))}" for suite, text in found.items())
    missing = [f"nox -s toolchain -- --suite {each}" for each in usual if each not in found]
    if not missing:
        return Finding(name, "ok", said)
    remedy = f"as root: {', '.join(missing)} (optional: nox -s isa and the Vulkan checks take it)"
    return Finding(name, "warning", said or "no toolchain root is here yet", remedy)


def pick_versions(text: str) -> list[str]:
    """Of a root's list of packages those that decide what a shader check says."""
    return [line for line in text.splitlines() if line.startswith(DECIDING)]


def first_line(program: str) -> str:
    """The first line of what a program says about its version."""
    return process.run((program, "--version"), timeout=SECONDS).text.split("\n", 1)[0].strip()


# -- the lab folder -------------------------------------------------------------------------


def find_folder(lab: Lab) -> Finding:
    """The folder with everything the tool keeps, and its size."""
    if not os.access(lab.scratch, os.W_OK):
        detail = f"{lab.root} cannot be written"
        return Finding(
            "lab folder", "missing", detail, "set LAB_DIR to a folder that you can write"
        )
    return Finding("lab folder", "ok", f"{lab.root}, {count_megabytes(lab.root)} MB")


def count_megabytes(root: Path) -> int:
    """Disk space of a folder; a file with several names (hard links) counts once."""
    sizes: dict[tuple[int, int], int] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                found = (Path(folder) / name).lstat()
            except FileNotFoundError:
                continue  # another run is at work
            sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(sizes.values()) // 1_000_000


def find_space(lab: Lab, needed: int) -> Finding:
    """Whether the disk has room for what is not there yet."""
    free = shutil.disk_usage(lab.root).free // 1_000_000
    wanted = max(needed - count_megabytes(lab.root), needed // 4)
    detail = f"{free} MB free in {lab.root}, about {wanted} MB are needed"
    if free >= wanted:
        return Finding("disk space", "ok", detail)
    remedy = "free some space, or set LAB_DIR to a larger disk"
    return Finding("disk space", "missing", detail, remedy)


def find_locks(lab: Lab) -> Finding:
    """Which locks other runs hold now; a dead process holds none."""
    held = [path.name for path in sorted(lab.root.glob("*.lock")) if is_held(path)]
    if not held:
        return Finding("locks", "ok", "none held")
    remedy = "another run is at work: wait until it ends"
    return Finding("locks", "warning", f"held: {', '.join(held)}", remedy)


def is_held(path: Path) -> bool:
    """Whether a process holds the lock; asks for a shared one, for a moment."""
    with path.open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


# -- upstream source ------------------------------------------------------------------------


def find_sources(lab: Lab, args: argparse.Namespace) -> Iterator[Finding]:
    """Both providers; each is optional while the other one answers."""
    asks = (lambda: ask_remote(lab, args.remote), lambda: ask_index(lab))
    with ThreadPoolExecutor() as pool:
        answers = (
            []
            if args.offline
            else list(pool.map(ask_safely, ("git remote", "package index"), asks))
        )
    held = imported_versions(lab)
    usable = any(answer.versions for answer in answers) or bool(held)
    yield from (judge_answer(answer, usable) for answer in answers)
    yield judge_imported(held, usable)


def ask_safely(name: str, ask: Callable[[], list[Version]]) -> Answer:
    """Ask a provider; a failure is an answer."""
    try:
        return Answer(name, tuple(ask()))
    except LabError as error:
        return Answer(name, (), " ".join(error.what.split()))
    except ImportError as error:  # GitPython does not import where git is missing
        return Answer(name, (), f"cannot ask: {str(error).splitlines()[0]}")


def ask_remote(lab: Lab, url: str | None) -> list[Version]:
    """The versions of the git remote, with a short time limit."""
    from upstream.git import Git
    from upstream.remote import ASK_SECONDS, DEFAULT_REMOTE, RemoteProvider

    git = Git(lab.repository)
    git.create()
    url = os.fspath(Path(url).absolute()) if url and Path(url).exists() else url or DEFAULT_REMOTE
    return RemoteProvider(lab, git, url, ASK_SECONDS).list_versions()


def ask_index(lab: Lab) -> list[Version]:
    """The versions that the package index has snapshots of."""
    from upstream.git import Git
    from upstream.snapshots import SnapshotProvider

    return SnapshotProvider(lab, Git(lab.repository)).list_versions()


def imported_versions(lab: Lab) -> list[Version]:
    """The versions in the lab's repository, which need no network."""
    if shutil.which("git") is None or not lab.repository.exists():
        return []
    from upstream.git import Git
    from upstream.store import read_held

    try:
        return list(read_held(Git(lab.repository)))
    except LabError:
        return []


def judge_answer(answer: Answer, usable: bool) -> Finding:
    """A provider that does not answer is missing only when nothing replaces it."""
    if answer.versions:
        detail = f"{len(answer.versions)} versions, newest {max(answer.versions)}"
        return Finding(answer.name, "ok", detail)
    detail = answer.failure or "has no version of llama.cpp"
    if usable:
        remedy = "nothing, while another source answers (--upstream names one)"
        return Finding(answer.name, "warning", detail, remedy)
    remedy = "check the network: proxy, certificates, name servers"
    return Finding(answer.name, "missing", detail, remedy)


def judge_imported(held: Sequence[Version], usable: bool) -> Finding:
    """What works without any network."""
    if held:
        listed = ", ".join(map(str, held[-5:]))
        return Finding("imported", "ok", f"{len(held)} versions here: {listed}")
    remedy = "run: nox -s fetch" if usable else "connect to the network, then run: nox -s fetch"
    return Finding("imported", "warning", "no upstream version is here yet", remedy)


def build_parser() -> argparse.ArgumentParser:
    """The command line of the doctor."""
    parser = argparse.ArgumentParser(prog="python -m upstream.doctor", description=examine.__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--remote", metavar="URL", help="another git remote than upstream's own")
    parser.add_argument("--offline", action="store_true", help="do not ask the network")
    parser.add_argument(
        "--need",
        type=int,
        default=NEEDED_MEGABYTES,
        metavar="MB",
        help="disk space to ask for (default: %(default)s)",
    )
    parser.set_defaults(run=examine)
    return parser


if __name__ == "__main__":
    run_command(build_parser(), sys.argv[1:])
