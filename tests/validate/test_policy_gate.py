"""The policy gate as a whole: waivers, sources at a version, required topics, its lines of text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from policy_tree import (
    AGENTS,
    CLEAN,
    CONTRIBUTING,
    MAIN,
    PATCH,
    REVIEW,
    UPSTREAM,
    Case,
    judge,
    make_subject,
    of_rule,
    red_rules,
)
from tiny_project import Change, make_stack

from series.manifest import load_series
from series.model import Step, Topic, Waiver
from upstream.errors import InvalidMeasurement, UsageError
from upstream.lab import Lab
from validate.policy import Evidence, Finding, Outcome, judge_gate, judge_topic
from validate.policy.branch import Line
from validate.policy.format import format_findings, summarise, to_documents
from validate.policy.judge import check_waivers
from validate.policy.style import Edit, cut_around, matters
from validate.policy.table import RULES

SLOPPY: dict[str, str | None] = {"tools/server/server.cpp": MAIN.replace("argc;", "argc; ")}


def waive(rule: str, topic: str = "topic") -> tuple[Waiver, ...]:
    return (Waiver(topic, rule, "looked at"),)


def test_a_waiver_turns_red_into_waived_with_its_reason(lab: Lab) -> None:
    findings = judge(lab, Case(SLOPPY, waivers=waive("editorconfig")))
    (finding,) = of_rule(findings, "editorconfig")
    assert (finding.outcome, finding.reason) == (Outcome.WAIVED, "looked at")
    assert not red_rules(findings)
    (line,) = [line for line in format_findings(findings) if " editorconfig " in line]
    assert line.startswith("waived")
    assert "trailing blanks (waived: looked at)" in line


def test_a_waiver_covers_what_was_not_checked(lab: Lab) -> None:
    findings = judge(lab, Case(evidence=Evidence(), waivers=waive("regression-test")))
    assert of_rule(findings, "regression-test")[0].outcome is Outcome.WAIVED
    assert judge_gate(findings) is Outcome.GREEN


def test_a_waiver_that_matches_nothing_is_red(lab: Lab) -> None:
    findings = judge(lab, Case(waivers=waive("ascii")))
    stale = [f for f in of_rule(findings, "ascii") if f.outcome is Outcome.RED]
    assert [f.what for f in stale] == ["the waiver in series.toml matches nothing: remove it"]


def test_the_waiver_of_another_topic_counts_for_nothing(lab: Lab) -> None:
    findings = judge(lab, Case(SLOPPY, waivers=waive("editorconfig", "other")))
    assert red_rules(findings) == {"editorconfig"}


def test_a_waiver_of_an_unknown_rule_names_the_known_ones(lab: Lab) -> None:
    with pytest.raises(UsageError, match="unknown rule 'asci'") as caught:
        judge(lab, Case(waivers=waive("asci")))
    assert "subject-form, concise-message" in caught.value.remedy


def test_one_rule_waived_twice_is_refused(lab: Lab) -> None:
    with pytest.raises(UsageError, match="'ascii' is waived twice"):
        judge(lab, Case(waivers=waive("ascii") * 2))


def test_the_source_is_the_line_of_the_sentence_at_the_version(lab: Lab) -> None:
    moved = {"CONTRIBUTING.md": "# Contributors\n\n" + CONTRIBUTING}
    (finding,) = of_rule(judge(lab, Case(), moved), "subject-form")
    number = CONTRIBUTING[: CONTRIBUTING.index("Use the following")].count("\n") + 3
    assert finding.source == f"CONTRIBUTING.md:{number} at b7"


def test_a_rule_that_upstream_dropped_is_noticed(lab: Lab) -> None:
    kept = [
        line for line in CONTRIBUTING.splitlines(keepends=True) if "squashed commit" not in line
    ]
    case = Case(message="no form at all\n\nAssisted-by: Claude\n")
    findings = judge(lab, case, {"CONTRIBUTING.md": "".join(kept)})
    (finding,) = of_rule(findings, "subject-form")
    assert finding.outcome is Outcome.NOT_CHECKED
    assert finding.what == "the rule's sentence is gone from CONTRIBUTING.md at b7"
    assert not finding.source
    assert judge_gate(findings) is Outcome.NOT_CHECKED
    assert "[upstream has no such sentence]" in format_findings([finding])[0]


def test_a_sentence_that_moved_to_another_file_is_found_there(lab: Lab) -> None:
    moved = {"AGENTS.md": AGENTS + "- Do NOT add a new file in `tests/*` without approval.\n"}
    (finding,) = of_rule(judge(lab, Case(), moved), "no-new-test-files")
    assert finding.source == "AGENTS.md:7 at b7"
    gone = {"skills/code-review/SKILL.md": REVIEW.split("- Before")[0]}
    (finding,) = of_rule(judge(lab, Case(), gone), "no-new-test-files")
    assert finding.what.endswith("gone from AGENTS.md and skills/code-review/SKILL.md at b7")


def test_a_file_of_rules_that_is_gone_is_noticed(lab: Lab) -> None:
    findings = judge(lab, Case(), {"AGENTS.md": None})
    assert of_rule(findings, "ascii")[0].outcome is Outcome.NOT_CHECKED


def test_a_form_of_upstream_that_the_rules_do_not_know_is_no_green(lab: Lab) -> None:
    other = {"ggml/include/ggml.h": "enum class type;\n", "common/arg.cpp": None, ".ecrc": "{"}
    findings = judge(lab, Case(), other)
    for rule in ("cpu-first", "op-docs", "type-perplexity", "option-docs", "editorconfig"):
        assert of_rule(findings, rule)[0].outcome is Outcome.NOT_CHECKED
    assert of_rule(findings, "cpu-first")[0].what == (
        "the rule cannot read b7: no enum ggml_type in ggml/include/ggml.h"
    )


def test_files_that_are_moved_removed_or_not_text(lab: Lab) -> None:
    files: dict[str, str | None] = {
        "tools/server/main.cpp": MAIN,
        "tools/server/server.cpp": None,
        "tests/test-backend-ops.cpp": None,
        "media/picture.png": "\0\1",
    }
    assert not red_rules(judge(lab, Case(files)))


def test_the_patches_of_required_topics_are_not_judged(lab: Lab) -> None:
    case = Case()
    changes = [Change("Sloppy.\n", SLOPPY), Change(case.message, CLEAN)]
    both = make_stack(lab, changes, UPSTREAM)
    steps = (
        Step("below", "below.patch", both.steps[0].commit, both.steps[0].tree),
        Step("topic", PATCH, both.steps[1].commit, both.steps[1].tree),
    )
    alone = make_subject(lab, case)
    subject = replace(
        alone, base=both.commit, steps=steps, topic=Topic("topic", "T", ("below",), (PATCH,))
    )
    findings = judge_topic(subject, case.evidence)
    assert not red_rules(findings)
    lower = replace(subject, topic=Topic("below", "B", (), ("below.patch",)))
    assert {"subject-form", "editorconfig"} <= red_rules(judge_topic(lower, case.evidence))


def test_a_topic_without_patches_is_no_green(lab: Lab) -> None:
    subject = replace(make_subject(lab, Case()), topic=Topic("empty", "E", (), ()))
    with pytest.raises(InvalidMeasurement, match="topic 'empty' has no patch on b7"):
        judge_topic(subject, Evidence())


def test_a_gate_without_findings_is_no_green() -> None:
    with pytest.raises(InvalidMeasurement, match="no finding"):
        judge_gate([])


def test_one_finding_a_line(lab: Lab) -> None:
    findings = judge(lab, Case(SLOPPY))
    lines = format_findings(findings)
    assert len(lines) == len(findings)
    assert not any("\n" in line for line in lines)
    assert any(
        line.startswith("RED")
        and "tools/server/server.cpp:2 (fix.patch): trailing blanks" in line
        and line.endswith("[CONTRIBUTING.md:13 at b7]")
        for line in lines
    )
    assert summarise(findings).startswith("policy gate RED: 1 RED, 3 not checked")
    documents = to_documents(findings)
    assert {document["outcome"] for document in documents} == {"green", "RED", "not checked"}


def test_a_message_with_a_line_break_stays_on_one_line() -> None:
    finding = Finding("ascii", Outcome.RED, "a", "one\ntwo", "AGENTS.md:1 at b7")
    assert "one two" in format_findings([finding])[0]


def test_a_claim_that_is_missing_means_bit_exact(lab: Lab) -> None:
    subject = replace(make_subject(lab, Case()), claims={})
    assert red_rules(judge_topic(subject, Case().evidence)) == {"regression-test"}


@pytest.mark.parametrize(
    ("content", "edit", "counts"),
    [
        (b"char* a", Edit(4, 0, " "), True),
        (b"int  a", Edit(3, 2, " "), False),  # aligned by hand
        (b"a = b +\n    c", Edit(7, 5, " "), False),  # broken by hand
        (b"33*256", Edit(3, 0, " "), False),  # would be "33* 256"
        (b"0.5*x", Edit(3, 0, " "), False),  # would be "0.5 *x"
        (b"f(a)/b", Edit(5, 0, " "), False),
        (b'#include "b"\n#include "a"', Edit(0, 25, '#include "a"\n#include "b"'), False),
        (b"if (a)\n{", Edit(6, 1, " "), True),
        (b"a;\n\n\n{", Edit(2, 3, ""), False),  # what stood between is blanked
        (b"if (a) b;", Edit(6, 1, " {\n"), True),
    ],
)
def test_which_edits_of_clang_format_count(content: bytes, edit: Edit, *, counts: bool) -> None:
    assert matters(content, edit) is counts


def test_only_the_definition_around_a_line_is_formatted() -> None:
    lines = b"int a() {\n}\n\n#if X\nint b() {\n    one;\n}\n#endif\n\nint c() {\n}\n".split(b"\n")
    cut = cut_around(lines, [Line(6, "    one;")]).split(b"\n")
    assert len(cut) == len(lines)
    assert cut[5] == b"    one;"
    assert cut[3] == b"#if X"
    assert cut[9] == b""


def test_the_series_of_this_project_waives_only_known_rules() -> None:
    check_waivers(load_series(Path(__file__).parents[2] / "series").waivers)


def test_the_reference_page_explains_every_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "policy.md").read_text("utf-8")
    assert [rule.name for rule in RULES if f"`{rule.name}`" not in page] == []
