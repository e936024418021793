"""The ledgers of four real upstream versions: numbers as they are, and nothing left unread."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ledger_tree import CPU, GGML_C, GGML_H, HOST, MUL_MM, PYTHON, QUANTIZE

from series.manifest import load_series
from series.model import Stack, Step
from series.stack import apply_series
from upstream.git import Git, Stage
from upstream.lab import Lab, open_lab
from upstream.version import parse_version
from validate.bench_build import borrow_objects
from validate.ledger import Ledger, compare_ledgers, find_faults, read_ledger
from validate.ledger.check import check_ledgers
from validate.ledger.claims import rows_of
from validate.verdict import Verdict

pytestmark = pytest.mark.upstream
ROOT = Path(__file__).parents[2]
LADDER = ("b10566", "b10809", "b11063", "b11549")
SECONDS = 2.0


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab of the module's own that borrows the user's imported versions."""
    done = subprocess.run(
        (sys.executable, "-m", "upstream", "fetch", "--upstream", "snapshots", *LADDER),
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    folder = tmp_path_factory.mktemp("lab")
    borrow_objects(open_lab(), folder)
    lab = Lab(folder)
    lab.scratch.mkdir(parents=True, exist_ok=True)
    return lab


@pytest.fixture(scope="module")
def ledgers(imported: Lab) -> dict[str, Ledger]:
    """The ledger of each version."""
    git = Git(imported.repository)
    return {name: read_ledger(git, tree_of(git, name)) for name in LADDER}


Edit = Callable[[str, str, str], Ledger]


@pytest.fixture
def edited(imported: Lab) -> Edit:
    """b11549 with one text of one file replaced, as a ledger."""
    git = Git(imported.repository)

    def make(path: str, old: str, new: str) -> Ledger:
        return read_ledger(git, edit_tree(imported, git, path, old, new))

    return make


def tree_of(git: Git, name: str) -> str:
    return git.tree_of(parse_version(name).ref)


def edit_tree(lab: Lab, git: Git, path: str, old: str, new: str) -> str:
    """The tree of b11549 after an edit of one place."""
    tree = tree_of(git, "b11549")
    blob = git.read_blob(f"{tree}:{path}")
    assert blob is not None
    text = blob.decode()
    assert text.count(old) == 1, f"{old!r} is in {path} {text.count(old)} times"
    stage = Stage("100644", git.write_blob(text.replace(old, new).encode()), 0, path)
    return git.edit_tree(tree, [stage], lab.scratch)


@pytest.mark.parametrize("name", LADDER)
def test_upstream_has_no_fault_and_all_of_it_is_read(ledgers: dict[str, Ledger], name: str) -> None:
    assert ledgers[name].unread == ()
    assert find_faults(ledgers[name]) == ()


def test_ids_are_those_of_the_sources(ledgers: dict[str, Ledger]) -> None:
    for ledger in ledgers.values():
        types = ledger.enum("ggml_type")
        assert len(types.ids) == 36
        assert types.table["GGML_TYPE_COUNT"] == 43
        assert types.holes == (4, 5, 31, 32, 33, 36, 37, 38)
        assert len(types.retired) == len(types.holes)
        assert len(ledger.enum("GGMLQuantizationType").ids) == 35
        assert len(ledger.enum("llama_ftype").ids) == len(ledger.enum("LlamaFileType").ids) == 37
        assert ledger.enum("ggml_op").table["GGML_OP_COUNT"] == 101
    wire = [[n.value for n in x.numbers if n.name.startswith("RPC")] for x in ledgers.values()]
    assert wire == [[5, 1, 0], [6, 0, 0], [7, 0, 0], [8, 0, 0]]


def test_the_two_layouts_of_mul_mm(ledgers: dict[str, Ledger]) -> None:
    def layouts(name: str) -> set[tuple[tuple[int, str], ...]]:
        found = [x.names for x in ledgers[name].layouts if x.shader == "mul_mm.comp"]
        return {tuple(row for row in names if row[0] >= 12) for names in found}

    plain = ((12, "SHMEM_STRIDE_PAD"), (13, "APPLY_SLM_A_RESHAPE"))
    quant = ((12, "MmTypeA"), (13, "SHMEM_STRIDE_PAD"), (14, "APPLY_SLM_A_RESHAPE"))
    assert layouts("b10566") == layouts("b10809") == {(), plain}
    assert layouts("b11063") == layouts("b11549") == {(), ((12, "MmTypeA"),), plain, quant}


def test_the_numbers_of_rows(ledgers: dict[str, Ledger]) -> None:
    def count(part: str) -> list[int]:
        return [len(getattr(ledger, part)) for ledger in ledgers.values()]

    assert count("structs") == [46, 48, 52, 53]
    assert count("pipelines") == [1178, 1187, 1002, 1035]
    assert count("constants") == [192, 202, 223, 250]
    cpu = [[s for s in x.supports if s.backend == "cpu"] for x in ledgers.values()]
    assert [len(rows) for rows in cpu] == [11] * 4
    assert count("supports") == [95, 99, 102, 102]


def test_sizes_that_the_sources_assert(ledgers: dict[str, Ledger]) -> None:
    for ledger in ledgers.values():
        sizes = {struct.name: struct.size for struct in ledger.structs}
        assert sizes["vk_flash_attn_push_constants"] == 128
        assert sizes["vk_mat_mat_push_constants"] == 68
        pipelines = {each.spirv: each for each in ledger.pipelines}
        assert [block.size for block in pipelines["matmul_f16_cm1"].blocks] == [64]


def test_the_move_of_the_constants_that_merged_clean_is_red(ledgers: dict[str, Ledger]) -> None:
    """llama.cpp PR 25773: 12 became MmTypeA, and a patch that pushes "12 = pad" still merges."""
    changes = compare_ledgers(ledgers["b10809"], ledgers["b11063"])
    red = {change.name for change in changes if change.severity == "red"}
    assert {"mul_mm.comp SHMEM_STRIDE_PAD", "mul_mm.comp APPLY_SLM_A_RESHAPE"} <= red
    quiet = compare_ledgers(ledgers["b10566"], ledgers["b10809"])
    assert [change for change in quiet if change.severity == "red"] == []


def test_what_the_series_watches_is_as_reviewed(imported: Lab) -> None:
    git = Git(imported.repository)
    series = load_series(ROOT / "series")
    tree = tree_of(git, "b11549")
    step = Step("vulkan-lds-pad", "vulkan-mul-mm-pad.patch", "", tree)
    stack = Stack(parse_version("b11549"), "", tree, (step,))
    (result,) = check_ledgers(imported, git, series, stack, [(stack.version, tree)])
    assert (result.verdict, result.detail) == (Verdict.IDENTICAL, "")
    older = tree_of(git, "b10809")
    step = Step("vulkan-lds-pad", "vulkan-mul-mm-pad.patch", "", older)
    stack = Stack(parse_version("b10809"), "", older, (step,))
    (result,) = check_ledgers(imported, git, series, stack, [(stack.version, older)])
    assert result.verdict is Verdict.FAIL
    assert "watched constant mul_mm.comp SHMEM_STRIDE_PAD" in result.detail


def test_the_project_s_own_patches_change_no_row_that_is_red(imported: Lab) -> None:
    git = Git(imported.repository)
    series = load_series(ROOT / "series")
    commit = git.resolve(series.base.ref)
    assert commit is not None
    stack = apply_series(git, series, series.base, commit, imported.scratch)
    results = check_ledgers(imported, git, series, stack, [(stack.version, stack.tree)])
    verdicts = dict(zip((step.patch for step in stack.steps), results, strict=True))
    pad = verdicts["vulkan-mul-mm-pad.patch"]
    assert {result.verdict for result in results} <= {Verdict.IDENTICAL, Verdict.PASS}
    names = [change["name"] for change in pad.facts["changes"]]
    assert names == ["ggml_vk_mul_mm_spec", "ggml_vk_mul_mm_spec_quant"]


PLANTED = [
    ("id collision", GGML_H, "GGML_TYPE_Q2_0    = 42,", "GGML_TYPE_Q2_0    = 41,",
     "GGML_TYPE_Q2_0 and GGML_TYPE_Q1_0 both have id 41"),
    ("C and Python differ", PYTHON,
     "    MOSTLY_Q2_0          = 41", "    MOSTLY_Q2_0          = 42",
     "MOSTLY_Q2_0 is 41 in include/llama.h and 42 in gguf-py/gguf/constants.py"),
    ("shifted in the shader", MUL_MM, "layout(constant_id = 13) const uint SHMEM_STRIDE_PAD",
     "layout(constant_id = 15) const uint SHMEM_STRIDE_PAD",
     "ggml_vk_mul_mm_spec_quant fits no shader; nearest: "
     "SHMEM_STRIDE_PAD is pushed as 13, mul_mm.comp has it as 15"),
    ("shifted in the host", HOST,
     "            spec.push_back(0u);  // constantID=13: SHMEM_STRIDE_PAD = 0\n", "",
     "ggml_vk_mul_mm_spec_quant pushes APPLY_SLM_A_RESHAPE as 14 after MmTypeA as 12"),
    ("shifted in a macro of the host", HOST,
     "            spec_constants_cpy.push_back(state.p0); \\\n"
     "            spec_constants_cpy.push_back(state.p1); \\\n"
     "            spec_constants_cpy.push_back(state.d0); \\\n",
     "            spec_constants_cpy.push_back(state.p1); \\\n"
     "            spec_constants_cpy.push_back(state.p0); \\\n"
     "            spec_constants_cpy.push_back(state.d0); \\\n",
     "CREATE_CONV fits no shader; nearest: p1 is pushed as 9, conv2d_mm.comp has it as 10; "
     "p0 is pushed as 10, conv2d_mm.comp has it as 9"),
    ("grown in the shader only", QUANTIZE, "    uint num_blocks;\n",
     "    uint num_blocks;\n    uint more;\n",
     "quantize_q8_1.comp reads 12 bytes of push constants, the host announces 8 "
     "(sizeof(vk_quantize_q8_1_push_constants))"),
    ("a forgotten assert", GGML_C, 'static_assert(GGML_UNARY_OP_COUNT == 22',
     'static_assert(GGML_UNARY_OP_COUNT == 23',
     "static_assert GGML_UNARY_OP_COUNT #4 in ggml/src/ggml.c is 23, GGML_UNARY_OP_COUNT is 22"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "old", "new", "text"), [row[1:] for row in PLANTED], ids=[row[0] for row in PLANTED]
)
def test_a_fault_planted_in_b11549_is_found(
    edited: Edit, path: str, old: str, new: str, text: str
) -> None:
    assert text in [fault.text for fault in find_faults(edited(path, old, new))]


@pytest.mark.parametrize(
    ("path", "old", "name"),
    [
        (CPU, "        case GGML_OP_IM2COL_BACK:\n", "cpu GGML_OP_IM2COL_BACK"),
        (HOST, "        case GGML_OP_GET_ROWS_BACK:\n            return "
               "op->type == GGML_TYPE_F32 && op->src[0]->type == GGML_TYPE_F32;\n",
         "vulkan GGML_OP_GET_ROWS_BACK"),
    ],
)  # fmt: skip
def test_a_case_dropped_from_b11549_is_red(
    ledgers: dict[str, Ledger], edited: Edit, path: str, old: str, name: str
) -> None:
    after = edited(path, old, "")
    red = [c.name for c in compare_ledgers(ledgers["b11549"], after) if c.severity == "red"]
    assert red == [name]
    assert rows_of(after, "supports_op", name) == ()


def test_a_tree_is_read_within_its_time(imported: Lab) -> None:
    git = Git(imported.repository)
    tree = tree_of(git, "b11549")
    seconds = []
    for _ in range(3):
        started = time.process_time()
        read_ledger(git, tree)
        seconds.append(time.process_time() - started)
    assert min(seconds) < SECONDS
