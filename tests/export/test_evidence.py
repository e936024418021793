"""EVIDENCE.md and PR.md: what is measured, disclosed and left to a person."""

from __future__ import annotations

from pathlib import Path

import pytest

from series.model import Series, Stack, Step, Topic
from series.topic_stack import TopicStack
from tests.series.miniature import Miniature
from upstream.git import Git
from upstream.version import Version
from validate.cells import Cell, Judged, Speed
from validate.export.evidence import NOT_ALONE, SECTIONS, write_evidence
from validate.export.model import Exported, History, Round, Trial
from validate.export.readiness import judge_readiness
from validate.export.template import disclose, write_template
from validate.policy import Finding, Outcome
from validate.report_model import Comparison, Header
from validate.verdict import CheckResult, StepVerdict, Verdict

HEADER = Header("b100", "git remote", "c" * 40, "today", {"cpu": "a CPU"}, {"model": "a model"})
TEMPLATE = """\
## Overview

<!-- Describe what this PR does and why. -->

## Requirements

- AI usage disclosure: <!-- mention: YES / NO - if yes, describe how AI was used -->
"""
ASSISTED = "x : one\n\nWhy.\n\nAssisted-by: Claude\n"


def exported(
    *checks: CheckResult,
    speeds: tuple[Comparison, ...] = (),
    waived: tuple[Finding, ...] = (),
    tried: bool = True,
) -> Exported:
    """A topic of one patch on another's, with these results."""
    steps = (Step("low", "low.patch", "d" * 40, "d" * 40), Step("one", "one.patch", "e" * 40, ""))
    topic = Topic("one", "One", ("low",), ("one.patch",))
    alone = TopicStack(topic, Stack(Version(100), "f" * 40, "f" * 40, steps))
    history = History((Round(1, Version(100), "f" * 40, "e" * 40),), True)
    verdicts = tuple(
        StepVerdict(patch, parent, found)
        for patch, parent, found in (
            ("low.patch", "base", (CheckResult("results", Verdict.FAIL, "not ours"),)),
            ("one.patch", "low.patch", checks),
        )
    )
    trial = Trial(HEADER, (), verdicts, speeds)
    findings = (Finding("ascii", Outcome.GREEN, "one", "plain", "x:1"), *waived)
    state = judge_readiness(alone, trial, findings, ())
    series = Series(Path("series"), Version(100), (topic,))
    return Exported(series, alone, history, trial if tried else None, findings, state)


def text(one: Exported) -> str:
    return write_evidence(one, [ASSISTED])


def test_the_checks_of_the_topic_and_the_fingerprints_are_shown() -> None:
    found = text(exported(CheckResult("archs", Verdict.PASS, "135 archs")))
    assert "| one.patch | low.patch | archs | PASS | 135 archs |" in found
    assert "not ours" not in found
    assert "| AI usage | YES, Assisted-by: Claude |" in found
    for row in ("cpu | a CPU", "model | a model", "on top of | low", "upstream | b100, commit f"):
        assert f"| {row}" in found


def test_numerics_are_shown_as_measured() -> None:
    same = {"step": {"perplexity": 11.5, "sha256": ""}, "parent": {"perplexity": 11.5}}
    figures = {"mean": 0.001, "p999": 0.01, "maximum": 0.1, "same_top": 99.0}
    tier = {"found": figures, "floor": figures, "bound": figures, "cached": True}
    found = text(
        exported(
            CheckResult("results", Verdict.PASS, "", {"nmse": 2.5e-9, "equal": False}),
            CheckResult("divergence", Verdict.PASS, "", same),
        )
    )
    assert "| one.patch | NMSE of the logits | 0 | 2.500e-09 |" in found
    assert "| one.patch | perplexity | 11.5000 | 11.5000 |" in found
    assert "| KL divergence: all | - | 0 (the same logits) |" in found
    found = text(exported(CheckResult("divergence", Verdict.PASS, "", {"model": tier})))
    assert "KL divergence, model: mean | 0.001 (on its own logits) | 0.001 |" in found
    assert "KL divergence, model: same_top | 99 (on its own logits) | 99 |" in found


def test_what_was_not_measured_is_named() -> None:
    found = text(exported(CheckResult("archs", Verdict.IDENTICAL)))
    left = found.split("## Not measured\n")[1]
    assert "* perplexity and KL divergence: the programs are byte-identical" in left
    assert "* test-backend-ops on a second backend" in left
    assert "* speed of one.patch: no finished measurement in the store" in left
    assert NOT_ALONE in text(exported(tried=False))


def test_speed_backend_ops_and_own_checks_have_tables() -> None:
    cell = Judged(Cell("llama-bench", "pp64", "t/s", 0.05), Speed.IDENTICAL)
    runs = [{"compared": 40, "failed": []}]
    rows = {"check": "spills", "rows": [{"shader": "a|b", "vgprs": 96, "spilled": None}]}
    found = text(
        exported(
            CheckResult("backend ops", Verdict.PASS, "", {"runs": runs, "device": "Vulkan0"}),
            CheckResult("own check", Verdict.PASS, "", {"step": rows, "parent": {"cases": 1}}),
            speeds=(Comparison("one.patch", "low.patch", (cell,)),),
        )
    )
    assert "| one.patch | Vulkan0 | 40 | 0 | PASS |" in found
    assert "one.patch runs the same bytes as low.patch: pp64" in found
    assert "| a\\|b | 96 | - |" in found
    assert "without:" not in found
    assert len(SECTIONS) >= 5


def test_pipelines_and_kernels_have_a_table_for_each_compiler() -> None:
    before, after = {"vgprs": 96, "waves": 10}, {"vgprs": 120, "spilled_vgprs": 7, "waves": 8}
    change = {"pipeline": "p wg 64", "verdict": "SPILLS", "reason": "7 more", "banks": ""}
    change |= {"before": before, "after": after}
    pipelines = {"changes": [change | {"compiler": "Mesa 25"}, change | {"compiler": "Mesa 26"}]}
    kernels = {"changes": [change | {"compiler": "clang 17", "pipeline": "norm.cu f"}]}
    found = text(
        exported(
            CheckResult("isa", Verdict.FAIL, "7 more", pipelines),
            CheckResult("hip", Verdict.FAIL, "7 more", kernels),
        )
    ).split("## Compiler statistics\n")[1]
    for name in ("Mesa 25", "Mesa 26", "clang 17"):
        assert f"{name} (compiled, nothing executed)" in found
    assert found.count("| p wg 64 | SPILLS | 96 -> 120 | 0 -> 7 |") == 2
    assert "| norm.cu f | SPILLS | 96 -> 120 | 0 -> 7 | 0 | 0 | 10 -> 8 |" in found
    absent = exported(
        CheckResult("isa", Verdict.INFORMATION, "not run: no toolchain roots here"),
        CheckResult("hip", Verdict.IDENTICAL, "the same"),
    )
    lacking = text(absent).split("## Not measured\n")[1]
    assert "compiler statistics of one.patch: not run: no toolchain roots here" in lacking
    assert "the same" not in lacking


def test_a_waiver_appears_with_its_reason() -> None:
    waived = Finding("op-cases", Outcome.WAIVED, "one.patch", "no case", "C:49", "no device here")
    found = text(exported(waived=(waived,)))
    assert "| op-cases | one.patch | no case | C:49 | no device here |" in found


def test_the_template_is_upstreams_with_the_disclosure_filled_in(
    own_template: tuple[Git, str],
) -> None:
    git, commit = own_template
    plain = write_template(git, Version(1), commit, ["x : one\n"])
    assert plain == TEMPLATE
    filled = write_template(git, Version(1), commit, [ASSISTED, ASSISTED])
    assert filled == TEMPLATE.replace(
        "disclosure: <!--", "disclosure: YES, Assisted-by: Claude <!--"
    )


@pytest.fixture
def own_template(tmp_path: Path) -> tuple[Git, str]:
    path = tmp_path / "with template.git"
    path.mkdir()
    git = Git(path)
    git.run("init", "--quiet", "--bare", ".")
    mini = Miniature(path)
    commit = mini.commit(
        "refs/heads/main", None, {".github/pull_request_template.md": TEMPLATE}, "one\n"
    )
    return git, commit


def test_a_version_without_a_template_says_so(upstream: Miniature) -> None:
    commit = upstream.text("rev-parse", "b100^0")
    found = write_template(Git(upstream.path), Version(100), commit, [ASSISTED])
    assert "b100 has no pull request template" in found
    assert "- AI usage disclosure: YES, Assisted-by: Claude" in found


def test_several_assistants_are_named_once_each() -> None:
    messages = [ASSISTED, "y\n\nassisted-by:  Other  \nAssisted-by: Claude\n"]
    assert disclose(messages) == "YES, Assisted-by: Claude, Other"
    assert disclose(["no trailer: Assisted-by somebody\n"]) == ""
