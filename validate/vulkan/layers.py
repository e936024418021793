"""One pass with the validation layers: what the step's use of Vulkan is told that its parent's
is not.

VK_LAYER_KHRONOS_validation prints a message for every rule that is broken, known by its VUID. A
message that the parent gets too is not the step's doing. That the layer was there at all is read
from the loader's own messages: a layer that is not found is no error to it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from upstream.errors import InvalidMeasurement
from validate.artifacts import StepBinaries
from validate.backend_ops import TARGET, parse_ops
from validate.report import shorten
from validate.room import Launch, Room
from validate.verdict import CheckResult, Verdict
from validate.vulkan.cases import Interest, choose_cases
from validate.vulkan.device import LAYER
from validate.vulkan.ops import list_both

CHECK = "vulkan validation"
LIMIT = 8
SECONDS = 1800.0
_MESSAGE = re.compile(
    r"^(?:Validation )?(?P<level>Error|Warning|Performance Warning): \[ ?(?P<old>[\w-]+) ?\]"
    r"|^(?P<new>[\w-]+)\((?P<kind>ERROR|WARN(?:ING)?|PERF)[^)]*\)",
    re.MULTILINE,
)
_INSERTED = re.compile(rf"Insert(?:ed)? (?:instance|device) layer \"?{LAYER}")


def parse_messages(log: str) -> dict[str, int]:
    """How often each rule was broken: its VUID, or the layer's own name for it."""
    return dict(Counter(match["old"] or match["new"] for match in _MESSAGE.finditer(log)))


def require_layer(said: str) -> None:
    """Refuse a run of which the loader did not say that it inserted the layer."""
    if not _INSERTED.search(said):
        raise InvalidMeasurement(
            f"the loader did not insert {LAYER}: nothing would be found",
            remedy="install vulkan-validationlayers where the driver is, or run: nox -s toolchain",
        )


def check_layers(
    room: Room, layered: Launch, step: StepBinaries, parent: StepBinaries, interest: Interest
) -> CheckResult:
    """Run some cases of both under the layer; FAIL for a message that only the step gets."""
    if step.fingerprint(TARGET) == parent.fingerprint(TARGET):
        return CheckResult(CHECK, Verdict.IDENTICAL, cached=True)
    known = [list_both(room, each) for each in (step, parent)]
    both = {name: good for name, good in known[0].items() if known[1].get(name)}
    cases = choose_cases(both, interest, limit=LIMIT).cases
    if not cases:
        raise InvalidMeasurement("no case to run under the validation layer")
    there = replace(room, launch=layered)
    found = [_run(there, each, cases) for each in (step, parent)]
    return judge_messages(found[0][0], found[1][0], cached=all(cached for _, cached in found))


def judge_messages(
    after: dict[str, Any], before: dict[str, Any], *, cached: bool = False
) -> CheckResult:
    """Compare the rules, not how often each is broken: lavapipe's threads change that."""
    facts = {"step": after, "parent": before}
    new = sorted(after["messages"].keys() - before["messages"].keys())
    if after["crashed"] and not before["crashed"]:
        detail = f"crashes under {LAYER} at or after {after['crashed']}"
        return CheckResult(CHECK, Verdict.FAIL, detail, facts, cached)
    if new:
        return CheckResult(CHECK, Verdict.FAIL, f"new messages: {shorten(new)}", facts, cached)
    same = len(after["messages"])
    known = f", {same} known to the parent too" if same else ""
    detail = f"{after['executed']} cases, no new message{known}"
    return CheckResult(CHECK, Verdict.PASS, detail, facts, cached)


def _run(room: Room, binaries: StepBinaries, cases: Sequence[str]) -> tuple[dict[str, Any], bool]:
    arguments = ("test", "-b", room.launch.device, "-o", ",".join(cases))
    inputs = {
        "check": CHECK,
        "binaries": binaries.fingerprint(TARGET),
        "arguments": arguments,
        **room.launch.inputs,
    }

    def produce() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(dir=room.lab.scratch) as folder:
            log = Path(folder, "messages")
            done = _into(room, log).run(binaries, TARGET, *arguments, seconds=SECONDS)
            messages = log.read_text("utf-8", "replace") if log.exists() else ""
        require_layer(done.stderr.decode("utf-8", "replace"))
        run = parse_ops(done.text, done.code, room.launch.device)
        counts = parse_messages(messages)
        return {"messages": counts, "executed": run.executed, "crashed": run.crashed}

    return room.cache.obtain(inputs, produce)


def _into(room: Room, log: Path) -> Room:
    """The layer writes to a file: on standard output it would break the program's own lines."""
    variables = {**room.launch.variables, "VK_LAYER_LOG_FILENAME": os.fspath(log)}
    return replace(room, launch=replace(room.launch, variables=variables))
