"""The patch's own check: green on the patch, red on its parent; green on both is toothless.

A check is a script below series/checks/:

    python SCRIPT --bin STEPBIN --source SOURCEDIR --work DIR [--root TOOLCHAIN_ROOT]

It exits 0 (holds), 1 (does not hold), 3 (the environment is missing) or 4 (measured nothing) and
prints one JSON document with "check", "cases" (a number or a list), "passed", and where there is
something to say "reason". A step that was built with Vulkan is told in LAB_VULKAN (VulkanPrograms).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from upstream import process
from upstream.errors import CommandError, ExitCode, InvalidMeasurement, UsageError
from upstream.process import Completed
from validate.artifacts import StepBinaries
from validate.build import Plan
from validate.room import ANY_CODE, SECONDS, Room, clean, last_line
from validate.source_tree import SourceTree
from validate.verdict import CheckResult, Verdict
from validate.vulkan.programs import VARIABLE as VULKAN
from validate.vulkan.programs import VulkanPrograms

CHECK = "own check"
HOLDS, DOES_NOT = int(ExitCode.OK), int(ExitCode.GATE_FAILED)


@dataclass(frozen=True)
class OwnCheck:
    """A script of the series, the source tree it may read, and the toolchain it may build with."""

    script: Path
    source: SourceTree
    root: Path | None = None

    @property
    def digest(self) -> str:
        """A hash of all files beside the script: checks share helpers."""
        hasher = hashlib.sha256(f"{self.script.name}\0{self.root}\0".encode())
        for path in sorted(self.script.parent.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(self.script.parent).as_posix()
                content = path.read_bytes()
                hasher.update(f"{name}\0{len(content)}\0".encode() + content)
        return hasher.hexdigest()


@dataclass(frozen=True)
class Bite:
    """What a check said about one tree: exit code, number of cases, its document, last words."""

    code: int
    cases: int
    document: Mapping[str, Any]
    said: str


@dataclass(frozen=True)
class Tree:
    """One of the two that a check is run on."""

    plan: Plan
    binaries: StepBinaries
    vulkan: VulkanPrograms | None = None


def find_script(directory: Path, name: str) -> Path:
    """The script that a claim names. Raises UsageError when it is not below series/checks/."""
    folder = (directory / "checks").resolve()
    script = (folder / name).resolve()
    if not script.is_relative_to(folder) or not script.is_file():
        raise UsageError(
            f"the check '{name}' is no file below {directory / 'checks'}",
            remedy=f"mend the check entry in {directory / 'series.toml'}",
        )
    return script


def check_teeth(room: Room, own: OwnCheck, step: Tree, parent: Tree) -> CheckResult:
    """Run the script on the step and on its parent."""
    after, cached = bite(room, own, step)
    if after.code != HOLDS:
        return _refuse(after, cached=cached)
    before, found = bite(room, own, parent)
    return judge_teeth(after, before, cached=cached and found)


def judge_teeth(after: Bite, before: Bite, *, cached: bool = False) -> CheckResult:
    """PASS only for green with the patch and red without it."""
    facts = {"step": dict(after.document), "parent": dict(before.document)}
    if before.code == HOLDS:
        detail = (
            "toothless: it holds without the patch too, or upstream made the patch "
            "unnecessary (docs/how-to/retire-a-patch.md)"
        )
        return CheckResult(CHECK, Verdict.FAIL, detail, facts, cached)
    if before.code != DOES_NOT:
        return _refuse(before, where="on the parent: ", cached=cached)
    detail = f"{after.cases} cases, red on the parent"
    return CheckResult(CHECK, Verdict.PASS, detail, facts, cached)


def bite(room: Room, own: OwnCheck, tree: Tree) -> tuple[Bite, bool]:
    """The answer of the script for one tree, and whether it was found in the cache.

    A missing environment and an invalid run are not stored: both may be mended.
    """
    inputs = {"check": CHECK, "script": own.digest, "step": tree.plan.key}
    inputs |= tree.vulkan.inputs if tree.vulkan else {}
    try:
        found, cached = room.cache.obtain(inputs, lambda: _produce(room, own, tree))
    except _NotStored as unsettled:
        return unsettled.bite, False
    return Bite(**found), cached


def read_bite(done: Completed) -> Bite:
    """Judge one run. A crash of Python exits 1 as well, so the document has to agree."""
    try:
        document = json.loads(done.stdout or b"{}")
        cases, passed = _count(document.get("cases")), document.get("passed")
    except (ValueError, AttributeError, TypeError):
        document, cases, passed = {}, 0, None
    said = last_line(done.stdout if not document else b"", done.stderr)
    said = next(
        (document[key] for key in ("reason", "detail") if isinstance(document.get(key), str)), said
    )
    code = done.code
    if code in (HOLDS, DOES_NOT) and (not cases or passed is not (code == HOLDS)):
        said = f"exit code {code}, cases {cases}, passed {passed}: {said}"
        code = int(ExitCode.INVALID)
    return Bite(code, cases, document, said)


class _NotStored(Exception):
    def __init__(self, bite: Bite) -> None:
        super().__init__(bite.said)
        self.bite = bite


def _produce(room: Room, own: OwnCheck, tree: Tree) -> dict[str, Any]:
    own.source.move(tree.plan.tree)
    with TemporaryDirectory(dir=room.lab.scratch, prefix="check-") as work:
        answer = read_bite(_run_script(own, tree, Path(work)))
    if answer.code not in (HOLDS, DOES_NOT):
        raise _NotStored(answer)
    return vars(answer)


def _run_script(own: OwnCheck, tree: Tree, work: Path) -> Completed:
    command: list[str | os.PathLike[str]] = [sys.executable, own.script]
    command += ["--bin", tree.binaries.folder, "--source", own.source.folder, "--work", work]
    command += ["--root", own.root] if own.root else []
    # said, not found from the script's place: a series may be kept anywhere (--series)
    tool = {"LAB_PIPELINE_STATS": str(Path(__file__).parent / "isa" / "pipeline_stats.c")}
    env = clean(os.environ) | {"PYTHONDONTWRITEBYTECODE": "1", VULKAN: ""} | tool
    env |= {VULKAN: tree.vulkan.told} if tree.vulkan else {}
    try:
        return process.run(command, cwd=work, env=env, timeout=SECONDS, ok=ANY_CODE)
    except CommandError as error:
        raise InvalidMeasurement(f"{own.script.name}: {error.what}") from error


def _refuse(answer: Bite, *, where: str = "", cached: bool = False) -> CheckResult:
    verdicts = {DOES_NOT: Verdict.FAIL, int(ExitCode.ENVIRONMENT): Verdict.NOT_RUN}
    verdict = verdicts.get(answer.code, Verdict.INVALID)
    said = f"{where}{answer.said}"
    if verdict is Verdict.FAIL:
        said = f"{where}does not hold, {answer.cases} cases: {answer.said}"
    return CheckResult(CHECK, verdict, said, {"document": dict(answer.document)}, cached)


def _count(cases: object) -> int:
    if isinstance(cases, list | dict):
        return len(cases)
    return int(cases) if isinstance(cases, int | str) else 0
