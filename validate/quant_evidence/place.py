"""Where the evidence is gathered: the builds of base and tip, the models by their short names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from series.model import Stack
from upstream.errors import InvalidMeasurement, UsageError
from validate.artifacts import StepBinaries
from validate.build import Builder, build_stack
from validate.models import GEMMA3, SMOLLM2, PackagedModel

LICENCES: Mapping[str, str] = {
    SMOLLM2.name: "apache-2.0",
    GEMMA3.name: "gemma (https://ai.google.dev/gemma/terms): read it before you pass the file on",
}
MODELS: Mapping[str, PackagedModel] = {"smollm2": SMOLLM2, "gemma3": GEMMA3}


@dataclass(frozen=True)
class Builds:
    """Upstream itself, and upstream with the whole stack."""

    base: StepBinaries
    tip: StepBinaries


def build_ends(builder: Builder, stack: Stack) -> Builds:
    """Build base and tip, not what lies between; finished ones are taken from the store.

    Raises InvalidMeasurement when one does not compile.
    """
    ends = replace(stack, steps=stack.steps[-1:])
    found = build_stack(builder, ends)
    for step in found:
        if step.binaries is None:
            raise InvalidMeasurement(
                f"{step.name} does not build: {step.error}", remedy="run: nox -s build"
            )
    binaries = [step.binaries for step in found if step.binaries]
    return Builds(binaries[0], binaries[-1])


def find_model(name: str) -> PackagedModel:
    """The packaged model of that short name. Raises UsageError for another."""
    if name not in MODELS:
        raise UsageError(
            f"there is no packaged model '{name}'", remedy=f"take some of {', '.join(MODELS)}"
        )
    return MODELS[name]


def describe_origin(name: str) -> str:
    """Where a model came from, for tables and cards."""
    for model in MODELS.values():
        if model.name == name:
            packages = ", ".join(package for package, _ in model.sources)
            return f"{name} from the PyPI package{'s' * (len(model.sources) > 1)} {packages}"
    return f"{name}, a file of the user"
