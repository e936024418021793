"""Rules on what may be in one branch: areas, backends, new files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from validate.policy.additions import added_ids
from validate.policy.branch import Branch
from validate.policy.rule import Remark, red

HOST_BACKENDS = ("cpu", "blas", "rpc")  # no GPU; rpc only forwards
_BACKEND = re.compile(r"ggml/(?:src/ggml-([a-z0-9]+)/|include/ggml-([a-z0-9]+)\.h)")
_NO_BACKEND = ("alloc", "backend", "cpp", "opt", "impl")  # ggml-NAME.h of ggml itself
_APPLICATION = ("common/", "tools/", "examples/")
_SOURCE = (".c", ".cpp", ".h", ".hpp", ".cu", ".cuh")


def find_backends(branch: Branch) -> list[str]:
    """The backends of ggml whose files the topic changes."""
    found = (_BACKEND.match(change.path) for _, change in branch.changes())
    names = {match[1] or match[2] for match in found if match}
    return sorted(names - set(_NO_BACKEND))


def find_gpus(branch: Branch) -> list[str]:
    """The backends that are not of the host."""
    return [name for name in find_backends(branch) if name not in HOST_BACKENDS]


def judge_topic_areas(branch: Branch) -> Iterator[Remark]:
    """Areas that have little to do with each other; tests, docs and build files go with any."""
    name, gpus = branch.subject.topic.name, find_gpus(branch)
    if len(gpus) > 1:
        yield red(name, f"changes the backends {', '.join(gpus)}: one branch each")
    if branch.touches("ggml/") and branch.touches(*_APPLICATION):
        yield red(name, "changes ggml and programs: make two topics, one requires the other")
    programs = _list_programs(branch)
    if len(programs) > 1 and not branch.touches("common/", "src/", "include/"):
        yield red(name, f"changes {', '.join(programs)} with nothing in common: one branch each")


def _list_programs(branch: Branch) -> list[str]:
    paths = (PurePosixPath(change.path) for _, change in branch.changes())
    return sorted(
        {
            "/".join(path.parts[:2])
            for path in paths
            if path.parts[0] in ("tools", "examples") and len(path.parts) > 2
            if path.suffix != ".md"
        }
    )


def judge_cpu_first(branch: Branch) -> Iterator[Remark]:
    """A new type or operation and a GPU backend are two pull requests."""
    new, gpus = added_ids(branch), find_gpus(branch)
    if new and gpus:
        what = f"adds {', '.join(new)} and changes {', '.join(gpus)}: the CPU comes first, alone"
        yield red(branch.subject.topic.name, what)


def judge_test_files(branch: Branch) -> Iterator[Remark]:
    """Cases go into test files that are there."""
    for patch, change in branch.changes():
        if change.created and "tests" in PurePosixPath(change.path).parts[:-1]:
            yield red(patch.place(change), "a new file under tests/: ask maintainers first")


def judge_file_names(branch: Branch) -> Iterator[Remark]:
    """Dashes in C and C++, underscores in Python, all lower case."""
    for patch, change in branch.changes():
        path = PurePosixPath(change.path)
        if not change.created:
            continue
        if path.suffix in _SOURCE and not re.fullmatch(r"[a-z0-9.-]+", path.name):
            yield red(patch.place(change), "C and C++ file names are lower case with dashes")
        if path.suffix == ".py" and not re.fullmatch(r"[a-z0-9_]+\.py", path.name):
            yield red(patch.place(change), "Python file names are lower case with underscores")
