"""Real processes of the outer shell: nox, the launcher, the doctor. None asks the network."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from ci.environment import MISLEADING

ROOT = Path(__file__).resolve().parents[2]
UNWANTED = ("LAB_DIR", "NO_COLOR", "FORCE_COLOR", "CXX", "CC", *MISLEADING)


def run(
    *command: str | os.PathLike[str], env: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end; `env` is added to ours, without what would disturb."""
    return subprocess.run(
        command,
        env=clean_environment(env or {}),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in UNWANTED and not key.startswith(("NOX", "PIP_", "PYTEST_"))
    }
    return kept | dict(extra)


def offline_pip(wheels: Path) -> dict[str, str]:
    """Settings that keep pip to one folder, deaf to the machine's configuration."""
    return {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": os.fspath(wheels)}


def write_wheel(folder: Path, name: str, version: str, modules: Mapping[str, str]) -> Path:
    """A wheel by hand, so that tests install something real without an index."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in modules.items():
            archive.writestr(path, text)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel
