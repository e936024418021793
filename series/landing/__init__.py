"""Whether upstream has what a patch does: patch-id, hunks, the plain tree.

`isolate_series` takes a series apart, a `Ground` is one upstream version, `classify_patch` and
`judge_hunks` say how a patch stands on it.
"""
