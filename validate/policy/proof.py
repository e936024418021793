"""Rules on proof: cases for changed operations, two backends, a test that bites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from validate import backend_ops, teeth
from validate.policy.additions import added_ids
from validate.policy.branch import Branch, Patch
from validate.policy.rule import Remark, green, red, unchecked
from validate.policy.scope import find_backends
from validate.touched import find_touched
from validate.verdict import CheckResult, Verdict

CASES = "tests/test-backend-ops.cpp"
NOT_VALIDATED = "not validated: nothing was run on this branch"


def judge_op_cases(branch: Branch) -> Iterator[Remark]:
    """A patch that changes how an operation is computed brings cases along, or the cases that are
    there show its results bit-exact."""
    if any(change.path == CASES and change.added for _, change in branch.changes()):
        return
    new = added_ids(branch, ("ggml_op", "ggml_unary_op", "ggml_glu_op"))
    if new:
        yield red(branch.subject.topic.name, f"adds {', '.join(new)} and no case to {CASES}")
    for patch in branch.patches:
        touched = find_touched(branch.subject.git, patch.parent, patch.commit)
        if not new and not touched.nothing:
            yield _judge_existing(branch, patch)


def _judge_existing(branch: Branch, patch: Patch) -> Remark:
    """What the cases that upstream has say of a patch that claims to change no result."""
    claims = branch.claim(patch).numerics
    backends = find_backends(branch) or ["cpu"]
    loose = [name for name in backends if claims.get(name) != "bit-exact"]
    if loose:
        what = f"changes operators, is not bit-exact on {', '.join(loose)}, adds no case to {CASES}"
        return red(patch.name, what)
    found = _list_ops(branch, patch)
    if found is None:
        return unchecked(patch.name, f"no new case, and {NOT_VALIDATED}")
    failed = [check.detail for check in found if check.verdict is Verdict.FAIL]
    if failed:
        return red(patch.name, f"no new case, and those there are fail: {failed[0]}")
    ran = {_device(check) for check in found if check.verdict is Verdict.PASS}
    without = [name for name in backends if not any(on.startswith(name) for on in ran)]
    if without:
        return unchecked(patch.name, f"no new case, and none ran on {', '.join(without)}")
    return green(patch.name, f"bit-exact on {', '.join(backends)} by the cases that are there")


def judge_two_backends(branch: Branch) -> Iterator[Remark]:
    """`test-backend-ops` compared a second backend with the CPU, for each patch to ggml."""
    for patch in branch.patches:
        if not any(change.path.startswith("ggml/") for change in patch.files):
            continue
        found = _list_ops(branch, patch)
        if found is None:
            yield unchecked(patch.name, NOT_VALIDATED)
            continue
        failed = [check.detail for check in found if check.verdict is Verdict.FAIL]
        passed = {_device(check) for check in found if check.verdict is Verdict.PASS}
        if failed:
            yield red(patch.name, f"test-backend-ops: {failed[0]}")
        elif not passed - {"cpu"}:
            yield unchecked(patch.name, "test-backend-ops ran on no second backend")


def _list_ops(branch: Branch, patch: Patch) -> list[CheckResult] | None:
    checks = _checks_of(branch, patch)
    return None if checks is None else [c for c in checks if c.check == backend_ops.CHECK]


def _checks_of(branch: Branch, patch: Patch) -> Sequence[CheckResult] | None:
    every = branch.evidence.checks
    return None if every is None else every.get(patch.name)


def _device(check: CheckResult) -> str:
    return str(check.facts.get("device", "")).lower()


def judge_regression(branch: Branch) -> Iterator[Remark]:
    """The patch's own check: red without it, green with it."""
    for patch in branch.patches:
        if not branch.claim(patch).check:
            yield red(patch.name, "names no check in series.toml: nothing fails without it")
            continue
        checks = _checks_of(branch, patch)
        if checks is None:
            yield unchecked(patch.name, NOT_VALIDATED)
            continue
        found = [check for check in checks if check.check == teeth.CHECK]
        yield _judge_teeth(patch, found)


def _judge_teeth(patch: Patch, found: Sequence[CheckResult]) -> Remark:
    if not found:
        return unchecked(patch.name, "the validation did not run its own check")
    result = found[0]
    if result.verdict is Verdict.PASS:
        return green(patch.name, f"green with the patch, red without: {result.detail}")
    if result.verdict is Verdict.FAIL:
        return red(patch.name, result.detail)
    return unchecked(patch.name, f"{result.verdict.value}: {result.detail}")
