"""The patches' own checks: real scripts on real builds of a tiny project."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_checks_on_stand_ins import open_validation
from tiny_project import BASE, Change, make_builder, make_stack

from series.manifest import load_series
from series.model import Claim
from upstream.errors import UsageError
from upstream.lab import Lab
from validate import teeth
from validate.build import StepBuild, build_stack
from validate.checks import _bite, _open_own_check, _pair
from validate.room import Launch
from validate.teeth import find_script
from validate.verdict import CheckResult, Verdict
from validate.vulkan.device import Device
from validate.vulkan.kit import Kit
from validate.vulkan.lane import Lane

SERIES = load_series(Path(__file__).parents[2] / "series")
HEAD = """\
import argparse, json, pathlib, subprocess, sys
parser = argparse.ArgumentParser()
for name in ("--bin", "--source", "--work"):
    parser.add_argument(name, type=pathlib.Path, required=True)
parser.add_argument("--root", default=None)
args = parser.parse_args()
(args.work / "scratch").write_text("may be written")
with (pathlib.Path(__file__).parent.parent / "runs").open("a") as runs:
    runs.write("x")
def answer(passed, cases=1, code=None, **more):
    print(json.dumps({"check": "c", "cases": cases, "passed": passed} | more))
    sys.exit(code if code is not None else (0 if passed else 1))
said = subprocess.run([args.bin / "app"], capture_output=True, text=True).stdout
"""
GOOD = HEAD + "answer(said.split()[-1] == '43', cases=['answer'])\n"
READS_SOURCE = HEAD + "answer('6 * 7 + 1' in (args.source / 'models/answer.cpp').read_text())\n"
TOOTHLESS = HEAD + "answer('unknown' in said)\n"
RED = HEAD + "answer(False, reason='still wrong')\n"
CRASHES_ON_PARENT = HEAD + "assert '43' in said\nanswer(True)\n"
NO_CASES = HEAD + "answer('43' in said, cases=[])\n"
LIES = HEAD + "answer('43' not in said, code=0 if '43' in said else 1)\n"
NO_DOCUMENT = HEAD + "sys.exit(0 if '43' in said else 1)\n"
NEEDS_ROOT = (
    HEAD + "answer(args.root is not None and '43' in said, code=None if args.root else 3,\n"
)
NEEDS_ROOT += "    reason='no toolchain: give --root')\n"
NEEDS_VULKAN = (
    HEAD
    + """
import os
told = os.environ["LAB_VULKAN"]
if not told:
    answer(False, code=3, reason="no Vulkan")
place = json.loads(told)
said = subprocess.run([*place["start"], place["bin"] + "/app"], capture_output=True, text=True)
given = place["variables"], place["device"], place["compiler"], place["headers"][-11:]
answer("43" in said.stdout and given == ({"A": "b"}, "Vulkan0", "/usr/bin/cc", "kit/include"))
"""
)
INVALID = HEAD + "answer(None, code=4, reason='measured nothing')\n"
HELPED = HEAD + "from helper import wanted\nanswer(wanted in said)\n"
ANSWER = Change("0001-answer.patch", {"models/answer.cpp": "int answer() { return 6 * 7 + 1; }\n"})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, list[StepBuild]]:
    lab = Lab(tmp_path_factory.mktemp("teeth") / "lab")
    return lab, build_stack(make_builder(lab), make_stack(lab, [ANSWER], BASE))


def judge(
    built: tuple[Lab, list[StepBuild]],
    series: Path,
    script: str,
    root: Path | None = None,
    lane: Lane | None = None,
) -> CheckResult:
    (series / "checks").mkdir(exist_ok=True)
    (series / "checks" / "own.py").write_text(script)
    lab, builds = built
    validation = replace(open_validation(lab, {}, series), root=root)
    own = _open_own_check(validation, Claim(check="own.py"))
    return _bite(validation.room, own, _pair(builds)[0], lane)


@pytest.mark.parametrize(
    ("script", "verdict", "words"),
    [
        (GOOD, Verdict.PASS, "1 cases, red on the parent"),
        (READS_SOURCE, Verdict.PASS, "red on the parent"),
        (TOOTHLESS, Verdict.FAIL, "toothless"),
        (RED, Verdict.FAIL, "does not hold, 1 cases: still wrong"),
        (CRASHES_ON_PARENT, Verdict.INVALID, "on the parent"),
        (NO_CASES, Verdict.INVALID, "cases 0"),
        (LIES, Verdict.INVALID, "passed False"),
        (NO_DOCUMENT, Verdict.INVALID, "passed None"),
        (NEEDS_ROOT, Verdict.NOT_RUN, "no toolchain"),
        (INVALID, Verdict.INVALID, "measured nothing"),
        ("raise SystemExit(99)", Verdict.INVALID, "says no more"),
    ],
)
def test_a_check_needs_teeth(
    built: tuple[Lab, list[StepBuild]], tmp_path: Path, script: str, verdict: Verdict, words: str
) -> None:
    found = judge(built, tmp_path, script)
    assert found.verdict is verdict, found
    assert words in found.detail


def test_the_toolchain_is_handed_on(built: tuple[Lab, list[StepBuild]], tmp_path: Path) -> None:
    assert judge(built, tmp_path, NEEDS_ROOT, root=tmp_path).verdict is Verdict.PASS


def test_a_series_kept_elsewhere_is_told_where_the_shader_tool_is(
    built: tuple[Lab, list[StepBuild]], tmp_path: Path
) -> None:
    script = HEAD + (
        "import os\n"
        "tool = pathlib.Path(os.environ['LAB_PIPELINE_STATS'])\n"
        "answer(tool.is_file() and '43' in said, reason=str(tool))\n"
    )
    assert judge(built, tmp_path, script).verdict is Verdict.PASS


def test_an_answer_is_kept_until_the_script_or_its_helper_changes(
    built: tuple[Lab, list[StepBuild]], tmp_path: Path
) -> None:
    (tmp_path / "checks").mkdir()
    helper = tmp_path / "checks" / "helper.py"
    helper.write_text("wanted = ' 43'\n")
    assert not judge(built, tmp_path, HELPED).cached
    assert judge(built, tmp_path, HELPED).cached
    assert (tmp_path / "runs").read_text() == "xx"  # the step and its parent, once each
    helper.write_text("wanted = 'unknown'\n")
    found = judge(built, tmp_path, HELPED)
    assert not found.cached
    assert found.verdict is Verdict.FAIL


def test_a_missing_environment_is_asked_again(
    built: tuple[Lab, list[StepBuild]], tmp_path: Path
) -> None:
    judge(built, tmp_path, NEEDS_ROOT)
    judge(built, tmp_path, NEEDS_ROOT)
    assert (tmp_path / "runs").read_text() == "xx"


def test_the_work_folder_is_removed(built: tuple[Lab, list[StepBuild]], tmp_path: Path) -> None:
    judge(built, tmp_path, GOOD)
    assert not list(built[0].scratch.glob("check-*"))


@pytest.mark.parametrize("name", ["missing.py", "../outside.py", ""])
def test_a_claim_names_a_file_below_checks(tmp_path: Path, name: str) -> None:
    (tmp_path / "checks").mkdir()
    (tmp_path / "outside.py").write_text("")
    with pytest.raises(UsageError, match="no file below"):
        find_script(tmp_path, name)


def test_a_check_that_hangs_is_invalid(
    built: tuple[Lab, list[StepBuild]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from upstream.errors import InvalidMeasurement

    monkeypatch.setattr(teeth, "SECONDS", 0.5)
    with pytest.raises(InvalidMeasurement, match="no answer within"):
        judge(built, tmp_path, "import time; time.sleep(60)\n")


@pytest.mark.parametrize("name", sorted({c.check for c in SERIES.claims.values() if c.check}))
def test_the_checks_of_the_series_take_what_they_are_given(name: str) -> None:
    script = SERIES.directory / "checks" / name
    done = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=True
    )
    assert [o for o in ("--bin", "--source", "--work", "--root") if o not in done.stdout] == []


def test_a_step_built_with_vulkan_is_told_and_another_driver_asks_again(
    built: tuple[Lab, list[StepBuild]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_VULKAN", "somebody else's")
    lane = Lane(
        Kit("a stand-in", "identity", tmp_path / "kit/glslc", (), None, None),
        builds={build.name: build for build in built[1]},
        compiler=Path("/usr/bin/cc"),
    )
    assert judge(built, tmp_path, NEEDS_VULKAN).verdict is Verdict.NOT_RUN
    for driver in ("one", "another"):
        launch = Launch(("env",), {"A": "b"}, "Vulkan0", identity=driver)
        lane = replace(lane, device=Device("Vulkan0", "llvmpipe", launch))
        found = judge(built, tmp_path, NEEDS_VULKAN, lane=lane)
        assert (found.verdict, found.cached) == (Verdict.PASS, False), found
    assert judge(built, tmp_path, NEEDS_VULKAN, lane=lane).cached
