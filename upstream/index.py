"""The package index: which packages ship which upstream version.

The index is the one that pip would ask (environment, configuration files), else the default
endpoint of pypi-simple; its JSON API gives addresses, sizes and hashes without running anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import requests
from pypi_simple import ACCEPT_JSON_PREFERRED, PYPI_SIMPLE_ENDPOINT, DistributionPackage, PyPISimple
from pypi_simple.errors import NoSuchProjectError, UnsupportedContentTypeError

from upstream.download import RemoteFile
from upstream.errors import EnvironmentFault
from upstream.pip_settings import read_pip_settings
from upstream.version import Version

PACKAGE = "xllamacpp"
TIME_LIMITS = (4.0, 30.0)  # seconds to connect, seconds without a byte
# year.month.build, and sometimes the number of a re-pack of the same build
_PACKAGE_VERSION = re.compile(r"(2\d{3})\.(\d{1,2})\.(\d{3,7})(?:\.(\d{1,4}))?", re.ASCII)


@dataclass(frozen=True)
class PackageVersion:
    """A version number of the package, read: its year and month, upstream's build, the re-pack."""

    text: str
    year: int
    month: int
    build: Version
    repack: int


@dataclass(frozen=True)
class Package:
    """One source package of the index; `date` is its upload time, seconds since 1970."""

    number: PackageVersion
    file: RemoteFile
    date: int

    @property
    def origin(self) -> str:
        return f"{PACKAGE} {self.number.text}"


def parse_package_version(text: str) -> PackageVersion | None:
    """Read 2026.10.11549 or 2026.4.8672.1; None for numbers that hold no build (0.2.14)."""
    match = _PACKAGE_VERSION.fullmatch(text)
    if match is None or not 1 <= int(match[2]) <= 12:
        return None
    year, month, build, repack = (int(group or 0) for group in match.groups())
    return PackageVersion(text, year, month, Version(build), repack)


@dataclass(frozen=True)
class Index:
    """An open connection to a package index."""

    endpoint: str
    session: requests.Session


@contextmanager
def open_index() -> Iterator[Index]:
    """The index that pip would ask; the session trusts the certificates that pip trusts."""
    settings = read_pip_settings()
    with requests.Session() as session:
        session.verify = settings.certificates or True
        yield Index(settings.index_url or PYPI_SIMPLE_ENDPOINT, session)


def read_packages(index: Index) -> dict[Version, Package]:
    """The source packages of the index, the newest re-pack of each build.

    Raises EnvironmentFault when the index does not answer or has no such package.
    """
    found: dict[Version, Package] = {}
    for package in _ask_index(index):
        known = found.get(package.number.build)
        if known is None or known.number.repack < package.number.repack:
            found[package.number.build] = package
    return dict(sorted(found.items()))


def _ask_index(index: Index) -> list[Package]:
    client = PyPISimple(index.endpoint, session=index.session, accept=ACCEPT_JSON_PREFERRED)
    try:
        page = client.get_project_page(PACKAGE, timeout=TIME_LIMITS)
    except NoSuchProjectError as error:
        raise EnvironmentFault(f"the package index has no package {PACKAGE}") from error
    except (requests.RequestException, UnsupportedContentTypeError, ValueError) as error:
        raise EnvironmentFault(f"the package index does not answer: {explain(error)}") from error
    return [package for each in page.packages if (package := _read_package(each))]


def explain(error: BaseException) -> str:
    """The innermost reason of a network error; the outer ones repeat the whole address."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(error) or type(error).__name__


def _read_package(each: DistributionPackage) -> Package | None:
    number = parse_package_version(each.version or "")
    sha256 = each.digests.get("sha256", "")
    usable = each.filename.endswith(".tar.gz") and sha256 and not each.is_yanked
    if each.package_type != "sdist" or number is None or not usable:
        return None
    # An index without upload times: the month in the number is the same on every machine, too.
    uploaded = each.upload_time or datetime(number.year, number.month, 1, tzinfo=UTC)
    # A name of ours: what the index calls the file must not choose a place on this disk.
    file = RemoteFile(f"{PACKAGE}-{number.text}.tar.gz", each.url, each.size, sha256)
    return Package(number, file, int(uploaded.timestamp()))
