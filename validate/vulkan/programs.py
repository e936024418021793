"""The Vulkan build of a step, as a patch's own check is told of it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from validate.artifacts import StepBinaries
from validate.room import Launch

VARIABLE = "LAB_VULKAN"


@dataclass(frozen=True)
class VulkanPrograms:
    """Programs built with Vulkan, how they are started, and what builds a library for them."""

    binaries: StepBinaries
    launch: Launch
    headers: Path
    compiler: Path

    @property
    def told(self) -> str:
        """JSON, the content of LAB_VULKAN."""
        return json.dumps(
            {
                "bin": os.fspath(self.binaries.folder),
                "start": [*self.launch.start],
                "variables": dict(self.launch.variables),
                "device": self.launch.device,
                "headers": os.fspath(self.headers),
                "compiler": os.fspath(self.compiler),
            }
        )

    @property
    def inputs(self) -> dict[str, str]:
        """What they add to the key of a result."""
        return {"vulkan": self.binaries.key, **self.launch.inputs}
