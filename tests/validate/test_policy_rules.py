"""Every rule of the policy gate is red for a planted violation, and only for that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from policy_tree import (
    ARG,
    BITES,
    CLANG_FORMAT,
    CLEAN,
    CPU,
    CPU_OPS,
    GGML_H,
    MAIN,
    MESSAGE,
    OPS,
    PATCH,
    README,
    Case,
    judge,
    of_rule,
    red_rules,
)

from series.model import Claim
from upstream.errors import EnvironmentFault
from upstream.lab import Lab
from validate.policy import Evidence, Measured, Outcome, Search, judge_gate
from validate.policy.table import RULES
from validate.verdict import CheckResult, Verdict

SERVER = "tools/server/server.cpp"
QUANTS = "ggml/src/ggml-cpu/quants.c"
VULKAN = "ggml/src/ggml-vulkan/ggml-vulkan.cpp"
GGML = "ggml/include/ggml.h"
CASES = "tests/test-backend-ops.cpp"


def found(query: str) -> Search:
    """GitHub for somebody new with an open pull request, which has the words of the patch.

    A fake: the real one is a network away."""
    return Search(0) if "is:merged" in query else Search(1, ("#7 server : count",))


def nothing(query: str) -> Search:
    """GitHub with no pull request at all. A fake, as above."""
    return Search(0)


def added(line: str) -> dict[str, str | None]:
    """The clean patch with one more line in main()."""
    return {SERVER: MAIN.replace("    return argc;\n", f"{line}\n    return argc;\n")}


NEW_TYPE: dict[str, str | None] = {
    GGML: GGML_H.replace("GGML_TYPE_COUNT = 1", "GGML_TYPE_NEW = 1,\n    GGML_TYPE_COUNT = 2"),
    CASES: "int cases();\nint more_cases();\n",
}
NEW_OP: dict[str, str | None] = {GGML: GGML_H.replace("GGML_OP_DUP,", "GGML_OP_DUP, GGML_OP_NEW,")}
NEW_OPTION = ARG.replace("--slots", "--places")
NEW_TABLE = README.replace("--slots", "--places")
SUPPORTED = CPU.replace("F32", "F16")
TOOTHLESS = CheckResult("own check", Verdict.FAIL, "toothless: it holds without the patch too")
DIFFERS = CheckResult("backend ops", Verdict.FAIL, "Vulkan0: fails", {"device": "Vulkan0"})
ALL_FOUR = (
    Measured("small model", "GGML_TYPE_NEW", (), "https://example.org/model.gguf"),
    Measured("perplexity", "GGML_TYPE_NEW", ("F16", "Q4_0"), "results"),
    Measured("KL divergence", "GGML_TYPE_NEW", ("BF16", "Q4_0"), "results"),
    Measured("CPU speed", "GGML_TYPE_NEW", ("Q4_0",), "results"),
)
TYPE_RULES = {"type-small-model", "type-perplexity", "type-divergence", "type-cpu-speed"}


def proved(*checks: CheckResult, measured: tuple[Measured, ...] = ()) -> Evidence:
    return Evidence({PATCH: checks}, measured)


LOOSE = Claim({"cpu": "nmse"}, "fix.py")
PLANTED: dict[str, tuple[Case, str, str]] = {
    "no blank before the colon": (
        Case(message=MESSAGE.replace(" :", ":")), "subject-form", "is not 'module : title'"),
    "no module": (
        Case(message=MESSAGE.replace("server : ", "")), "subject-form", "is not 'module : title'"),
    "a period": (
        Case(message=MESSAGE.replace("arguments", "arguments.")), "subject-form", "period"),
    "a long subject": (
        Case(message=MESSAGE.replace("count", "count" * 12)), "subject-form", "72 fit"),
    "a wide body": (
        Case(message=MESSAGE.replace("The name", "The name " * 12)), "concise-message", "80 fit"),
    "a long body": (
        Case(message=MESSAGE.replace("The name", "The name\n" * 13)), "concise-message", "lines"),
    "no disclosure": (
        Case(message=MESSAGE.split("\n\nAssisted")[0] + "\n"), "disclosure", "no 'Assisted-by:'"),
    "a disclosure in the text": (
        Case(message=MESSAGE.replace("Claude\n", "Claude\n\nAnd more.\n")), "disclosure",
        "outside of the last paragraph"),
    "an assistant as co-author": (
        Case(message=MESSAGE + "Co-authored-by: Claude <a@example.org>\n"), "no-ai-coauthor",
        "names an assistant"),
    "two GPU backends": (
        Case({VULKAN: "int vulkan(int);\n", "ggml/src/ggml-cuda/mmq.cu": "int m(int);\n",
              CASES: "int cases(int);\n"}),
        "one-topic", "the backends cuda, vulkan"),
    "ggml and a program": (
        Case({QUANTS: "int quants(int);\n", **CLEAN}), "one-topic", "ggml and programs"),
    "two programs": (
        Case({"tools/cli/cli.cpp": CLEAN[SERVER], **CLEAN}), "one-topic", "tools/cli, tools/serv"),
    "a new operation on a GPU": (
        Case({**NEW_OP, VULKAN: "int vulkan(int);\n", CASES: "int cases(int);\n",
              "docs/ops.md": "new\n", "docs/ops/CPU.csv": "new\n"}),
        "cpu-first", "adds GGML_OP_NEW and changes vulkan"),
    "a new type on a GPU": (
        Case({**NEW_TYPE, VULKAN: "int vulkan(int);\n"},
             evidence=proved(BITES, OPS, measured=ALL_FOUR)),
        "cpu-first", "adds GGML_TYPE_NEW and changes vulkan"),
    "a new test": (
        Case({"tests/test-new.cpp": "int a();\n", **CLEAN}), "no-new-test-files", "new file"),
    "a new test of a tool": (
        Case({"tools/server/tests/test_new.py": "x = 1\n", **CLEAN}), "no-new-test-files", "new"),
    "an underscore in a C++ name": (
        Case({"tools/server/new_part.cpp": "int a();\n", **CLEAN}), "file-names", "dashes"),
    "a dash in a Python name": (
        Case({"tools/server/new-part.py": "x = 1\n", **CLEAN}), "file-names", "underscores"),
    "an operator changed without cases": (
        Case({QUANTS: "int quants(int);\n"}, claim=LOOSE), "op-cases", "not bit-exact on cpu"),
    "a backend that is not claimed": (
        Case({VULKAN: "int vulkan(int);\n"}), "op-cases", "not bit-exact on vulkan"),
    "a new operation without cases": (
        Case({**NEW_OP, "docs/ops.md": "new\n", "docs/ops/CPU.csv": "new\n"}), "op-cases",
        "adds GGML_OP_NEW and no case"),
    "a second backend that differs": (
        Case({QUANTS: "int quants(int);\n", CASES: "int cases(int);\n"},
             evidence=proved(BITES, DIFFERS)),
        "two-backends", "Vulkan0: fails"),
    "no test": (Case(claim=Claim()), "regression-test", "names no check"),
    "a test without teeth": (Case(evidence=proved(TOOTHLESS)), "regression-test", "toothless"),
    "an arrow in a comment": (Case(added("    // a \u2192 b")), "ascii", "U+2192"),
    "a dash in the message": (
        Case(message=MESSAGE.replace("The name", "The name \u2014")), "ascii", "U+2014"),
    "a comment of five lines": (
        Case(added("\n".join(["    // Note."] * 5))), "comment-length", "of 5 lines"),
    "a block comment of five lines": (
        Case(added("    /* One.\n       Two.\n       Three.\n       Four.\n       Five. */")),
        "comment-length", "of 5 lines"),
    "a comment too wide": (
        Case(added("    // " + "x" * 120)), "comment-length", "of 127 columns, 120 fit"),
    "a comment cut at a width": (
        Case(added("    // the count of all arguments of this program is what the caller\n"
                   "    // of the program gave to it")),
        "comment-wrap", "split over lines"),
    "trailing blanks": (Case(added("    int a = 0; ")), "editorconfig", "trailing blanks"),
    "a tab": (Case({"docs/new.md": "\ttext\n", **CLEAN}), "editorconfig", "a tab in the indent"),
    "blanks where tabs are asked": (
        Case({"Makefile": "all:\n    true\n", **CLEAN}), "editorconfig", "tabs are asked"),
    "CRLF": (Case({"docs/new.md": "text\r\n", **CLEAN}), "editorconfig", "CRLF"),
    "no line break at the end": (
        Case({"docs/new.md": "text", **CLEAN}), "editorconfig", "end of the file"),
    "a pointer to the left": (
        Case(added("    char* end = nullptr;")), "clang-format", "should be 'char * end"),
    "a brace on its own line": (
        Case(added("    if (argc)\n    {\n    }")), "clang-format",
        "the brace belongs on the line 'if (argc)'"),
    "an option without its row": (
        Case({"common/arg.cpp": NEW_OPTION}), "option-docs", "--places is not in the table"),
    "an option that left its row": (
        Case({"common/arg.cpp": NEW_OPTION, "tools/server/README.md": NEW_TABLE + README}),
        "option-docs", "--slots is gone but"),
    "more is supported": (
        Case({"ggml/src/ggml-cpu/ggml-cpu.cpp": SUPPORTED, CASES: "int cases(int);\n"}),
        "op-docs", "what is supported changed"),
    "a table without its page": (
        Case({"docs/ops/CPU.csv": "new\n", **CLEAN}), "op-docs", "create_ops_docs"),
    "an open pull request on the same": (
        Case(lookup=found, author=""), "existing-prs", "#7 server : count"),
    "a newcomer with one open": (
        Case(lookup=lambda q: found(q) if "author" in q else Search(0)), "one-open-pr",
        "ada is new and has 1 open"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_red(name: str, lab: Lab) -> None:
    case, rule, words = PLANTED[name]
    findings = judge(lab, case)
    assert red_rules(findings) == {rule}
    assert any(words in finding.what for finding in of_rule(findings, rule))
    assert judge_gate(findings) is Outcome.RED


def test_every_rule_has_a_planted_violation() -> None:
    reminders = {"human-words"}  # nothing in a commit shows who chose its words: never red
    planted = {rule for _, rule, _ in PLANTED.values()} | TYPE_RULES
    assert planted | reminders == {rule.name for rule in RULES}


def test_a_clean_patch_is_green(lab: Lab) -> None:
    findings = judge(lab, Case(lookup=nothing))
    bad = {finding.rule for finding in findings if finding.outcome is not Outcome.GREEN}
    assert bad == {"human-words"}
    assert judge_gate(findings) is Outcome.GREEN
    assert {finding.rule for finding in findings} == {rule.name for rule in RULES}
    assert all(finding.source and finding.what for finding in findings)


def test_a_new_type_needs_all_four(lab: Lab) -> None:
    alone = judge(lab, Case(NEW_TYPE))
    assert red_rules(alone) == TYPE_RULES
    complete = judge(lab, Case(NEW_TYPE, evidence=proved(BITES, OPS, measured=ALL_FOUR)))
    assert not red_rules(complete)


@pytest.mark.parametrize(
    ("at", "rule", "lacking"),
    [
        (1, "type-perplexity", "F16 or BF16 nor with a type of similar size"),
        (2, "type-divergence", "F16 or BF16 nor with a type of similar size"),
        (3, "type-cpu-speed", "a type of similar size"),
    ],
)
def test_a_table_that_compares_with_nothing(at: int, rule: str, lacking: str, lab: Lab) -> None:
    measured = tuple(replace(m, against=()) if n == at else m for n, m in enumerate(ALL_FOUR))
    findings = judge(lab, Case(NEW_TYPE, evidence=proved(BITES, OPS, measured=measured)))
    assert red_rules(findings) == {rule}
    assert f"is not compared with {lacking}" in of_rule(findings, rule)[0].what


def test_what_was_not_validated_is_not_checked(lab: Lab) -> None:
    files = {QUANTS: "int quants(int);\n"}
    findings = judge(lab, Case(files, evidence=Evidence(), lookup=nothing))
    open_ones = {f.rule for f in findings if f.outcome is Outcome.NOT_CHECKED}
    assert open_ones == {"human-words", "regression-test", "op-cases", "two-backends"}
    assert judge_gate(findings) is Outcome.NOT_CHECKED


def test_a_cpu_alone_is_no_second_backend(lab: Lab) -> None:
    files = {QUANTS: "int quants(int);\n"}
    findings = judge(lab, Case(files, evidence=proved(BITES, CPU_OPS)))
    assert of_rule(findings, "two-backends")[0].what == "test-backend-ops ran on no second backend"
    assert of_rule(findings, "op-cases")[0].what == "bit-exact on cpu by the cases that are there"


def test_offline_does_not_hold_the_gate_up(lab: Lab) -> None:
    def refuse(query: str) -> Search:
        raise EnvironmentFault("GitHub does not answer")

    for lookup, said in ((None, "offline"), (refuse, "GitHub does not answer")):
        findings = judge(lab, Case(lookup=lookup))
        assert judge_gate(findings) is Outcome.GREEN
        for rule in ("existing-prs", "one-open-pr"):
            (finding,) = of_rule(findings, rule)
            assert finding.outcome is Outcome.NOT_CHECKED
            assert f"not checked: {said}" in finding.what


def test_without_clang_format_style_is_not_checked(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("validate.policy.style.PROGRAM", "clang-format-that-nobody-has")
    (finding,) = of_rule(judge(lab, Case()), "clang-format")
    assert finding.outcome is Outcome.NOT_CHECKED
    assert "is not installed" in finding.what


def test_a_configuration_that_clang_format_refuses(lab: Lab) -> None:
    (finding,) = of_rule(judge(lab, Case(), {".clang-format": "Nonsense: 1\n"}), "clang-format")
    assert finding.outcome is Outcome.NOT_CHECKED
    assert "clang-format" in finding.what


def test_the_files_own_spacing_counts(lab: Lab) -> None:
    many = "".join(f"    char* end{n} = nullptr;\n" for n in range(3))
    before = MAIN.replace("    return", f"{many}    return")
    after = before.replace("    return", "    char* mine = nullptr;\n    return")
    findings = judge(lab, Case({SERVER: after}), {SERVER: before})
    assert of_rule(findings, "clang-format")[0].outcome is Outcome.GREEN


def test_neighbours_in_a_list_are_not_the_patchs(lab: Lab) -> None:
    rows = 'static const row rows[] = {\n    { "abc",TWO," 2",  },\n    { "a",  ONE, " 1" },\n};\n'
    before = MAIN + "int n = call(1, AB, CD, EF);\n\n" + rows
    after = before.replace(" },\n};", ' },\n    { "abcdefgh", ABC, " 3", },\n};')
    config = f"{CLANG_FORMAT}AlignArrayOfStructures: Left\n"  # which upstream's has
    findings = judge(lab, Case({SERVER: after}), {SERVER: before, ".clang-format": config})
    assert of_rule(findings, "clang-format")[0].outcome is Outcome.GREEN


def test_where_a_macro_goes_on_is_the_authors(lab: Lab) -> None:
    macro = "#define TWICE(x) \\\n    do { \\\n        call(x); \\\n    } while (0)\n"
    findings = judge(lab, Case({SERVER: MAIN + macro}))
    assert of_rule(findings, "clang-format")[0].outcome is Outcome.GREEN
