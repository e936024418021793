"""What the compiler says about whole files of one tree, changed or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from upstream.errors import ExitCode
from validate.hip.compile import Compiled, HipBench, compile_files
from validate.hip.compiler import HipCompiler
from validate.hip.kernels import Kernel
from validate.hip.sources import choose_files, read_hip_tree
from validate.isa.judge import count_spills
from validate.isa.statistics import Numbers
from validate.report import align

SHOWN = 8  # kernels that are named; --json has all
Rows = list[tuple[str, ...]]
HEAD = ("file", "kernels", "spilled", "scratch", "max VGPRs", "min waves", "")


@dataclass(frozen=True)
class Survey:
    """The files of one tree under one compiler. tree: a version, or `tip`."""

    tree: str
    compiler: HipCompiler
    files: Mapping[str, Compiled]

    @property
    def kernels(self) -> dict[Kernel, Numbers]:
        """All kernels of the files that compile."""
        return {each: n for file in self.files.values() for each, n in file.kernels.items()}


def survey_files(bench: HipBench, tree: str, name: str, wanted: list[str]) -> Survey:
    """Compile the wanted files of a tree (all where none is named).

    Raises UsageError for a file that the tree does not have.
    """
    found = read_hip_tree(bench.shop, tree)
    files = choose_files(found, wanted)
    compiled = compile_files(bench, ((found, file) for file in files))
    return Survey(name, bench.compiler, {file: compiled[bench.key(found, file)] for file in files})


def survey_exit_code(survey: Survey) -> ExitCode:
    """4 where a file does not compile or has no kernel at all in sight, 0 else."""
    failed = any(file.error for file in survey.files.values())
    return ExitCode.INVALID if failed or not survey.kernels else ExitCode.OK


def format_survey(survey: Survey) -> str:
    """A row a file, then the kernels that spill or use scratch."""
    rows: Rows = [HEAD, *(_row(name, file) for name, file in survey.files.items())]
    parts = [_head(survey), align(rows), *_list_spilling(survey)]
    return "\n\n".join(parts)


def format_survey_markdown(survey: Survey) -> str:
    """The same as Markdown."""
    rows: Rows = [(*HEAD[:-1], "note"), ("---",) * len(HEAD)]
    rows += [_row(name, file) for name, file in survey.files.items()]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    kernels = "\n".join(f"* {line}" for line in _spilling_lines(survey, "`"))
    return "\n\n".join(filter(None, (_head(survey), table, kernels)))


def document_survey(survey: Survey) -> dict[str, object]:
    """Everything, for --json. scratch: bytes a lane; lds: bytes a block; waves: a SIMD."""
    fields = ("name", "device", "version", "fingerprint")
    return {
        "tree": survey.tree,
        "compiler": {key: getattr(survey.compiler, key) for key in fields},
        "files": {
            name: {
                "error": file.error,
                "kernels": {each.name: _numbers(n) for each, n in file.kernels.items()},
            }
            for name, file in survey.files.items()
        },
    }


def _numbers(numbers: Numbers) -> dict[str, int]:
    keys = ("sgprs", "vgprs", "spilled_sgprs", "spilled_vgprs", "scratch", "lds", "waves")
    return {key: asdict(numbers)[key] for key in keys}


def _head(survey: Survey) -> str:
    failed = sum(bool(file.error) for file in survey.files.values())
    rest = f", {failed} of them INVALID" if failed else ""
    return (
        f"{survey.tree}: {len(survey.files)} files{rest}, {len(survey.kernels)} kernels, "
        f"compiled by {survey.compiler.version} for {survey.compiler.device}; nothing was executed"
    )


def _row(name: str, file: Compiled) -> tuple[str, ...]:
    if file.error:
        return (name, *("-",) * 5, f"INVALID: {file.error}")
    numbers = list(file.kernels.values())
    spilled = [count for each in numbers if (count := count_spills(each))]
    scratch = [each.scratch for each in numbers if each.scratch]
    return (
        name,
        str(len(numbers)),
        _in_kernels(spilled, "registers"),
        _in_kernels(scratch, "B", top=True),
        str(max((each.vgprs for each in numbers), default="-")),
        str(min((each.waves for each in numbers), default="-")),
        "" if numbers else "no kernel: host code only",
    )


def _in_kernels(values: Sequence[int], unit: str, *, top: bool = False) -> str:
    if not values:
        return "0"
    many = "kernel" if len(values) == 1 else "kernels"
    amount = f"up to {max(values)}" if top else str(sum(values))
    return f"{amount} {unit} in {len(values)} {many}"


def _list_spilling(survey: Survey) -> list[str]:
    lines = list(_spilling_lines(survey))
    return ["\n".join(("with spills or scratch:", *lines))] if lines else []


def _spilling_lines(survey: Survey, quote: str = "") -> list[str]:
    found = [(each, n) for each, n in survey.kernels.items() if count_spills(n) or n.scratch]
    found.sort(key=lambda each: (-count_spills(each[1]), -each[1].scratch))
    lines = [
        f"{quote}{each.label}{quote}: {n.spilled_vgprs} VGPRs and {n.spilled_sgprs} SGPRs spilled, "
        f"{n.scratch} B scratch, {n.vgprs} VGPRs, {n.waves} waves"
        for each, n in found[:SHOWN]
    ]
    rest = len(found) - SHOWN
    return [*lines, f"and {rest} more, none of them worse (--json)"] if rest > 0 else lines
