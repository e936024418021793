"""The package index: which packages ship which upstream version.

The index is the one that pip would ask (environment, configuration files), else the default
endpoint of pypi-simple; its JSON API gives addresses, sizes and hashes without running anything.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

import requests
from pypi_simple import ACCEPT_JSON_PREFERRED, PYPI_SIMPLE_ENDPOINT, DistributionPackage, PyPISimple
from pypi_simple.errors import NoSuchProjectError, UnsupportedContentTypeError

from upstream import process
from upstream.download import RemoteFile
from upstream.errors import EnvironmentFault, LabError
from upstream.version import Version

LOGGER = logging.getLogger("lab")
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


def open_session() -> requests.Session:
    """A session that trusts the certificates that pip trusts."""
    session = requests.Session()
    if certificates := os.environ.get("PIP_CERT"):
        session.verify = certificates
    return session


def read_packages(session: requests.Session) -> dict[Version, Package]:
    """The source packages of the index, the newest re-pack of each build.

    Raises EnvironmentFault when the index does not answer or has no such package.
    """
    found: dict[Version, Package] = {}
    for package in _ask_index(session):
        known = found.get(package.number.build)
        if known is None or known.number.repack < package.number.repack:
            found[package.number.build] = package
    return dict(sorted(found.items()))


def _ask_index(session: requests.Session) -> list[Package]:
    client = PyPISimple(find_endpoint(), session=session, accept=ACCEPT_JSON_PREFERRED)
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
    if each.package_type != "sdist" or number is None or each.is_yanked or not sha256:
        return None
    # An index without upload times: the month in the number is the same on every machine, too.
    uploaded = each.upload_time or datetime(number.year, number.month, 1, tzinfo=UTC)
    file = RemoteFile(each.filename, each.url, each.size, sha256)
    return Package(number, file, int(uploaded.timestamp()))


def find_endpoint() -> str:
    """The index that pip would ask: its environment, then its configuration, then the default."""
    return os.environ.get("PIP_INDEX_URL") or _pip_setting("index-url") or PYPI_SIMPLE_ENDPOINT


def _pip_setting(name: str) -> str | None:
    """A setting of pip's configuration files; None without pip or without the setting."""
    command = (sys.executable, "-m", "pip", "config", "get", f"global.{name}")
    try:
        return process.run(command, timeout=20).text.strip() or None
    except LabError:
        LOGGER.debug("pip names no %s", name)
        return None
