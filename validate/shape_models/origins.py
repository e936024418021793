"""What shape models take from the lab: SmolLM2's file, upstream's schemas.

Imported only where it is asked for: a bare machine with numpy and gguf writes models without.
"""

from __future__ import annotations

from pathlib import Path

from upstream.errors import EnvironmentFault
from upstream.git import Git
from upstream.lab import open_lab
from upstream.provider import open_upstream
from validate.models import provide_model


def provide_smollm2() -> Path:
    """SmolLM2-135M, fetched when it is not in the lab."""
    model = provide_model(open_lab())
    return model.folder / model.name


def read_upstream(path: str) -> str:
    """A file of the newest upstream version that the lab has. Asks no network.

    Raises EnvironmentFault when there is none.
    """
    lab = open_lab()
    held = open_upstream(lab, "auto", None).imported()
    content = None
    if held:
        content = Git(lab.repository).read_blob(f"{held[max(held)].commit}:{path}")
    if content is None:
        raise EnvironmentFault(
            f"the lab has no upstream source with {path}",
            remedy="run: nox -s fetch; or name a file: --schema FILE",
        )
    return content.decode()
