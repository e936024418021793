"""`nox -s retire` on a miniature upstream: three signs, the record, what upstream took back.

The drop-checks are real scripts that read the real source tree of each version.
"""

from __future__ import annotations

import io
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import series.__main__ as series_main
from tests.series.lab import ROOT, Lab, Result, run_child
from tests.series.local_api import LocalApi, serve_api
from tests.series.miniature import Miniature, create_upstream, lines, run_git, write_series
from upstream.edge import report_error
from upstream.errors import LabError
from validate.landing.__main__ import build_parser
from validate.landing.drop_check import needs_programs, needs_vulkan

FIX = {"a.c": lines("a", changes={9: "a line 9 fixed"})}
OWN = {"b.c": lines("b", changes={9: "b line 9 ours"})}
AGAIN = {"b.c": lines("b", changes={9: "b line 9 ours again"})}
CHECK = """\
import argparse, json, pathlib, sys
parser = argparse.ArgumentParser()
for name in ("--bin", "--source", "--work", "--root"):
    parser.add_argument(name, type=pathlib.Path)
args = parser.parse_args()
text = "".join(path.read_text() for path in sorted(args.source.glob("*.c")))
passed = {condition}
print(json.dumps({{"check": "c", "cases": 1, "passed": passed}}))
sys.exit(0 if passed else 1)
"""
FIXED, ELSEWHERE, ALWAYS = "'9 fixed' in text", "'instead' in text or 'ours' in text", "True"


class RetireLab(Lab):
    """The retire command on one series, inside this process: starting Python takes longer."""

    def retire(self, *args: str) -> Result:
        return self._call(build_parser(), self.words(*args))

    def rebase(self, *args: str) -> Result:
        return self._call(series_main.build_parser(), ("rebase", *self.words(*args)))

    def words(self, *args: str) -> tuple[str, ...]:
        where = ("--upstream", "remote", "--remote", self.remote, "--series", str(self.series))
        return (*where, *args)

    def _call(self, parser: ArgumentParser, argv: Sequence[str]) -> Result:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in ({"LAB_DIR": str(self.folder)} | dict(self.env)).items():
                patch.setenv(name, value)
            args = parser.parse_args(argv)
            try:
                code = args.run(args)
            except LabError as error:
                code = report_error(error)
        return Result(int(code), out.getvalue(), err.getvalue())

    def signs(self, *args: str) -> dict[str, dict[str, object]]:
        """What each patch's signs say, by patch."""
        found = self.retire("--json", *args).document()["patches"]
        return {p["patch"]: {n: s["says"] for n, s in p["signs"].items()} for p in found}

    def manifest(self) -> dict[str, object]:
        return tomllib.loads((self.series / "series.toml").read_text())


@pytest.fixture
def own(tmp_path: Path) -> Miniature:
    """b2 has the fix of a.c as it is; b3 does b.c's in another file; b4 takes the fix back."""
    upstream = create_upstream(tmp_path / "upstream.git")
    upstream.release("b1", {"a.c": lines("a"), "b.c": lines("b"), "c.c": lines("c")})
    upstream.release("b2", FIX)
    upstream.release("b3", {"c.c": "done instead\n" + lines("c")})
    upstream.release("b4", {"a.c": lines("a")})
    return upstream


@pytest.fixture
def api() -> Iterator[LocalApi]:
    with serve_api() as served:
        yield served


@pytest.fixture
def lab(own: Miniature, tmp_path: Path, api: LocalApi) -> RetireLab:
    """`fix`, whose mail names its pull request, and `own`; each with a check."""
    made = own.patches("b1", ("fix.patch", FIX), ("own.patch", OWN))
    subject = b"\n\nWhy fix is needed.\n"
    made["fix.patch"] = made["fix.patch"].replace(
        subject, subject + b"\nUpstream-PR: ggml-org/llama.cpp#5\n"
    )
    extra = '[patch."fix.patch"]\ncheck = "fix.py"\n[patch."own.patch"]\ncheck = "own.py"\n'
    series = write_series(tmp_path / "work/series", "b1", made, extra=extra)
    (series / "checks").mkdir()
    (series / "checks/fix.py").write_text(CHECK.format(condition=FIXED))
    (series / "checks/own.py").write_text(CHECK.format(condition=ELSEWHERE))
    api.add(5, title="a : fix line 9", merged="ab" * 20)
    return RetireLab(tmp_path / "lab", series, own.url, {"GITHUB_API_URL": api.url})


def test_signs_stand_side_by_side_at_each_version(lab: RetireLab, api: LocalApi) -> None:
    assert lab.signs("--in", "b2", "--run-checks") == {
        "fix.patch": {"patch-id": True, "hunks": True, "drop-check": True},
        "own.patch": {"patch-id": False, "hunks": False, "drop-check": False},
    }
    text = lab.retire("--in", "b3")
    assert text.code == 0, text.err
    assert "drop candidate: nox -s retire -- fix.patch" in text.out
    assert "not run: --run-checks runs it" in text.out
    assert "ggml-org/llama.cpp#5 merged as abababababab on 2026-08-01: a : fix line 9" in text.out
    assert len(api.asked) == 1  # the second run remembers
    assert lab.signs("--in", "b3", "--run-checks")["own.patch"]["drop-check"] is True
    before = lab.signs("--in", "b1", "--run-checks")["fix.patch"]
    assert before == {"patch-id": None, "hunks": False, "drop-check": False}


def test_check_that_never_fails_is_no_sign(lab: RetireLab) -> None:
    (lab.series / "checks/fix.py").write_text(CHECK.format(condition=ALWAYS))
    found = lab.retire("--in", "b2", "--run-checks")
    assert "passes on plain b2 (1 cases), but on b1 too: toothless there" in found.out


def test_record_is_written_with_its_evidence_and_the_rebase_takes_the_file(
    lab: RetireLab,
) -> None:
    done = lab.retire("fix", "--in", "b2", "--evidence", "read upstream's change")
    assert done.code == 0, done.err
    assert "it stays listed until the base reaches that" in done.out
    (record,) = lab.manifest()["landed"]
    assert record["reference"] == "ggml-org/llama.cpp#5"
    assert record["version"] == "b2"
    said = (
        "patch-id: ",
        "hunks: 1 exact of 1",
        "drop-check: fix.py passes on plain b2 (1 cases), fails on b1",
        "#5 merged as abababababab",
        "read upstream's change",
    )
    for words in said:
        assert words in record["evidence"]
    assert (lab.series / "patches/fix.patch").exists()
    moved = lab.rebase("--onto", "b2", "--write")
    assert moved.code == 0, moved.err
    assert "explained by landed fix.patch" in moved.out
    assert not (lab.series / "patches/fix.patch").exists()
    twice = lab.retire("fix.patch", "--in", "b2")
    assert twice.code == 2


def test_one_sign_is_not_enough_without_a_reason(lab: RetireLab) -> None:
    assert lab.rebase("--onto", "b3", "--landed", "fix.patch", "--in", "b2", "--reference", "#5",
                      "--evidence", "e", "--write").code == 0  # fmt: skip
    files, refs = lab.files(), lab.refs()
    refused = lab.retire("own.patch", "--reference", "#6", "--in", "b3")
    assert refused.code == 1
    assert "1 of the signs say that b3 has own.patch, 2 must" in refused.err
    assert (lab.files(), lab.refs()) == (files, refs)
    words = ("--reference", "#6", "--reason", "c.c does it now")
    done = lab.retire("own.patch", "--in", "b3", *words)
    assert done.code == 0, done.err
    assert "its file left patches/" in done.out
    assert not (lab.series / "patches/own.patch").exists()
    record = lab.manifest()["landed"][-1]
    assert record["patch"] == "own.patch"
    assert record["evidence"].endswith("reason: c.c does it now")
    assert "ggml-org/llama.cpp#6 not checked: there is no such pull request" in record["evidence"]
    assert lab.rebase("--onto", "b3").code == 0


def test_check_that_fails_on_plain_upstream_contradicts(lab: RetireLab) -> None:
    (lab.series / "checks/fix.py").write_text(CHECK.format(condition="'b line 9 ours' in text"))
    refused = lab.retire("fix.patch", "--in", "b2")
    assert refused.code == 1
    assert "2 of the signs say" in refused.err
    assert "landed" not in lab.manifest()


def test_landed_change_that_upstream_reverted_is_needed_again(lab: RetireLab) -> None:
    folder = lab.series.parent
    run_git(folder, "init", "-q", ".")
    commit = ("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qam")
    run_git(folder, "add", "-A")
    run_git(folder, *commit, "the series")
    assert lab.retire("fix", "--in", "b2").code == 0
    assert lab.rebase("--onto", "b3", "--write").code == 0
    run_git(folder, *commit, "retired")
    good = lab.retire("--in", "b3")
    assert (good.code, "recorded as landed in b2" in good.out) == (0, True), good.err
    command = (sys.executable, "-m", "validate.landing", *lab.words())
    found = run_child(command, lab.environment())
    assert found.code == 1
    assert "REVERTED upstream in b4: needed again" in found.out
    patch = next(p for p in lab.retire("--json").document()["patches"] if p["needed_again"])
    assert (patch["patch"], patch["returned"], patch["recorded"]) == ("fix.patch", "b4", "b2")


def test_record_whose_file_is_nowhere_is_said_and_its_check_still_speaks(lab: RetireLab) -> None:
    assert lab.retire("fix", "--in", "b2").code == 0
    assert lab.rebase("--onto", "b3", "--write").code == 0
    silent = lab.retire()
    assert silent.code == 0
    assert "not available: no history has its file" in silent.out
    loud = lab.retire("--run-checks")
    assert loud.code == 1
    assert "MISSING on b4: needed again" in loud.out


def test_patch_that_another_one_needs_waits(own: Miniature, tmp_path: Path) -> None:
    made = own.patches("b1", ("own.patch", OWN), ("again.patch", AGAIN))
    lab = RetireLab(tmp_path / "lab", write_series(tmp_path / "series", "b1", made), own.url)
    files = lab.files()
    words = ("--in", "b1", "--reference", "#1", "--reason", "it did")
    done = lab.retire("own.patch", *words)
    assert done.code == 5, done.err
    assert "again.patch needs a decision once own.patch is gone" in done.err
    assert "nox -s rebase -- --onto b1 --write" in done.err
    assert lab.files() == files


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nothing.patch",), "lists no patch 'nothing.patch'"),
        (("own.patch", "--reason", "r", "--in", "b3"), "--reference is missing"),
        (("own.patch", "--in", "b9"), "b9 is not known"),
    ],
)
def test_wrong_usage_loses_nothing(lab: RetireLab, args: tuple[str, ...], words: str) -> None:
    files = lab.files()
    done = lab.retire(*args)
    assert (done.code, words in done.err, lab.files() == files) == (2, True, True), done.err


def test_which_checks_read_programs(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def run(options): return options.bin / 'llama-cli'\n")
    texts = {"direct.py": "print(args.bin)", "by_helper.py": "import helper", "none.py": "x = 1"}
    texts["broken.py"] = "def ("
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert [needs_programs(tmp_path / name) for name in texts] == [True, True, False, False]
    real = ROOT / "series/checks"
    assert needs_programs(real / "spec_draft_length.py")
    assert not needs_programs(real / "vulkan_mul_mm_pad.py")
    assert needs_vulkan(real / "vulkan_moe_tile.py")
    assert not needs_vulkan(real / "vulkan_mul_mm_pad.py")
