"""`python -m validate.drift` as a real child on a real git remote, and the parts of the map."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from drift_map import make_planted_map

from series.model import Landed
from tests.series.lab import Lab, Result, run_child
from tests.series.miniature import Miniature, create_upstream, lines, write_series
from upstream.errors import ExitCode
from upstream.git import Git
from upstream.version import parse_version
from validate.drift.gather import thin
from validate.drift.html import MARKS, render_map
from validate.drift.model import Drift
from validate.drift.nightly import compare_with_last
from validate.drift.signatures import list_calls, read_signatures
from validate.drift.survey import find_return
from validate.drift.table import SYMBOLS, explain


class DriftLab(Lab):
    """The drift command on one series."""

    def drift(self, *args: str) -> Result:
        where = ("--upstream", "remote", "--remote", self.remote, "--series", str(self.series))
        command = (sys.executable, "-m", "validate.drift", *where, *args)
        return run_child(command, self.environment())


@pytest.fixture(scope="module")
def drift(tmp_path_factory: pytest.TempPathFactory) -> Drift:
    return make_planted_map(tmp_path_factory.mktemp("map"))


@pytest.fixture
def own(tmp_path: Path) -> Miniature:
    return create_upstream(tmp_path / "upstream.git")


def make_lab(own: Miniature, tmp_path: Path, *patches: tuple[str, dict[str, str]]) -> DriftLab:
    made = own.patches("b1", *patches)
    return DriftLab(tmp_path / "lab", write_series(tmp_path / "series", "b1", made), own.url)


API = "int step(int a, int b);\nint other(int a);\n"
CALL = ("call.patch", {"c.c": lines("c", changes={5: "    step(1, 2);"})})
CLASH = ("clash.patch", {"d.c": lines("d", changes={15: "d line 15 ours"})})


def grow(own: Miniature) -> None:
    """b1, then b2 with news, then three commits up to b3: the second one breaks `clash`."""
    own.release("b1", {"api.h": API, "c.c": lines("c"), "d.c": lines("d")})
    own.release("b2", {"news": "1\n", "d.c": "top\n" + lines("d")})
    main = "refs/heads/main"
    own.commit(main, None, {"news": "2\n"}, "news : more (#11)\n")
    taken = {"d.c": "top\n" + lines("d", changes={15: "d line 15 theirs"})}
    own.commit(main, None, taken, "d : take line 15 (#12)\n")
    own.release("b3", {"api.h": API.replace("int b", "long b, int c")})


def test_command_names_what_broke_each_patch(own: Miniature, tmp_path: Path) -> None:
    grow(own)
    lab = make_lab(own, tmp_path, CALL, CLASH)
    done = lab.drift("--json")
    assert done.code == ExitCode.GATE_FAILED, done.err
    document = done.document()
    assert document["versions"] == ["b1", "b2", "b3"]
    assert (document["head"], document["newest"], document["provider"]) == ("b3", "b2", "remote")
    call, clash = document["patches"]
    assert [c["state"] for c in call["cells"]] == ["clean", "clean", "clean"]
    assert [c["state"] for c in clash["cells"]] == ["clean", "offset", "conflict"]
    assert clash["broke"]["version"] == "b3"
    commit = clash["broke"]["commit"]
    assert (commit["pull"], commit["subject"]) == (12, "d : take line 15 (#12)")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", commit["date"])
    (cause,) = clash["broke"]["causes"]
    assert cause == {"path": "d.c", "lines": ["-d line 15", "+d line 15 theirs"]}
    # a clean merge that calls a function whose parameters changed is red
    assert call["cells"][2]["static"] == ["step(int a,int b) is step(int a,long b,int c) now"]
    assert call["cells"][1]["static"] == []
    assert (call["red"], call["cells"][2]["red"], call["broke"]["version"]) == (True, True, "b3")
    assert clash["churn"] == [0, 1, 2]
    assert clash["patch_id"] == "no commit from b1 to b3 has it"
    assert document["cells"] == 6
    assert 0 < clash["risk"] < 1


def test_table_page_and_exit_code(own: Miniature, tmp_path: Path) -> None:
    grow(own)
    lab = make_lab(own, tmp_path, CLASH)
    page = tmp_path / "page" / "map.html"
    red = lab.drift("--html", str(page))
    assert red.code == ExitCode.GATE_FAILED
    assert re.search(r"^clash +\|=\| +~ +X *$", red.out, re.M)
    assert "X conflict" in red.out
    assert "PR #12: d : take line 15 (#12)" in red.out
    assert "newest version where every patch applies or has landed: b2" in red.out
    assert "1 patches x 3 versions in" in red.out
    assert f"map: {page}" in red.err
    assert "<title>Drift map on b3</title>" in page.read_text()
    green = lab.drift("--versions", "b2", "--no-static")
    assert green.code == ExitCode.OK
    assert "b2: every patch applies or has landed" in green.out
    assert (lab.folder / "report" / "drift.html").exists()
    advance = lab.drift("--advance")
    assert (advance.code, advance.out.strip()) == (
        ExitCode.OK, "newest version where every patch applies or has landed: b2",
    )  # fmt: skip
    assert lab.refs() == {}


def test_nightly_says_what_changed(own: Miniature, tmp_path: Path) -> None:
    own.release("b1", {"d.c": lines("d"), "c.c": lines("c")})
    lab = make_lab(own, tmp_path, CLASH)
    first = lab.drift("--nightly")
    assert first.code == ExitCode.OK, first.err
    assert "since last run: first run: nothing to compare with" in first.out
    again = lab.drift("--nightly", "--json")
    assert again.document()["changes"] == ["nothing changed since the last run"]
    own.release("b2", {"d.c": lines("d", changes={15: "d line 15 theirs"})})
    for path in (lab.folder / "listings").iterdir():
        path.unlink()  # as if a day had passed: the listing is remembered for a while
    red = lab.drift("--nightly", "--json")
    assert red.code == ExitCode.GATE_FAILED
    assert red.document()["changes"] == [
        "HEAD was b1, is b2",
        "clash.patch: was clean, is conflict",
    ]
    assert json.loads((lab.state / "drift.json").read_text())["head"] == "b2"


@pytest.mark.parametrize("memory", ["{", "[]", '{"a": 1}', '{"clash.patch": "clean"}'])
def test_damaged_memory_of_the_last_night_is_a_first_run(
    drift: Drift, tmp_path: Path, memory: str
) -> None:
    (tmp_path / "drift.json").write_text(memory)
    assert compare_with_last(drift, tmp_path) == ["first run: nothing to compare with"]
    assert compare_with_last(drift, tmp_path) == ["nothing changed since the last run"]


def test_patches_that_come_and_go_are_told(drift: Drift, tmp_path: Path) -> None:
    compare_with_last(replace(drift, rows=drift.rows[1:]), tmp_path)
    assert compare_with_last(replace(drift, rows=drift.rows[:-1]), tmp_path) == [
        "exact.patch: new on the map, landed",
        "off.patch: no longer on the map, was offset",
    ]


def test_series_without_a_patch_is_no_map(own: Miniature, tmp_path: Path) -> None:
    own.release("b1", {"d.c": lines("d")})
    lab = make_lab(own, tmp_path)
    done = lab.drift()
    assert done.code == ExitCode.USAGE
    assert "has no patch to look at" in done.err


def test_every_case_on_one_map(drift: Drift) -> None:
    rows = {row.patch.removesuffix(".patch"): row for row in drift.rows}
    assert rows["exact"].landed_in == parse_version("b200")
    assert rows["back"].returned == parse_version("b300")
    assert not rows["back"].red_at_head
    broke = rows["torn"].broke
    assert broke is not None
    assert (broke.version, broke.after) == (parse_version("b200"), parse_version("b100"))
    assert [row.patch for row in drift.red] == ["clash.patch", "torn.patch"]
    assert drift.newest == parse_version("b100")
    assert "upstream took it back: needed again in b300" in explain(drift)


def test_record_that_upstream_contradicts_is_red(drift: Drift) -> None:
    row = next(row for row in drift.rows if row.patch == "back.patch")
    record = Landed("back", "back.patch", "#7", parse_version("b200"), "seen")
    again = replace(row, carried=replace(row.carried, record=record))
    assert again.needed_again
    assert again.red_at_head
    assert not row.needed_again
    assert find_return(again.carried, again.cells) == parse_version("b300")


def test_page_shows_every_cell_without_script(drift: Drift) -> None:
    text = render_map(drift)
    targets = set(re.findall(r'<a class="cell[^>]* href="#(cell-\d+-\d+)"', text))
    assert len(targets) >= 15
    assert all(f'<div class="opened" id="{each}">' in text for each in targets)
    hunks = set(re.findall(r'href="#(patch-\d+-hunk-\d+)"', text))
    assert len(hunks) >= len(drift.rows)
    assert all(f'id="{each}"' in text for each in hunks)
    assert "+exact line 9 fixed" in text
    assert "<script" not in text
    assert "http://" not in text
    assert "https://" not in text
    hostile = replace(drift.rows[0], patch_id="<b onclick=x>")
    assert "&lt;b onclick=x&gt;" in render_map(replace(drift, rows=(hostile, *drift.rows[1:])))


def test_each_state_has_a_symbol_of_its_own() -> None:
    for table in (SYMBOLS, {state: (mark.symbol,) for state, mark in MARKS.items()}):
        assert len({each[0] for each in table.values()}) == len(table) == 9


def test_remote_with_many_tags_is_thinned_evenly() -> None:
    versions = [parse_version(f"b{n}") for n in range(1000)]
    chosen = thin(versions, 40)
    assert (len(chosen), chosen[0], chosen[-1]) == (40, versions[0], versions[-1])
    gaps = {b.build - a.build for a, b in pairwise(chosen)}
    assert gaps <= {25, 26}
    assert thin(versions[:3], 40) == versions[:3]


HEADER = """\
/* int commented(int x); */
LLAMA_API int32_t run_it(
        struct ctx * c,   // the context
        int32_t      n);
#define CHECK_IT(x) do_it(x)
class box {
    void put_in(int a, int b = 2) const;
};
int main() { return run_it(a, 1); }
    x = put_in(7);
    put_in(8);
"""


def test_signatures_are_declarations_not_calls(own: Miniature) -> None:
    own.release(
        "b1", {"include/a.h": HEADER, "vendor/b.h": "int run_it(void);\n", "a.py": "run_it("}
    )
    names = ("CHECK_IT", "put_in", "run_it", "nowhere")
    found = read_signatures(Git(own.path), "b1^{tree}", names)
    assert found == {
        "CHECK_IT": ["x"],
        "put_in": ["int a,int b=2"],
        "run_it": ["struct ctx*c,int32_t n"],
    }
    assert read_signatures(Git(own.path), "b1^{tree}", ()) == {}
    calls = list_calls(["if (run_it(c, 1)) {", "  put_in(x); // not_this(y)", "  sizeof(int)"])
    assert calls == ("put_in", "run_it")
