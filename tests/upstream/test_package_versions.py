"""Reading the version numbers of packages and pip's settings."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.local_index import LocalIndex
from tests.upstream.packages import make_sdist, tree_files
from upstream.errors import EnvironmentFault
from upstream.index import open_index, parse_package_version, read_packages
from upstream.pip_settings import parse_pip_settings, read_pip_settings
from upstream.version import Version


@given(st.integers(2000, 2999), st.integers(1, 12), st.integers(100, 9999999), st.integers(0, 9999))
def test_build_number_is_the_third_component(
    year: int, month: int, build: int, repack: int
) -> None:
    text = f"{year}.{month}.{build}" + (f".{repack}" if repack else "")
    read = parse_package_version(text)
    assert read is not None
    assert (read.text, read.year, read.month) == (text, year, month)
    assert (read.build, read.repack) == (Version(build), repack)


@given(st.text(alphabet="0123456789.abcrv-٣ \n", max_size=20))
def test_what_is_read_says_what_the_text_says(text: str) -> None:
    read = parse_package_version(text)
    if read is not None:
        numbers = [int(part) for part in text.split(".")]
        assert numbers[2] == read.build.build
        assert text.isascii()
        assert text.strip() == text


@pytest.mark.parametrize(
    "text",
    ["0.2.14", "2026.13.11549", "2026.0.11549", "2026.10", "2026.10.11549rc1", "", "2026.10.7"],
)
def test_number_without_a_build_is_ignored(text: str) -> None:
    assert parse_package_version(text) is None


def test_newest_repack_counts(index: LocalIndex) -> None:
    for version in ("2026.4.8672.2", "2026.4.8672.10", "2026.4.8672"):
        index.add(f"xllamacpp-{version}.tar.gz", make_sdist(version, tree_files(1)))
    with open_index() as opened:
        packages = read_packages(opened)
    assert packages[Version(8672)].number.text == "2026.4.8672.10"
    assert [version.build for version in packages] == [100, 200, 300, 8672]


def test_size_hash_date_come_from_the_index(index: LocalIndex) -> None:
    with open_index() as opened:
        package = read_packages(opened)[Version(200)]
    name = "xllamacpp-2026.2.200.tar.gz"
    assert package.file.name == name
    assert package.file.size == len(index.files[name])
    assert package.file.sha256 == index.hashes[name]
    assert package.date == datetime(2026, 2, 1, tzinfo=UTC).timestamp()
    assert package.origin == "xllamacpp 2026.2.200"


def test_only_source_packages_count(index: LocalIndex) -> None:
    index.add("xllamacpp-2026.5.500-cp311-abi3-manylinux_2_28_x86_64.whl", b"")
    index.add("xllamacpp-2026.5.501.zip", b"")
    with open_index() as opened:
        assert Version(500) not in read_packages(opened)
        assert Version(501) not in read_packages(opened)


def test_index_without_the_package(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index.url.replace("simple", "empty"))
    with open_index() as opened, pytest.raises(EnvironmentFault, match="has no package"):
        read_packages(opened)


def test_index_that_answers_nonsense(index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "page", lambda: b'{"meta": {}, "files": 3}')
    with open_index() as opened, pytest.raises(EnvironmentFault, match="does not answer"):
        read_packages(opened)


def test_environment_beats_configuration_files() -> None:
    text = ":env:.index-url='http://127.0.0.1/env'\nglobal.index-url='http://127.0.0.1/file'\n"
    assert parse_pip_settings(text)["index-url"] == "http://127.0.0.1/env"
    assert parse_pip_settings("global.index-url='http://127.0.0.1/a=b'")["index-url"].endswith(
        "a=b"
    )
    assert parse_pip_settings("install.index-url='x'\nnonsense\n") == {}


def test_configuration_file_of_pip_is_read(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path_factory.mktemp("pip") / "pip.conf"
    path.write_text("[global]\nindex-url = http://127.0.0.1:1/simple\ncert = ca.pem\n")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_CERT", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(path))
    settings = read_pip_settings()
    assert (settings.index_url, settings.certificates) == ("http://127.0.0.1:1/simple", "ca.pem")
