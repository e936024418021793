"""test-backend-ops perf at a model's own sizes: MUL_MAT of every shape of matrix, and MUL_MAT_ID.

MUL_MAT comes from a test file (`--test-file`, tests/test-backend-ops.cpp of b10566 and b11549): one
line a case. For MUL_MAT_ID such files cannot serve: with them every token is given the same
experts, so that few experts have many rows each. Its built-in perf cases spread them evenly, but
there are few: those with the model's sizes are taken, and where there is none the page says so.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from upstream import process
from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from validate import profiles, speed_tools
from validate.artifacts import StepBinaries
from validate.cells import Cell, Judged, Speed
from validate.prefill.measure import Arena, Walked, find_speeds
from validate.prefill.models import count_experts, head_of
from validate.prefill.points import Leg
from validate.samplers import Job
from validate.shape_models.files import Head
from validate.speed import Pairing, discover_ops, measure_jobs

OPS = speed_tools.OPS
BASE_LIBRARY = "libggml-base.so"
# Looked up, convolved, or (the output) multiplied with a prompt's last token alone.
NOT_MULTIPLIED = re.compile(r"token_embd|conv1d|position_embd|_norm|altup|per_layer|^output\.")
F32, FLOAT_BYTES = GGMLQuantizationType.F32, 4
SECONDS = 60.0
MOST_OPS = 60  # ggml_op_name has no bound of its own; MUL_MAT is among the first
# The numbers of operations may differ between versions; each library tells its own.
ASK = """
import ctypes, sys
name = ctypes.CDLL(sys.argv[1]).ggml_op_name
name.restype = ctypes.c_char_p
names = [name(i) for i in range(int(sys.argv[2]))]
print(names.index(b"MUL_MAT"))
"""


@dataclass(frozen=True)
class Matrix:
    """A shape of matrix: rows of `k` values, `m` of them, in a type."""

    kind: GGMLQuantizationType
    m: int
    k: int

    def line(self, number: int, n: int) -> str:
        """The case of `n` columns as test-backend-ops reads it."""
        block, size = GGML_QUANT_SIZES[self.kind]
        row = self.k // block * size
        weights = (int(self.kind), self.k, self.m, 1, 1, size, row, row * self.m, row * self.m)
        step = self.k * FLOAT_BYTES
        rows = (int(F32), self.k, n, 1, 1, FLOAT_BYTES, step, step * n, step * n)
        whole = (number, int(F32), self.m, n, 1, 1, 0, 2, *weights, *rows)
        name = f"{self.kind.name.lower()}-m{self.m}-n{n}-k{self.k}"
        return " ".join(map(str, whole)) + f" {name}\n"


def list_matrices(head: Head) -> list[Matrix]:
    """The distinct shapes of matrices that every token of a prompt is multiplied with."""
    found = {
        Matrix(tensor.kind, tensor.shape[1], tensor.shape[0])
        for name, tensor in head.tensors.items()
        if len(tensor.shape) == 2 and tensor.shape[1] > 1 and not NOT_MULTIPLIED.search(name)
    }
    return sorted(found, key=lambda one: (one.k, one.m, int(one.kind)))


def write_cases(lab: Lab, matrices: Sequence[Matrix], ubatches: Sequence[int], number: int) -> Path:
    """The test file; its content is its name, which is in the key of what is measured with it."""
    text = "".join(matrix.line(number, n) for matrix in matrices for n in ubatches)
    path = lab.root / "prefill" / f"ops-{hashlib.sha256(text.encode()).hexdigest()[:16]}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def ask_number(binaries: StepBinaries) -> int:
    """The number of MUL_MAT in a build. Raises InvalidMeasurement where it does not tell."""
    names = [name for name in binaries.uses[OPS] if name.startswith(BASE_LIBRARY)]
    if not names:
        raise InvalidMeasurement(f"{OPS} of {binaries.folder} has no {BASE_LIBRARY} beside it")
    command = (sys.executable, "-c", ASK, str(binaries.folder / names[0]), str(MOST_OPS))
    done = process.run(command, timeout=SECONDS, ok=range(-64, 256))
    if done.code != 0 or not done.text.strip().isdigit():
        raise InvalidMeasurement(f"{binaries.folder / names[0]} does not name its operations")
    return int(done.text)


def expert_pattern(head: Head, ubatches: Sequence[int]) -> str:
    """A regex over the built-in cases of MUL_MAT_ID with the model's sizes; "" of a dense model."""
    count, used = count_experts(head)
    experts = [t for name, t in head.tensors.items() if count and name.endswith("_exps.weight")]
    if not experts:
        return ""
    kinds = "|".join(sorted({name_type(tensor.kind) for tensor in experts}))
    n = "|".join(map(str, ubatches))
    sizes = "|".join(sorted({f"m={t.shape[1]},n=({n}),k={t.shape[0]}" for t in experts}))
    return f"type_a=({kinds}),type_b=f32,n_mats={count},n_used={used},b=0,({sizes})(,|$)"


def name_type(kind: GGMLQuantizationType) -> str:
    """As ggml calls it: q4_K, iq3_xxs."""
    return re.sub("_k$", "_K", kind.name.lower())


def measure_ops(arena: Arena, lab: Lab, leg: Leg, seconds: float) -> Walked:
    """Every case of a leg, judged as prompts are; byte-identical programs are not run."""
    pairing = leg.pairing
    if any(OPS not in each.uses for each in (pairing.step, pairing.parent)):
        return Walked(leg, (_invalid(f"{OPS} is missing in one of the two"),), {})
    if pairing.is_identical(OPS):
        return Walked(leg, (Judged(_cell(), Speed.IDENTICAL),), {})
    try:
        jobs, note = _list_jobs(arena, lab, pairing)
    except InvalidMeasurement as error:
        return Walked(leg, (_invalid(error.what),), {})
    measured = measure_jobs(arena.bench, pairing, jobs, seconds)
    return Walked(leg, measured.cells, find_speeds(measured), note)


def _list_jobs(arena: Arena, lab: Lab, pairing: Pairing) -> tuple[list[Job], str]:
    """The processes, and what they lack."""
    numbers = {ask_number(each) for each in (pairing.parent, pairing.step)}
    if len(numbers) != 1:
        raise InvalidMeasurement("MUL_MAT has another number in each: no test file serves both")
    head, grid, where = head_of(arena.bench.room.model), arena.grid, arena.lane.placement
    path = write_cases(lab, list_matrices(head), grid.ubatches, numbers.pop())
    plain = ("perf", "-b", where.backend, "--test-file", str(path), "--output", "sql")
    jobs = [_make_job(arena, pairing, plain, "the model's MUL_MAT")]
    pattern = expert_pattern(head, grid.ubatches)
    if not pattern:
        return jobs, ""
    experts = speed_tools.ops_arguments(where, ("MUL_MAT_ID",), pattern)
    try:
        return [*jobs, _make_job(arena, pairing, experts, "the model's MUL_MAT_ID")], ""
    except InvalidMeasurement as error:
        return jobs, f"MUL_MAT_ID not measured, no built-in case has these sizes: {error.what}"


def _make_job(arena: Arena, pairing: Pairing, arguments: tuple[str, ...], what: str) -> Job:
    cases, skipped = discover_ops(arena.bench, pairing.parent, arguments, what)
    return profiles.ops_job(arena.bench.profile, arena.lane.placement, arguments, cases, skipped)


def _cell() -> Cell:
    return Cell(OPS, OPS, "us", 0.0)


def _invalid(reason: str) -> Judged:
    return Judged(_cell(), Speed.INVALID, reason=reason)
