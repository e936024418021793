"""series.toml: what is read, and what is refused with words that help."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from series.manifest import digest_series, landed_by, load_series
from series.model import IsaAllowance
from tests.series.conftest import MakeLab
from tests.series.miniature import manifest, write_series
from upstream.errors import UsageError
from upstream.version import Version

TOPIC = '[[topic]]\nname = "{name}"\ntitle = "T"\nrequires = {requires}\npatches = {patches}\n'
LANDED = (
    '[[landed]]\ntopic = "{topic}"\npatch = "{patch}"\nreference = "#1"\n'
    'version = "{version}"\nevidence = "read it"\n'
)


def topic(name: str, patches: str = "[]", requires: str = "[]") -> str:
    return TOPIC.format(name=name, patches=patches, requires=requires)


def landed(topic: str, patch: str, version: str = "b100") -> str:
    return LANDED.format(topic=topic, patch=patch, version=version)


ONE = topic("one", '["a.patch"]')
REFUSED = {
    "the same file twice": (topic("one", '["a.patch", "a.patch"]'), "patch 'a.patch' is named"),
    "the same file in two topics": (ONE + topic("two", '["a.patch"]'), "'a.patch' is named twice"),
    "the same topic twice": (ONE + topic("one"), "topic 'one' is named twice"),
    "record of an unknown topic": (landed("oen", "x.patch"), "names the unknown topic 'oen'"),
    "requires an unknown topic": (topic("one", requires='["nil"]'), "unknown topic 'nil'"),
    "requires a later topic": (
        topic("one", requires='["two"]') + topic("two"),
        "'one' requires 'two', which is not before it",
    ),
    "cyclic requires": (
        topic("one", requires='["two"]') + topic("two", requires='["one"]'),
        "a cycle, or the wrong order",
    ),
    "requires itself": (topic("one", requires='["one"]'), "not before it"),
    "unknown key at the top": ("bse = 1\n", "the top level has the unknown key 'bse'"),
    "unknown key in a topic": (ONE + "requirs = []\n", "unknown key 'requirs'"),
    "unknown key in a record": (ONE + landed("one", "b.patch") + "x = 1\n", "unknown key 'x'"),
    "unknown numerics": (
        ONE + '[patch."a.patch"]\nnumerics = { cpu = "bitexact" }\n',
        "numerics of a.patch on cpu: 'bitexact' is not one of bit-exact, nmse, changes",
    ),
    "free that is no truth value": (
        ONE + '[patch."a.patch"]\nfree = "yes"\n',
        "free of a.patch must be true or false",
    ),
    "isa without a reason": (
        ONE + '[patch."a.patch"]\nisa = { worse = 5 }\n',
        "the key 'allow' is missing",
    ),
    "isa with an empty reason": (
        ONE + '[patch."a.patch"]\nisa = { allow = " " }\n',
        "allow must say why",
    ),
    "isa that is worse by a word": (
        ONE + '[patch."a.patch"]\nisa = { allow = "r", worse = "much" }\n',
        "worse must be a number of percent, not 'much'",
    ),
    "isa that spills less than nothing": (
        ONE + '[patch."a.patch"]\nisa = { allow = "r", spilled = -1 }\n',
        "spilled must be a number of registers, not -1",
    ),
    "isa that loses half a wave": (
        ONE + '[patch."a.patch"]\nisa = { allow = "r", waves = 0.5 }\n',
        "waves must be a number of waves, not 0.5",
    ),
    "numerics that is no table": (ONE + '[patch."a.patch"]\nnumerics = "nmse"\n', "must map"),
    "claim of a patch that is nowhere": (ONE + '[patch."b.patch"]\n', "'b.patch'] is about"),
    "landed yet listed": (
        ONE + landed("one", "a.patch"),
        "a.patch landed in b100 but is still listed on b100",
    ),
    "dropped yet listed": (
        ONE + '[[dropped]]\ntopic = "one"\npatch = "a.patch"\nreason = "r"\n',
        "a.patch is dropped and listed at once",
    ),
    "record without evidence": (ONE + '[[dropped]]\ntopic = "one"\npatch = "b"\n', "'reason'"),
    "version that is a number": (
        (ONE + landed("one", "b.patch")).replace('"b100"', "100"),
        "must be a build tag in quotes",
    ),
    "version that is none": (ONE + landed("one", "b.patch", "1.2"), "'1.2' is not an upstream"),
    "waiver of an unknown topic": (
        ONE + '[[waiver]]\ntopic = "oen"\nrule = "ascii"\nreason = "r"\n',
        "the waiver of 'ascii' names the unknown topic 'oen' (known: one)",
    ),
    "waiver with a blank reason": (
        ONE + '[[waiver]]\ntopic = "one"\nrule = "ascii"\nreason = " "\n',
        "the waiver of 'ascii' for 'one' has no reason",
    ),
    "waiver without a reason": (
        ONE + '[[waiver]]\ntopic = "one"\nrule = "ascii"\n',
        "the key 'reason' is missing",
    ),
    "unknown key in a waiver": (
        ONE + '[[waiver]]\ntopic = "one"\nrule = "ascii"\nreason = "r"\npatch = "x"\n',
        "a [[waiver]] has the unknown key 'patch'",
    ),
    "topic as one table": (ONE.replace("[[topic]]", "[topic]"), "write [[topic]]"),
    "patches that is no list": (topic("one", '"a.patch"'), "must be a list of strings"),
    "topic name with a slash": (topic("a/b"), "topic name 'a/b' must match"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_manifest_is_refused(case: str, tmp_path: Path) -> None:
    text, words = REFUSED[case]
    (tmp_path / "series.toml").write_text(f'base = "b100"\n{text}')
    with pytest.raises(UsageError) as refusal:
        load_series(tmp_path)
    assert words in refusal.value.what
    assert str(tmp_path / "series.toml") in refusal.value.what
    assert refusal.value.remedy.startswith("mend ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"base = ", "is not TOML"),
        (b'base = "b1"\n\xff\n', "is not TOML"),
        (b"", "'base' is missing"),
        (b"base = 100\n", "base must be a build tag in quotes"),
        (b'base = "main"\n', "'main' is not an upstream version"),
    ],
)
def test_file_that_is_no_manifest_is_refused(text: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "series.toml").write_bytes(text)
    with pytest.raises(UsageError) as refusal:
        load_series(tmp_path)
    assert words in refusal.value.what


def test_missing_manifest_names_the_option_to_give(tmp_path: Path, make_lab: MakeLab) -> None:
    done = make_lab(tmp_path / "nowhere").run("status")
    assert done.code == 2
    assert f"error: there is no {tmp_path / 'nowhere' / 'series.toml'}" in done.err
    assert "next: name a series directory with --series DIR" in done.err


def test_missing_patch_file_is_named(tmp_path: Path, make_lab: MakeLab) -> None:
    series = write_series(tmp_path / "series", "b100", {})
    (series / "series.toml").write_text(manifest("b100", ["lost.patch"]))
    done = make_lab(series).rebase("--onto", "b200")
    assert done.code == 2
    assert "patches/lost.patch: the file is named in series.toml but does not exist" in done.err


PLAIN = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}\.patch", fullmatch=True)


def names_in(folder: Path, name: str) -> list[str]:
    """The patch names that the manifest with this one name gives."""
    text = name.replace("\\", "\\\\").replace('"', '\\"')
    (folder / "series.toml").write_text(manifest("b1", [text]), "utf-8")
    return [patch for _, patch in load_series(folder).order()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("manifests")


@given(name=PLAIN)
def test_plain_patch_names_are_read_as_written(name: str, folder: Path) -> None:
    assert names_in(folder, name) == [name]


WILD = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1)


@settings(max_examples=30)
@given(before=WILD, sign=st.sampled_from(["/", "\\", " ", "*", ":", "\u00e9", "\u2044"]))
def test_patch_name_with_any_other_sign_is_refused(before: str, sign: str, folder: Path) -> None:
    for name in (f"{before}{sign}x.patch", f"{sign}{before}.patch", f"../{before}.patch"):
        with pytest.raises(UsageError, match="patch file name"):
            names_in(folder, name)


@pytest.mark.parametrize(
    "name", ["a/b.patch", "../a.patch", "/a.patch", ".a.patch", "a", "-a.patch"]
)
def test_patch_name_that_leaves_the_folder_is_refused(name: str, folder: Path) -> None:
    with pytest.raises(UsageError, match="patch file name"):
        names_in(folder, name)


def test_a_loosened_gate_has_its_reason(tmp_path: Path) -> None:
    text = ONE + '[patch."a.patch"]\nisa = { allow = "half the passes", worse = 5 }\n'
    (tmp_path / "series.toml").write_text(f'base = "b100"\n{text}')
    series = load_series(tmp_path)
    assert series.claim("a.patch").isa == IsaAllowance("half the passes", 5.0, 0)
    assert series.claim("other.patch").isa is None


def test_landed_records_hold_from_their_version_on(tmp_path: Path) -> None:
    text = ONE + landed("one", "b.patch", "b100") + landed("one", "a.patch", "b300")
    (tmp_path / "series.toml").write_text(f'base = "b100"\n{text}')
    series = load_series(tmp_path)
    assert set(landed_by(series, Version(299))) == {"b.patch"}
    assert set(landed_by(series, Version(300))) == {"a.patch", "b.patch"}


def test_digest_follows_every_file_that_decides(tmp_path: Path) -> None:
    series = load_series(write_series(tmp_path / "series", "b100", {"a.patch": b"A"}))
    seen = {digest_series(series)}
    for name in ("patches/a.patch", "series.toml", "acknowledged.toml", "resolutions/a.resolution"):
        path = series.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"changed " + name.encode())
        seen.add(digest_series(series))
    (series.directory / "patches" / "a.patch").unlink()
    seen.add(digest_series(series))
    assert len(seen) == 6
    (series.directory / "notes.txt").write_text("no part of the stack")
    assert digest_series(series) in seen


def test_two_checkouts_with_odd_names_have_names_of_their_own(tmp_path: Path) -> None:
    names = [
        load_series(write_series(tmp_path / name, "b1", {})).id
        for name in ("a b", "a..b", "x.lock", "~^:?*[", "sub/a b")
    ]
    assert len(set(names)) == 5
    assert all(name.replace("-", "").isalnum() for name in names)
