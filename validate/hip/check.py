"""clang's word on the HIP kernels of one step, as a check among the others."""

from __future__ import annotations

from dataclasses import replace

from upstream.git import Git
from upstream.lab import Lab
from validate.hip.compiler import hip_compiler_at_hand
from validate.hip.run import (
    HipRun,
    HipSide,
    compare_sides,
    differing_files,
    list_few,
    say_left_out,
)
from validate.hip.sources import read_hip_tree
from validate.isa.check import StepPair, summarize
from validate.isa.workshop import open_workshop
from validate.shader_root import HIP_SUITE
from validate.verdict import CheckResult, Verdict

CHECK = "hip"
NOT_RUN = f"not run: no ROCm and no root (nox -s toolchain -- --suite {HIP_SUITE}, as root)"
SAME = "no file of ggml-cuda, nor what one includes, differs from the parent's"


def check_hip(lab: Lab, git: Git, pair: StepPair, jobs: int = 2) -> CheckResult:
    """Compile what a step changes in ggml-cuda and judge it; only shown, as "not run", without a
    compiler. Nothing is installed or made for it.
    """
    with open_workshop(lab, git, jobs) as shop:
        if shop.subtree(pair.step_tree) == shop.subtree(pair.parent_tree):
            return CheckResult(CHECK, Verdict.IDENTICAL, SAME, cached=True)
        parent = HipSide(pair.parent, read_hip_tree(shop, pair.parent_tree))
        step = HipSide(pair.step, read_hip_tree(shop, pair.step_tree), pair.allowance)
        if not differing_files(parent, step):
            return CheckResult(CHECK, Verdict.IDENTICAL, SAME, cached=True)
        compiler = hip_compiler_at_hand(lab, shop.folder)
        if compiler is None:
            return CheckResult(CHECK, Verdict.INFORMATION, NOT_RUN, cached=True)
        return summarize_hip(compare_sides(shop, [(parent, step)], lambda: compiler, bar=True))


def summarize_hip(run: HipRun) -> CheckResult:
    """The verdict on the one step of a run; equal numbers are no proof of equal code."""
    assert run.compiler is not None
    step = run.steps[0]
    found = replace(summarize(step.changes, [run.compiler.version]), cached=not run.fresh)
    facts = dict(found.facts) | {"files": list(step.files), "left out": step.left_out}
    if step.changes.changes:
        return replace(found, check=CHECK, facts=facts)
    if not step.changes.same:
        return CheckResult(CHECK, Verdict.INFORMATION, "the changed files have no kernel", facts)
    files = f"{list_few(step.files)}{say_left_out(step.left_out)}"
    kept = f"{step.changes.same} kernels keep their numbers ({files})"
    detail = f"{run.compiler.version}: {kept}"
    return CheckResult(CHECK, Verdict.PASS, detail, facts, cached=not run.fresh)
