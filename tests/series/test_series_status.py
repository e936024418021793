"""`status`: what the stack is, where it stands and what waits, for people and programs."""

from __future__ import annotations

from pathlib import Path

from tests.series.conftest import MakeLab
from tests.series.miniature import CLASH, STEADY, Miniature, write_series

RECORD = (
    '[[landed]]\ntopic = "first"\npatch = "old.patch"\nreference = "#5"\n'
    'version = "b100"\nevidence = "read it"\n'
    '[patch."steady.patch"]\nnumerics = { vulkan = "nmse" }\ncheck = "steady.py"\n'
)


def test_status_tells_series_upstream_stack_records_and_what_waits(
    upstream: Miniature, tmp_path: Path, make_lab: MakeLab
) -> None:
    patches = upstream.patches("b100", STEADY, CLASH)
    series = write_series(tmp_path / "series", "b100", patches, extra=RECORD)
    lab = make_lab(series)
    fresh = lab.run("status")
    assert fresh.code == 0, fresh.err
    assert fresh.out.splitlines() == [
        f"{series}: 2 patches on b100; no stack yet: nox -s rebase",
        "newest upstream: b300 (remote)",
        "  steady.patch  first",
        "  clash.patch   first",
        "  landed in b100: old.patch (#5)",
    ]
    report = lab.rebase("--onto", "b100", "--json").document()
    lab.rebase("--onto", "b200")
    document = lab.run("status", "--json").document()
    assert (document["base"], document["head"], document["stack"]) == ("b100", "b300", "b100")
    assert document["tip_tree"] == report["tip_tree"]
    assert document["patches"][0] == {
        "topic": "first",
        "patch": "steady.patch",
        "numerics": {"vulkan": "nmse"},
        "check": "steady.py",
    }
    assert document["patches"][1]["numerics"] == {"cpu": "bit-exact"}
    assert document["landed"][0]["evidence"] == "read it"
    tree = lab.parked / "clash" / "tree"
    assert document["parked"] == [{"patch": "clash.patch", "worktree": str(tree)}]
    text = lab.run("status").out
    assert "2 patches on b100; stack on b100" in text
    assert f"  parked: clash.patch in {tree}" in text


def test_status_of_a_remote_that_does_not_answer_names_the_next_step(
    tmp_path: Path, make_lab: MakeLab
) -> None:
    series = write_series(tmp_path / "series", "b100", {})
    done = make_lab(series, remote=(tmp_path / "nowhere.git").as_uri()).run("status")
    assert done.code == 3
    assert "no upstream source" in done.err
    assert "next:" in done.err
