"""The check `ledgers` on stacks and series: claims, watched rows, verdicts, what is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import ledger_tree
import pytest
from ledger_tree import GGML_C, GGML_H, HOST, LLAMA_H, MUL_MM, PYTHON, edit
from tiny_project import Change, make_stack

from series.manifest import load_series
from series.model import Series, Stack
from upstream.errors import UsageError
from upstream.git import Git
from upstream.lab import Lab
from upstream.version import Version
from validate.ledger.check import check_ledgers, met_versions
from validate.ledger.claims import Claims, load_claims
from validate.verdict import CheckResult, Verdict

README = Change("0001-readme.patch", {"README.md": "another text\n"})
PADDED = edit("0002-pad.patch", (HOST, "spec.push_back(0u);  // constantID=2: PAD = 0",
                                 "spec.push_back(pad);  // constantID=2: PAD"))  # fmt: skip
DROPPED = edit("0003-drop.patch", (HOST, "        case GGML_OP_DUP:\n", ""))
TYPED = edit(
    "0004-type.patch",
    (GGML_H, "GGML_TYPE_COUNT   = 5", "GGML_TYPE_MINE = 7, GGML_TYPE_COUNT = 8"),
    (PYTHON, "    Q8_0    = 4\n", "    Q8_0    = 4\n    MINE = 7\n"),
)
MOVED = edit(
    "moved",
    (MUL_MM, "layout(constant_id = 2) const uint PAD", "layout(constant_id = 5) const uint PAD"),
)
CLAIM = 'topic = "topic"\npatch = "{}"\n'
WATCH = '[[watched]]\nkind = "{}"\nname = "{}"\n'


class Workshop:
    """A series with its stack, and upstream versions made of edits of the small tree."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab = lab
        self.git = Git(lab.repository)
        self.directory = directory

    def series(self, changes: Sequence[Change], ledger: str = "") -> Series:
        """A series of these patches with this ledger.toml."""
        names = [change.name for change in changes]
        topic = f'[[topic]]\nname = "topic"\ntitle = "Topic"\npatches = {json.dumps(names)}\n'
        self.directory.mkdir(exist_ok=True)
        (self.directory / "series.toml").write_text(f'base = "b7"\n{topic}')
        (self.directory / "ledger.toml").write_text(ledger)
        return load_series(self.directory)

    def stack(self, changes: Sequence[Change]) -> Stack:
        """The patches on the small tree."""
        return make_stack(self.lab, changes, ledger_tree.FILES)

    def upstream(self, change: Change) -> str:
        """The tree of an upstream version that differs from the small tree by an edit."""
        return self.stack([change]).tip_tree

    def check(
        self, changes: Sequence[Change], ledger: str = "", older: Sequence[Change] = ()
    ) -> list[CheckResult]:
        """The results; `older`: upstream versions before the one that the stack stands on."""
        stack = self.stack(changes)
        versions = [(Version(number), self.upstream(edit)) for number, edit in enumerate(older)]
        versions.append((stack.version, stack.tree))
        return check_ledgers(self.lab, self.git, self.series(changes, ledger), stack, versions)


@pytest.fixture
def workshop(lab: Lab, tmp_path: Path) -> Workshop:
    return Workshop(lab, tmp_path / "series")


def test_every_step_is_judged_against_its_parent(workshop: Workshop) -> None:
    results = workshop.check([README, PADDED])
    assert [result.verdict for result in results] == [Verdict.IDENTICAL, Verdict.PASS]
    assert [result.check for result in results] == ["ledgers", "ledgers"]
    assert results[1].detail == "1 changes, none red"
    (change,) = results[1].facts["changes"]
    assert change["name"] == "ggml_vk_mul_mm_spec"


def test_a_dropped_case_fails_its_step_only(workshop: Workshop) -> None:
    after = Change("0005-more.patch", {**DROPPED.files, "README.md": "more\n"})
    results = workshop.check([README, DROPPED, after])
    assert [result.verdict for result in results] == [
        Verdict.IDENTICAL,
        Verdict.FAIL,
        Verdict.IDENTICAL,
    ]
    assert results[1].detail == "supports_op of vulkan has no case GGML_OP_DUP any more"


def test_a_fault_of_upstream_is_told_and_no_fault_of_the_step(lab: Lab) -> None:
    broken = edit("", (PYTHON, "Q8_0    = 4", "Q8_0    = 9")).files
    stack = make_stack(lab, [README, PADDED], {**ledger_tree.FILES, **broken})
    series = Series(lab.root, Version(7), ())
    versions = [(stack.version, stack.tree)]
    results = check_ledgers(lab, Git(lab.repository), series, stack, versions)
    assert [result.verdict for result in results] == [Verdict.PASS, Verdict.PASS]
    texts = [change["text"] for change in results[0].facts["changes"]]
    assert texts == [f"Q8_0 is 4 in {GGML_H} and 9 in {PYTHON}"]


def test_a_tree_without_the_sources_is_invalid_and_the_others_go_on(workshop: Workshop) -> None:
    gone = Change("0003-gone.patch", {LLAMA_H: None})
    back = Change("0004-back.patch", {LLAMA_H: ledger_tree.FILES[LLAMA_H]})
    results = workshop.check([README, gone, back, Change("0005-same.patch", {"a": "b"})])
    assert [result.verdict for result in results] == [
        Verdict.IDENTICAL,
        Verdict.INVALID,
        Verdict.INVALID,
        Verdict.IDENTICAL,
    ]
    assert LLAMA_H in results[1].detail


def test_ledgers_are_read_once(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    first = workshop.check([README, PADDED])
    assert [result.cached for result in first] == [False, False]
    monkeypatch.setattr("validate.ledger.read.read_ledger", None)  # may not be called
    again = workshop.check([README, PADDED])
    assert [result.cached for result in again] == [True, True]
    assert [(r.verdict, r.facts) for r in again] == [(r.verdict, r.facts) for r in first]


# -- claims ---------------------------------------------------------------------------------------


def claim(kind: str, name: str, number: int, patch: str = TYPED.name) -> str:
    return f'[[claimed]]\nkind = "{kind}"\nname = "{name}"\nid = {number}\n{CLAIM.format(patch)}'


def test_a_claimed_id_that_upstream_took_is_red(workshop: Workshop) -> None:
    ledger = claim("ggml_type", "GGML_TYPE_MINE", 7)
    assert workshop.check([TYPED], ledger)[0].verdict is Verdict.PASS
    taken = edit("", (GGML_H, "GGML_TYPE_COUNT   = 5", "GGML_TYPE_Q1_0 = 7, GGML_TYPE_COUNT = 8"))
    (result,) = workshop.check([TYPED], ledger, older=[README, taken])
    assert result.verdict is Verdict.FAIL
    assert (
        "b1: id 7 of ggml_type is GGML_TYPE_Q1_0 upstream, GGML_TYPE_MINE claims it"
        in result.detail
    )


def test_a_claimed_name_that_upstream_has_with_another_id_is_red(workshop: Workshop) -> None:
    taken = edit("", (GGML_H, "GGML_TYPE_COUNT   = 5", "GGML_TYPE_MINE = 5, GGML_TYPE_COUNT = 6"))
    (result,) = workshop.check([TYPED], claim("ggml_type", "GGML_TYPE_MINE", 7), older=[taken])
    assert "GGML_TYPE_MINE of ggml_type is 5 upstream, claimed as 7" in result.detail


def test_a_claimed_constant_is_checked_in_every_layout_of_its_shader(workshop: Workshop) -> None:
    constant = "layout (constant_id = 1) const uint ALIGNED = 0;\n"
    mine = constant + "layout (constant_id = 4) const uint MINE = 0;\n"
    added = edit("0001-mine.patch", (MUL_MM, constant, mine))
    ledger = claim("constant", "mul_mm.comp MINE", 4, added.name)
    (result,) = workshop.check([added], ledger)
    assert "id 4 of constant is RESHAPE upstream, MINE claims it" in result.detail
    free = added.files[MUL_MM]
    assert free is not None
    moved = Change(added.name, {MUL_MM: free.replace("4) const uint MINE", "5) const uint MINE")})
    assert workshop.check([moved], ledger.replace("id = 4", "id = 5"))[0].verdict is Verdict.PASS


def test_a_claim_that_the_patch_does_not_keep_is_red(workshop: Workshop) -> None:
    (result,) = workshop.check([TYPED], claim("ggml_type", "GGML_TYPE_MINE", 8))
    assert result.verdict is Verdict.FAIL
    assert "GGML_TYPE_MINE claims id 8 of ggml_type, which its patch does not" in result.detail


def accept(kind: str, name: str, patch: str, reason: str = "because") -> str:
    row = f'[[accepted]]\nkind = "{kind}"\nname = "{name}"\nreason = "{reason}"\n'
    return row + CLAIM.format(patch)


def test_a_step_may_do_what_somebody_accepted_and_nothing_else(workshop: Workshop) -> None:
    ledger = accept("supports_op", "vulkan GGML_OP_DUP", DROPPED.name)
    (result,) = workshop.check([DROPPED], ledger)
    assert result.verdict is Verdict.PASS
    (change,) = result.facts["changes"]
    assert change["text"] == "supports_op of vulkan has no case GGML_OP_DUP any more"
    another = ledger.replace("GGML_OP_DUP", "GGML_OP_NONE")
    assert workshop.check([DROPPED], another)[0].verdict is Verdict.FAIL
    results = workshop.check([README, DROPPED], ledger.replace(DROPPED.name, README.name))
    assert [result.verdict for result in results] == [Verdict.IDENTICAL, Verdict.FAIL]


# -- watched rows ---------------------------------------------------------------------------------


def watch(kind: str, name: str, patch: str = README.name, rows: Sequence[str] = ()) -> str:
    reviewed = f"rows = {json.dumps(list(rows))}\n" if rows else ""
    return WATCH.format(kind, name) + CLAIM.format(patch) + reviewed


def test_a_watched_row_that_upstream_moved_is_red_though_the_step_is_clean(
    workshop: Workshop,
) -> None:
    ledger = watch("constant", "mul_mm.comp PAD", PADDED.name)
    assert workshop.check([README, PADDED], ledger)[1].verdict is Verdict.PASS
    results = workshop.check([README, PADDED], ledger, older=[MOVED])
    assert [result.verdict for result in results] == [Verdict.IDENTICAL, Verdict.FAIL]
    assert "watched constant mul_mm.comp PAD: b0 (3 uint = 4" in results[1].detail


def test_what_was_reviewed_is_compared_with_the_version_below(workshop: Workshop) -> None:
    rows = ["3 uint = 4 [defined(COOPMAT) && defined(MULMAT_QUANT)]"]
    ledger = watch("constant", "mul_mm.comp PAD", rows=rows)
    (result,) = workshop.check([README], ledger)
    assert result.verdict is Verdict.FAIL
    assert result.detail.startswith("watched constant mul_mm.comp PAD: reviewed (3 uint = 4")
    rows.insert(0, "2 uint = 4 [defined(COOPMAT) && !defined(MULMAT_QUANT)]")
    ledger = watch("constant", "mul_mm.comp PAD", rows=rows)
    assert workshop.check([README], ledger, older=[MOVED])[0].verdict is Verdict.IDENTICAL


@pytest.mark.parametrize(
    ("kind", "name", "moved"),
    [
        ("push", "ggml_vk_mul_mm_spec_quant",
         edit("", (HOST, "constantID=2: MmTypeA", "constantID=2: Other"))),
        ("struct", "vk_rope_push_constants",
         edit("", (ledger_tree.STRUCTS, "sections[4]", "sections[5]"))),
        ("supports_op", "vulkan GGML_OP_DUP", DROPPED),
        ("number", "entries of GGML_OP_NAME", edit("", (GGML_C, '"DUP", ', ""))),
        ("pipeline", "quantize_q8_1", edit("", (HOST, "1 * sizeof(u", "2 * sizeof(u"))),
        ("ggml_op", "GGML_OP_MUL_MAT",
         edit("", (GGML_H, "GGML_OP_DUP, ", "GGML_OP_DUP, GGML_OP_NEW, "))),
    ],
)  # fmt: skip
def test_every_kind_can_be_watched(workshop: Workshop, kind: str, name: str, moved: Change) -> None:
    ledger = watch(kind, name)
    assert workshop.check([README], ledger)[0].verdict is Verdict.IDENTICAL
    (result,) = workshop.check([README], ledger, older=[moved])
    assert result.verdict is Verdict.FAIL
    assert f"watched {kind} {name}: b0" in result.detail


def test_watching_what_is_not_there_measures_nothing(workshop: Workshop) -> None:
    (result,) = workshop.check([README], watch("constant", "mul_mm.comp NOWHERE"))
    assert result.verdict is Verdict.INVALID
    assert "watches constant mul_mm.comp NOWHERE" in result.detail


@pytest.mark.parametrize(
    ("ledger", "says"),
    [
        ("[[claimed", "ledger.toml"),
        ("[[taken]]\n", "unknown key 'taken'"),
        ('[[claimed]]\nkind = "ggml_type"\n', "the key 'id' is missing"),
        (claim("ggml_type", "X", 1).replace("id = 1", 'id = "1"'), "must be a number"),
        (claim("ggml_type", "X", 1).replace("id = 1", "id = true"), "must be a number"),
        (claim("ggml_typo", "X", 1), "kind 'ggml_typo' is not one of"),
        (claim("push", "X", 1), "push has no ids to claim"),
        (claim("ggml_type", "X", 1, "absent.patch"), "absent.patch of the row X is no patch"),
        (claim("ggml_type", "X", 1).replace('"topic"', '"other"'), "is in topic 'topic'"),
        (claim("ggml_type", "X", 1) + claim("ggml_type", "Y", 1), "both claim id 1"),
        (watch("constant", "x Y") + "row = 1\n", "unknown key 'row'"),
        (watch("constant", "x Y") + "rows = [1]\n", "must be a list of strings"),
        (watch("constant", "x Y").replace('"x Y"', "1"), "name must be a string"),
        (accept("ggml_type", "X", TYPED.name, " "), "must say why"),
        (accept("ggml_type", "X", TYPED.name).replace("reason", "text"), "unknown key 'text'"),
        ("claimed = 1\n", "ledger.toml"),
        ("watched = [1]\n", "ledger.toml"),
    ],
)
def test_a_ledger_file_that_is_wrong_is_refused(workshop: Workshop, ledger: str, says: str) -> None:
    series = workshop.series([README, TYPED], ledger)
    with pytest.raises(UsageError, match=r"ledger\.toml") as caught:
        load_claims(series)
    assert says in str(caught.value)


def test_one_id_may_be_claimed_in_two_spaces(workshop: Workshop) -> None:
    ledger = claim("constant", "a.comp X", 1) + claim("constant", "b.comp X", 1)
    ledger += claim("ggml_type", "X", 1)
    assert len(load_claims(workshop.series([TYPED], ledger)).claimed) == 3


def test_the_versions_met_lie_between_base_and_stack(lab: Lab, workshop: Workshop) -> None:
    stack = workshop.stack([README])
    git = Git(lab.repository)
    env = {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}
    for number in (5, 8, 9, 12):
        git.run("tag", "-m", "x", f"upstream/b{number}", stack.commit, env=env)
    series = workshop.series([README])
    onto = Stack(Version(9), stack.commit, stack.tree, stack.steps)
    versions = [str(version) for version, _ in met_versions(git, series, onto)]
    assert versions == ["b8", "b9"]  # b7, the base, was never imported


def test_the_project_s_own_ledger_file_is_right() -> None:
    series = load_series(Path(__file__).parents[2] / "series")
    claims = load_claims(series)
    types = {row.id: row.name for row in claims.claimed if row.kind == "ggml_type"}
    assert sorted(types) == [100, 101, 102, 103, 104, 107]
    # ids of types and of file types overlap and mean different things
    files = {row.id: row.name for row in claims.claimed if row.kind == "llama_ftype"}
    assert (types[102], files[102]) == (
        "GGML_TYPE_Q6_0_ROCMFPX",
        "LLAMA_FTYPE_MOSTLY_Q4_0_ROCMFP4_COHERENT",
    )
    assert {row.name for row in claims.watched} >= {
        "mul_mm.comp SHMEM_STRIDE_PAD",
        "mul_mm.comp APPLY_SLM_A_RESHAPE",
    }
    assert all(row.rows for row in claims.watched)


def test_a_topic_alone_answers_for_its_own_patches_only() -> None:
    claims = load_claims(load_series(Path(__file__).parents[2] / "series"))
    patches = {row.patch for row in claims.watched}
    assert patches
    for patch in patches:
        assert {row.patch for row in claims.narrow([patch]).watched} == {patch}
    assert claims.narrow(["other.patch"]) == Claims()
