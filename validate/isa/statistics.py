"""What a compiler says about one pipeline, and how it is asked about many."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upstream.errors import EnvironmentFault
from upstream.progress import show_progress
from validate.isa.compilers import Compiler, digest
from validate.isa.spirv import Shader
from validate.isa.variants import Variant
from validate.isa.workshop import Workshop

LOGGER = logging.getLogger("lab")
CHUNK = 12  # pipelines a process: small enough to share the work, and to lose little
ANY_CODE = range(-64, 256)
NAMES = {
    "vgprs": "VGPRs",
    "spilled_vgprs": "Spilled VGPRs",
    "spilled_sgprs": "Spilled SGPRs",
    "scratch": "Scratch size",
    "lds": "LDS size",
    "waves": "Subgroups per SIMD",
    "instructions": "Instructions",
    "latency": "Latency",
    "inverse_throughput": "Inverse Throughput",
}
_LOAD = re.compile(r"ds_load_(?P<two>2addr_)?(?:stride64_)?(?P<width>b32|b64|b128)")


@dataclass(frozen=True)
class Numbers:
    """A compiler's answer. scratch, lds: bytes; waves: subgroups per SIMD; latency and
    inverse_throughput: the compiler's own model, in cycles, without memory and banks. clang says
    none of these and no instructions about a HIP kernel; sgprs are read for HIP only.

    access: how often each LDS instruction is in the code, None where nobody asked. error: why there
    are no numbers.
    """

    vgprs: int = 0
    sgprs: int = 0
    spilled_vgprs: int = 0
    spilled_sgprs: int = 0
    scratch: int = 0
    lds: int = 0
    waves: int = 0
    instructions: int = 0
    latency: int = 0
    inverse_throughput: int = 0
    access: Mapping[str, int] | None = None
    error: str = ""

    @property
    def loads(self) -> dict[str, int]:
        """LDS loads by width; one that reads two places (2addr) is split and counts apart."""
        found: dict[str, int] = {}
        for name, count in (self.access or {}).items():
            if match := _LOAD.match(name):
                kind = f"2x{match['width']}" if match["two"] else match["width"]
                found[kind] = found.get(kind, 0) + count
        return dict(sorted(found.items()))


@dataclass(frozen=True)
class Request:
    """One pipeline for one compiler, with its compiled shader.

    access: LDS instructions are counted too, which takes the text of the code.
    """

    compiler: Compiler
    variant: Variant
    shader: Shader
    access: bool = True

    @property
    def key(self) -> str:
        """Stands for all that decides the answer."""
        kind = "numbers" if self.access else "numbers without access"
        return digest(kind, self.compiler.fingerprint, code_key(self.variant, self.shader))

    def line(self, shop: Workshop) -> str:
        """The line for pipeline_stats --batch."""
        each = self.variant
        path = self.compiler.place.inside(shop.folder / "spirv" / f"{self.shader.spirv}.spv")
        spec = ",".join(f"{number}={value}" for number, value in enumerate(each.spec))
        options = {"bindings": each.bindings, "push": each.push, "subgroup": each.subgroup}
        options |= {"full": int(each.full), "robust": int(each.robust), "isa": int(self.access)}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return "\t".join(["--spirv", path, *(["--spec", spec] if spec else []), *words])


def code_key(variant: Variant, shader: Shader) -> str:
    """Stands for what a compiler gets to see: neither names nor the text of the shader."""
    spec = sorted(shader.effective(variant.spec).items())
    numbers = (spec, variant.bindings, variant.push, variant.subgroup, variant.full, variant.robust)
    return digest(shader.spirv, json.dumps(numbers))


def read_numbers(document: Mapping[str, Any]) -> Numbers:
    """One line of pipeline_stats. Raises ValueError where it is none."""
    if "error" in document:
        return Numbers(error=str(document["error"]))
    try:
        statistics = document["statistics"]
        found: dict[str, Any] = {key: int(statistics[name]) for key, name in NAMES.items()}
        access = document.get("lds")
        return Numbers(**found, access=None if access is None else dict(access))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no statistics of RADV: {error}") from error


def known_numbers(shop: Workshop, requests: Sequence[Request]) -> dict[str, Numbers]:
    """What was answered before, by key."""
    found = shop.look_up(request.key for request in requests)
    return {key: read_numbers(document) for key, document in found.items()}


def ask_compilers(shop: Workshop, requests: Sequence[Request]) -> dict[str, Numbers]:
    """The answers by key; what is known is not asked again, and answers are kept as they come.

    A pipeline at which the compiler crashes gets Numbers with `error`; that is not kept.
    """
    numbers = known_numbers(shop, requests)
    missing = {each.key: each for each in requests if each.key not in numbers}
    with show_progress("pipelines", len(missing)) as meter:

        def answer(chunk: Sequence[Request]) -> dict[str, Numbers]:
            documents = dict(_ask(shop, chunk))
            shop.keep({key: each for key, each in documents.items() if "error" not in each})
            meter.advance(len(documents))
            return {key: read_numbers(document) for key, document in documents.items()}

        for found in shop.share_out(answer, _chunk(list(missing.values()))):
            numbers |= found
    return numbers


def _chunk(requests: Sequence[Request]) -> Iterator[list[Request]]:
    for compiler in dict.fromkeys(id(each.compiler) for each in requests):
        mine = [each for each in requests if id(each.compiler) == compiler]
        for start in range(0, len(mine), CHUNK):
            yield mine[start : start + CHUNK]


def _ask(shop: Workshop, chunk: Sequence[Request]) -> Iterator[tuple[str, dict[str, Any]]]:
    """One document a request. A process that ends early is started again after the culprit."""
    waiting = list(chunk)
    while waiting:
        lines, said = _run(shop, waiting)
        for request, line in zip(waiting, lines, strict=False):
            yield request.key, line
        waiting = waiting[len(lines) :]
        if waiting:
            culprit = waiting.pop(0)
            LOGGER.warning("%s: no answer for %s", culprit.compiler.name, culprit.variant.label)
            yield culprit.key, {"error": f"no answer: {said}"}


def _run(shop: Workshop, requests: Sequence[Request]) -> tuple[list[dict[str, Any]], str]:
    compiler = requests[0].compiler
    stdin = "".join(request.line(shop) + "\n" for request in requests).encode()
    command = [compiler.place.inside(Path(compiler.program)), "--batch"]
    done = compiler.place.run(command, compiler.variables, stdin=stdin, ok=ANY_CODE)
    said = done.stderr.decode("utf-8", "replace").strip()[-300:] or f"exit code {done.code}"
    if not done.stdout and "no device" in said:
        raise EnvironmentFault(
            f"{compiler.name}: the driver lists no device any more",
            remedy="run: nox -s toolchain",
        )
    lines = []
    for text in done.text.splitlines()[: len(requests)]:
        try:
            document = json.loads(text)
            read_numbers(document)
        except ValueError:
            break
        lines.append(document)
    return lines, said
